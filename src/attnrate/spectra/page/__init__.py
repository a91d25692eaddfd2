"""The page of a profile.

- `write.py` writes the page with its files
- `figures.py` has its figures as plain data, `words.py` its words
"""
