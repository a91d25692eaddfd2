"""People's own data: is attention needed, and how much of it.

- `samples`: windows of a series, or whole sequences, with what is wanted for each; `folds`: how they
  are divided
"""
