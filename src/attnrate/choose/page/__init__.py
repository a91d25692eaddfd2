"""The page of an answer, as `Choice.save` writes it.

- `write.py` writes the page with its files: figures, tables, the answer as JSON, the fitted winner
- `render.py` makes the page from the figures of `choose/drawn.py`, the tables of `tables.py` and
  the sentences of `words.py`
"""
