"""What can be said without training.

A spectrum is `pod`: `domain` and `evaluate` say where and how rho is asked, within the budget of
`watch`. `search` goes from `cross` to `cross` on the grids of `panels`; couplings with kinks go to
`kinks` (`galerkin`, `breaks`), samples to `matrix`. `fresh` certifies what `decomposition` returns.
The law that a spectrum follows is `decay`, with the files beside it that begin with its name.
What belongs to a target: `basis` (the POD of its coupling), `complexity` (C0, C1, C2; functions are
measured by `feedforward`, with `smooth` and `fourier`), `bounds` (Theorem 4.1), and `recurrent`
(C_RNN). `compile` writes a target into the weights of Eq. 5, `represent` writes a map as Eq. 8.
`propositions` and `invariants` run statements of the paper; each gives a `check`.
`expression` reads a coupling that a user typed.
"""
