"""Formulas in plain text as formulas of a page: m_h^-0.5 with its index and its exponent.

Experiments write their sentences for every output, so that a formula in them is plain text. Here
single letters become variables, `_h` an index, `^-0.5` an exponent, `H~` a letter with a tilde and
`1e-7` a power of ten. Everything else is kept, and escaped.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_LETTER = "A-Za-zΑ-Ωα-ωÂĤ"
#: What may stand above a letter: a tilde that is written behind it, or a mark of its own
_ABOVE = "[~\u0302\u0303]"
_EXPONENT = rf"[-−]?(?:∞|\d+(?:\.\d+)?|\([^()]*\)|[{_LETTER}](?:_\w+)?(?:\([^()]*\))?)"
_TOKEN = re.compile(
    # 1.2e-7
    rf"(?P<mantissa>(?<![\w.])\d+(?:\.\d+)?)e(?P<ten>[+-]?\d+)(?!\w)"
    # sqrt(σ_k)
    r"|(?<!\w)sqrt\((?P<root>[^()]*)\)"
    # t-s within brackets
    rf"|(?<=[(\[])(?P<left>[{_LETTER}])(?P<sign>[-+])(?P<right>[{_LETTER}\d])(?=[)\]])"
    # ‖θ‖_1, mean_t
    r"|(?P<norm>‖|\b(?:mean|max|min))_(?P<of>\w+)"
    rf"|\^(?P<power>{_EXPONENT})"
    # m_h, C1, H~, x, t'; neither a word, nor the I of a sentence, nor the B of App. B.1
    rf"|(?<![\w.'’`])(?<!\w-)(?P<base>[{_LETTER}])(?P<above>{_ABOVE}?)"
    r"(?:_(?P<below>[A-Za-z0-9Α-Ωα-ω]+)|(?P<digit>\d)|(?P<prime>')(?!\w)|)"
    r"(?![\w’`\-]|'(?!s\b)|\.\w)"
    r"|(?P<compared><=|>=)"
    rf"|(?:^|(?<=[(\[,=^ ]))(?P<minus>-)(?=[\d∞.]|[{_LETTER}](?!\w)|(?<= -) )"
)
_COMPARED = {"<=": "≤", ">=": "≥"}
_WORDS = ("a", "A", "I", "Σ")
#: From this power of ten on a number is written without one: 1.2e+03 is 1200
_PLAIN = range(-3, 5)


def formulas(text: str) -> "Markup":
    """The text as HTML in which formulas are set; what could be markup in it is escaped.

    Args:
        text: Plain text with formulas as experiments write them.

    """
    from markupsafe import Markup

    return Markup("").join(_pieces(text))


def _pieces(text: str) -> "list[Markup]":
    """The text in pieces of HTML."""
    from markupsafe import escape

    found, end = [], 0
    for token in _TOKEN.finditer(text):
        found += [escape(text[end : token.start()]), _set(token)]
        end = token.end()
    return [*found, escape(text[end:])]


def _set(token: re.Match[str]) -> "Markup":
    """One formula as HTML."""
    from markupsafe import Markup, escape

    part = token.groupdict()
    if part["ten"]:
        power = int(part["ten"])
        if power in _PLAIN:
            return escape(f"{float(token.group()):.10g}")
        return Markup("{}×10<sup>{}</sup>").format(part["mantissa"], str(power).replace("-", "−"))
    if part["root"] is not None:
        whole = " " in part["root"]
        return Markup("√({})" if whole else "√{}").format(formulas(part["root"]))
    if part["left"]:
        sides = _variable(part["left"]), part["sign"].replace("-", "−"), _variable(part["right"])
        return Markup("{}{}{}").format(*sides)
    if part["norm"]:
        return Markup("{}<sub>{}</sub>").format(part["norm"], part["of"])
    if part["power"]:
        inner = re.sub(r"^\((.*)\)$", r"\1", part["power"]).replace("-", "−")
        return Markup("<sup>{}</sup>").format(formulas(inner))
    if part["base"]:
        return _symbol(part)
    return escape(_COMPARED.get(part["compared"] or "", "−"))


def _symbol(part: dict[str, str | None]) -> "Markup":
    """A letter with what stands above, below and behind it."""
    from markupsafe import Markup, escape

    base, index = part["base"] or "", part["below"] or part["digit"]
    above = (part["above"] or "").replace("~", "\u0303")
    if base in _WORDS and not (above or index or part["prime"]):
        return escape(base)
    below = Markup("<sub>{}</sub>").format(index) if index else ""
    return Markup("{}{}{}").format(_variable(base + above), below, "′" if part["prime"] else "")


def _variable(letter: str) -> "Markup":
    """A letter that stands for something; a digit is itself."""
    from markupsafe import Markup, escape

    return escape(letter) if letter.isdigit() else Markup("<var>{}</var>").format(letter)
