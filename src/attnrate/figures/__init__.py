"""Figures: what is drawn, as data, laid out once, and painted in two ways.

`figure.py` has figures and tables as plain data. `sketch.py` lays a figure out as marks in frames,
with `axes.py` for ranges and ticks, `violins.py` for outlines and `style.py` for the palette and
the looks; `marks.py` says what marks and frames are. Two painters know marks and frames only, never
what they show: `draw.py` by matplotlib, for papers, and `interactive.py` by plotly, for pages,
where `layout.py` places the frames. `words.py` says numbers.
"""
