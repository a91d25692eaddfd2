"""The page of a reproduction; nothing is run here.

- `page.py` writes the page with its files
- `verdicts.py` writes verdicts on the page, in Markdown and in a terminal
"""
