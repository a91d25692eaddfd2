"""Numbers, intervals and text from outside as words, alike on pages, in figures and terminals."""

import html
import math
import textwrap
import unicodedata

from attnrate.figures.figure import Cell, Number
from attnrate.statistics import Interval, decades

NOTHING = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def clean(text: str) -> str:
    """The text on one line, without control characters, which some outputs obey or refuse."""
    return _printable(" ".join(text.split()))


def clean_lines(text: str) -> str:
    """The text in its own lines, without control characters: a traceback, for a terminal."""
    return "\n".join(_printable(line.expandtabs()) for line in text.splitlines())


def _printable(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cs"))


def wrapped(text: str, width: int) -> list[str]:
    """The cleaned text in lines of about that many characters; at least one line."""
    return textwrap.wrap(clean(text), width) or [""]


def unbroken(text: str) -> str:
    """The text with spaces and dashes at which no line is broken."""
    return text.replace(" ", "\u00a0").replace("–", "\u2060–\u2060")


def escaped(text: str, width: int = 1000) -> str:
    """Text from outside for plotly, which reads a little HTML: lines, and no markup of its own."""
    # between two dollar signs plotly reads a formula
    return "<br>".join(
        html.escape(line, quote=False).replace("$", "&#36;") for line in wrapped(text, width)
    )


def power(base_ten: int) -> str:
    """10 to a whole power, with a raised exponent."""
    return "10" + str(base_ten).translate(_SUPERSCRIPTS)


def fixed(value: Number, form: str) -> str:
    """A number in a format, with a true minus sign; zero has none."""
    text = format(value, form)
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: Number, form: str = "+.3g") -> str:
    """A change in a format, with its sign, which is a true minus or a plus; zero has none."""
    text = fixed(value, form)
    return "0" if float(text.replace("−", "-")) == 0 else text


def change_words(change: Interval) -> str:
    """A change with its interval, all with their signs: "+2 [+1.5, +2.5]"."""
    if math.isnan(change.low):
        return signed(change.value)
    return f"{signed(change.value)} [{signed(change.low)}, {signed(change.high)}]"


def number(value: Number | None) -> str:
    """A number to three digits, an integer in full, and a dash for None and nan."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, int):
        return fixed(value, "d")
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    mantissa, exponent = f"{value:.2e}".split("e")
    if value != 0 and not -3 <= int(exponent) < 5:
        return f"{fixed(float(mantissa), '.3g')}×{power(int(exponent))}"
    rounded = float(f"{value:.3g}")
    return fixed(rounded, ".0f" if abs(rounded) >= 1000 else ".3g")


def cell(value: Cell) -> str:
    """A cell of a table as text."""
    return value if isinstance(value, str) else number(value)


def with_interval(value: Number | None, low: Number | None, high: Number | None) -> str:
    """A number with its interval where it has one: 0.5 [0.4, 0.6].

    Of an interval over two decades or more only its width is said.
    """
    if low is not None and high is not None and (wide := decades(low, high)) is not None:
        return f"{number(value)} (interval over {wide} decades)"
    ends = number(low), number(high)
    return number(value) + ("" if NOTHING in ends else f" [{ends[0]}, {ends[1]}]")


def duration(seconds: float) -> str:
    """A time in hours, minutes or seconds, whichever suits it."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"
