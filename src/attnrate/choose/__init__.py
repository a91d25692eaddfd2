"""People's own data: is attention needed, and how much of it.

- Samples: `samples.py` has windows of a series, or whole sequences, with what is wanted for each;
  `folds.py` divides them.
- One fit: `contender.py` says what a contender is, `contenders/` has one a file, `training.py` and
  `least_squares.py` fit it, `judging.py` says what it does on held-out samples, `predictor.py` is
  the fitted model in units of the data, `winner.py` trains it on all samples.
- The race: `jobs.py` are fits as jobs of a sweep, `planning.py` says how many steps fit into some
  minutes, `comparing.py` compares errors in pairs, `race.py` compares contenders, `heads.py` head
  sizes.
"""
