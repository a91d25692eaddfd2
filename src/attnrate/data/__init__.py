"""Real data and real weights: fetched from package registries, verified, cached."""
