"""Figures: what is drawn, as data, laid out once, and painted in three ways.

- `figure.py` has figures and tables as plain data
- `sketch.py` lays a figure out as marks in frames, which `marks.py` defines, with `axes.py` for
  ranges and ticks, `violins.py` for outlines and `style.py` for colours and looks
- `draw.py` paints marks and frames by matplotlib, for papers, as the `Drawing` of `drawing.py`;
  `labels.py` writes words beside points of it
- `interactive.py` paints them by plotly, for pages, where `layout.py` places the frames
- `svg.py` paints them as small pictures, for pages without plotly, with the outlines of
  `symbols.py` and the shades of `shades.py`
- `words.py` writes numbers and intervals as text
"""
