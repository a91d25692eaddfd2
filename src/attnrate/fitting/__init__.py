"""The smallest error that can be found: fits, brackets, and sweeps of many.

- One fit: `recipe.py` how to train, `train.py` one run, `fit.py` the best of several, judged on
  fresh inputs; `warm.py` starts from the compiled Transformer; `bracket.py` adds the lower bound.
- Settings: `trial.py` is a fit as plain values, `spec.py` reads grids of them from TOML, `build.py`
  makes the target, the model and the recipe that they name.
- Many jobs: `job.py` says what a job is, `sweep.py` runs those that are not in the store,
  `engines/` are this machine or a Ray cluster, `store.py` keeps results in SQLite (`records.py` its
  rows, `owner.py` who is at work), `table.py` writes them as CSV or Parquet.
- `provenance.py` says which versions made a result, `device.py` where torch works.
"""
