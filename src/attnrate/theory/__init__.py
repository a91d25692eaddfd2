"""What can be said about couplings and targets without training.

- `pod.py` computes the spectrum of a coupling. `domain.py` says where rho is defined, `evaluate.py`
  calls it, `watch.py` keeps the budget. `search.py` repeats the cross approximation (`cross.py`) on
  finer and finer grids (`panels.py`); couplings with kinks are decomposed by `kinks.py` (with
  `galerkin.py` and `breaks.py`), samples by `matrix.py`. `fresh.py` tests the result, which
  `decomposition.py` describes. `expression.py` reads a coupling that a user typed.
- `decay.py` fits the law that a spectrum follows; `decay_*.py` are its parts.
- `basis.py` has the POD of a target's own coupling; `complexity.py` has C0, C1 and C2, with
  `feedforward.py` (and `family.py`) for functions of one to three variables: `smooth.py`,
  `fourier.py` on an interval, `smooth_boxes.py`, `fourier_boxes.py` on boxes and unions
  (`variables.py`), `hoelder.py` on both, `simplices.py` for interpolants; `bounds.py` has
  Theorem 4.1, `bound_curve.py` its curve over the head size; `recurrent.py` has C_RNN.
- `compile.py` writes a target into the weights of Eq. 5; `represent.py` (with `slots.py`) writes a
  sequence map in the form of Eq. 8. `rank_one.py` (with `prony.py`) writes an equivariant map of
  scalar tokens into Eq. 5 with m_h = 1, and `steepness.py` says how steep F must then be.
- `symmetry.py` has exact floors of models that commute with permutations; `positioned.py` writes
  linear targets into Eq. 5 with position encodings.
- `unmixing.py` undoes a filter of the inputs, as a convolution and as a linear RNN, and
  `blurred.py` says how much of a mixed coupling pairs of tokens can have.
- `propositions.py`, `permuting.py` and `invariants.py` test statements of the paper by runs; the
  result of each is a `Check` (`check.py`).
"""
