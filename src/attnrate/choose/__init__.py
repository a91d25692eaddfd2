"""People's own data: is attention needed, and how much of it.

- `samples`: windows of a series, or whole sequences, with what is wanted for each; `folds`: how
  they are divided
- the ladder, without training: `features` and their `sums`, `rungs` (least squares of each class of
  maps) and `positions` (of linear maps by position), `judged` (errors by unit), `kernel`, all
  called by `ladder`; `enough`: the simplest class that no other beats; `least_squares`: a class as
  a model
"""
