"""Pages and words about what was found; nothing is run here.

`skeleton.py` makes one HTML file of a template and figures, in light and dark, and `templates/` has
the templates. `page.py` writes the page of a reproduction with its files, `verdicts.py` says the
verdicts on the page, in Markdown and in a terminal. `profile_page.py` writes the page of a profile,
with the figures of `profile_figures.py` and the words of `profile_words.py`.
"""
