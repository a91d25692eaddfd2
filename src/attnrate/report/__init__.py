"""The page of a reproduction; nothing is run here.

- `page.py` writes the page with its files
- `sentences.py` has the five sentences with which the page opens, and what they rest on
- `beside.py` has the full run that comes with the package, and compares a run with it
- `thin.py` says panels with too few points in a sentence
- `verdicts.py` writes verdicts on the page, in Markdown and in a terminal
- `settling.py` has what settling says on a terminal
- `terminal.py` has what is said on a terminal on the way, and the ten lines at the end
"""
