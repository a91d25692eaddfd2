"""Code that several experiments share.

`fits.py` has errors of fits over sizes and seeds: means, power laws, curves and tables.
`spectral.py` has the targets of Sec. 5.1, `curves.py` the jobs and curves of Fig. 1, `cells.py`
tables of models against targets. `maps.py` fits targets and measures the learned attention;
`panels.py` turns these measurements into claims, figures and tables. `real.py` trains models on
real data, `images.py` those on CIFAR-10.
"""
