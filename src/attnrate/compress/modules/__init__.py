"""Attention modules with smaller heads, one file for each family of models."""
