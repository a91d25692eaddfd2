"""The page of a profile, as `Profile.save` writes it.

- `write.py` writes the page with its files: figures, a table of heads, the spectra
- `render.py` makes the page from the sentences of `words.py`, the sizes and bytes of `savings.py`,
  the figures of `figures.py` and the compact data of all heads of `heads.py`
- `subject.py` has what all of them read, `layers.py` the labels and parts of layers
"""
