"""What every page shares; the pages themselves are written by the rooms whose results they show.

- `skeleton.py` makes one HTML file from a template and figures, in light and dark, with the parts,
  the style and the scripts of `templates/`
- `formulas.py` sets the formulas of plain text
- `facts.py` names the files of a page's folder, and lists what made the numbers of a page
"""
