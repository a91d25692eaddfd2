"""People's own data: is attention needed, and how much of it.

- `samples`: windows of a series, or whole sequences, with what is wanted for each; `folds`: how
  they are divided
- `data`: samples from a frame, `arrays` or a file (`files`): `columns` says which column is what,
  `cells` makes numbers of it, `clock` reads times and finds gaps, `windows` are cut, `leaks` are
  covariates that give the target away, and `account` is what people are told of all this
"""
