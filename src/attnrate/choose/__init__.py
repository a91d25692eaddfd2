"""People's own data: is attention needed, and how much of it.

- Samples: `samples` are windows of a series, or whole sequences, with what is wanted for each;
  `folds` says how they are divided.
- From what people have: `data` makes samples of a frame, `arrays` or a file (`files`): `columns`
  says which column is what, `cells` makes numbers of it, `clock` reads times and finds gaps,
  `windows` are cut, `leaks` are covariates that give the target away, and `account` says all this
  to people.
- The ladder, without training: `features` and their `sums`, `rungs` (least squares of each class of
  maps) and `positions` (of linear maps by position), `drift` (filters from near and far),
  `rung_errors` by unit, `kernel`, all called by `ladder`; `enough`: the simplest class that no
  other beats; `rung_model`: a class that predicts.
- One fit: `contender` says what a contender is, `contenders/` has one a file, `training` and
  `least_squares` fit it, `judging` says what it does on held-out samples, `predictor` is the fitted
  model in units of the data, `winner` trains it on all samples.
- The race: `jobs` are fits as jobs of a sweep, `planning` says how many steps fit into a time,
  `comparing` compares errors in pairs, `race` compares contenders, with least squares among them
  on its folds (`on_folds`); `heads` compares head sizes.
- The answer: `verdict` concludes, `choose` is the one call over all of it, after `outliers` have
  been drawn in; `result` is what it gives, `using` predicts by it, `plain` makes JSON values of it,
  `drawn` pictures, `page/` a page with all its files, and `saved` opens these again.
"""
