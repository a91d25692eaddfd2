"""What several experiments share: cells of tables, spectral targets, attention maps, real data."""
