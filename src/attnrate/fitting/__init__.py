"""The smallest error that can be found: recipes, fits, brackets, and sweeps of them."""
