"""What several experiments share.

`fits.py` has errors of fits over sizes and seeds, with power laws, curves and tables; `spectral.py`
the targets of Sec. 5.1; `curves.py` the work and the curves of Fig. 1; `cells.py` tables of models
against targets; `maps.py` fits whose attention is measured, `panels.py` what comes of them;
`real.py` trainings on real data, `images.py` those on CIFAR-10.
"""
