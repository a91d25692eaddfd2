"""The made-up records, figures and profiles that tests of figures and of pages share."""

from made_up import figures, made, records

__all__ = ["figures", "made", "records"]
