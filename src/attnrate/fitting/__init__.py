"""The smallest error that training finds: fits, brackets, and sweeps over grids of fits.

- One fit: `given.py` checks what it takes, `recipe.py` has the settings of training, `train.py`
  makes one run, `fit.py` takes the best of several and judges it on fresh inputs. `warm.py` starts
  from the compiled Transformer; `bracket.py` adds the lower bound.
- Settings: `trial.py` is a fit as plain values, `spec.py` reads grids of trials from TOML,
  `build.py` makes the target, the model and the recipe that they name.
- Many jobs: `job.py` says what a job is, `sweep.py` runs the jobs that are not in the store,
  `engines/` run them on this machine or a Ray cluster, `ship.py` sends a user's functions there.
- Results: `store.py` keeps them in SQLite (`records.py` its rows, `owner.py` who is at work),
  `result.py` is what a sweep gives, `means.py` its table of mean errors, `table.py` writes CSV and
  Parquet.
- `progress.py` shows a sweep's progress, `provenance.py` says which versions made a result,
  `device.py` where torch computes.
"""
