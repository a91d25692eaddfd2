"""Pages and words about what was found; nothing is run here.

- `skeleton.py` makes one HTML file from a template of `templates/` and figures, in light and dark
- `page.py` writes the page of a reproduction with its files
- `verdicts.py` writes verdicts on the page, in Markdown and in a terminal
- `profile_page.py` writes the page of a profile, with the figures of `profile_figures.py` and the
  words of `profile_words.py`
"""
