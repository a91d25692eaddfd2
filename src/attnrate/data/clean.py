"""Turning messages of programs and their translations into sentence pairs to learn from."""

import html
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

FEWEST_WORDS, MOST_WORDS = 4, 60

_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)([^<>]*)>")
# tags that are written without an end
_UNCLOSED = {"br", "dd", "dt", "hr", "html", "img", "li", "nl", "p", "qt", "td", "th", "tr"}
# placeholders of printf, Python, Qt and KDE, shell and gettext's macros; any other has a "%"
_PLACEHOLDER = re.compile(r"%|\{[^{}]*\}|\$\(?\{?\w|@\w+@|\\[a-z0-9]|<[^<>]*>|\[[^\[\] ]*\]")
_ADDRESS = re.compile(r"\w+://|www\.|\S@\S+\.\w")
_TABLE = re.compile(r"\S {3,}\S|\n\s*-|\t")
_MARKS = str.maketrans(
    {
        **dict.fromkeys("„“”«»‟", '"'),
        **dict.fromkeys("‚‘’‹›`´", "'"),
        **dict.fromkeys("–—−", "-"),
        **dict.fromkeys("\u00ad\u200b\u200e\u200f\ufeff"),
        "…": "...",
    }
)
_END = re.compile(r"\s*(\.\.\.|[.:!?])$")
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = """
the and of to is are was be this that with for from not you your have has if can will when which it
as by an or
"""
# without "in", "an", "also", "war" and "die", which are English words too
_GERMAN = """
der das des dem den ein eine einen einem einer und oder ist sind wird werden wurde wurden nicht mit
für von vom zu zum zur auf aus bei beim nach über unter durch kein keine keinen sie ihre ihr es kann
können konnte soll sollen muss müssen diese dieser dieses diesem wenn dass als auch nur noch im ins
bereits haben hat
"""
_ENGLISH_WORDS, _GERMAN_WORDS = frozenset(_ENGLISH.split()), frozenset(_GERMAN.split())
_UMLAUT = re.compile("[äöüßÄÖÜ]")


@dataclass(frozen=True)
class Cleaned:
    """The sentence pairs of a package in their order, and the number of its messages."""

    messages: int
    pairs: list[tuple[str, str]]


def cleaned(messages: Iterable[tuple[str, str]]) -> Cleaned:
    """The pairs that `clean` makes of these messages; a sentence may occur more than once."""
    given = list(messages)
    return Cleaned(len(given), [pair for pair in (clean(*message) for message in given) if pair])


def clean(english: str, german: str) -> tuple[str, str] | None:
    """The pair as plain sentences, or None when it is not one to learn from.

    Tags and accelerators (`_File`, `&File`, `~File`) are removed, quotation marks made alike, and a
    final mark that only one side has is dropped. None is returned for pairs with placeholders
    (also <file>, which looks like a tag but has neither end nor attributes), addresses or tables,
    for text that was not translated, and for sides whose lengths do not fit.
    """
    # most messages are short labels, so the cheapest check comes first
    if len(english.split()) < FEWEST_WORDS:
        return None
    if any(_TABLE.search(side.strip()) for side in (english, german)) or "|" in english:
        return None
    english, german = (_plain(side) for side in (english, german))
    english, german = _without_accelerators(english, german)
    english, german = _same_end(english, german)
    if any(_PLACEHOLDER.search(side) or _ADDRESS.search(side) for side in (english, german)):
        return None
    if not _lengths_fit(english, german) or not _are_words(english, german):
        return None
    return (english, german) if _translated(english, german) else None


def key(sentence: str) -> str:
    """A key that is equal for sentences that differ only in case, digits, marks or spaces."""
    return " ".join(_WORD.findall(sentence.casefold()))


def _without_tags(text: str) -> str:
    closed = {name.lower() for end, name, _ in _TAG.findall(text) if end}

    def bare(found: re.Match[str]) -> str:
        end, name, rest = found.groups()
        known = name.lower() in closed | _UNCLOSED
        return " " if end or known or "=" in rest or rest.endswith("/") else found[0]

    return _TAG.sub(bare, text)


def _plain(text: str) -> str:
    text = html.unescape(_without_tags(text)).translate(_MARKS)
    return " ".join(unicodedata.normalize("NFC", text).split())


def _without_accelerators(english: str, german: str) -> tuple[str, str]:
    """Both sides without accelerators; a marked word that both sides have is a name and stays."""
    names = set(english.split()) & set(german.split())

    def bare(text: str) -> str:
        words = text.split()
        return " ".join(
            word if word in names else re.sub(r"[_&~](?=\w)", "", word, count=1) for word in words
        )

    return bare(english), bare(german)


def _same_end(english: str, german: str) -> tuple[str, str]:
    ends = [found and found[1] for found in (_END.search(english), _END.search(german))]
    if ends[0] == ends[1]:
        return english, german
    return _END.sub("", english), _END.sub("", german)


def _lengths_fit(english: str, german: str) -> bool:
    few, many = len(english.split()), len(german.split())
    if not (FEWEST_WORDS <= few <= MOST_WORDS and 1 <= many <= MOST_WORDS):
        return False
    # German joins words and has longer ones, so letters are the better measure
    return 0.5 < len(german) / len(english) < 2.2 and 0.33 < many / few < 2.2


def _are_words(english: str, german: str) -> bool:
    """Whether both sides consist mostly of Latin letters and of marks that sentences have."""
    for side in (english, german):
        letters = sum(map(str.isalpha, side))
        if letters < 0.7 * len(side) or any(ord(c) > 0x17F and c.isalpha() for c in side):
            return False
        if re.search(r"[_=\\^~<>{}|#]|\ufffd|Ã|--|\w\(", side):
            return False
    return len(_WORD.findall(english)) >= FEWEST_WORDS


def _translated(english: str, german: str) -> bool:
    ours, theirs = key(english).split(), key(german).split()
    kept = len(set(ours) & set(theirs)) / max(1, len(set(theirs)))
    if kept > 0.5 or not theirs:
        return False
    foreign = sum(word in _ENGLISH_WORDS for word in theirs)
    native = sum(word in _GERMAN_WORDS for word in theirs) + bool(_UMLAUT.search(german))
    # the English side may be German as well, where programs are written in German
    swapped = sum(word in _GERMAN_WORDS for word in ours) + bool(_UMLAUT.search(english))
    return foreign <= native and swapped <= sum(word in _ENGLISH_WORDS for word in ours)
