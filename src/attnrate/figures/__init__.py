"""Figures: what is drawn, as data, and two ways to draw it from one geometry.

`figure.py` has figures and tables as plain data; `geometry.py` works out values, ranges and ticks
for both ways, `style.py` the look. `draw*.py` draw with matplotlib, for papers; `interactive*.py`
and `layout.py` describe the same for plotly, for pages. `words.py` says numbers.
"""
