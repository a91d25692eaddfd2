"""The skeleton of every page: one HTML file that loads nothing, with plots, in light and dark.

A page is a template, in a folder `templates` of the package that writes the page, that extends
base.html.j2 of this room; the macros of parts.html.j2 draw figures and tables. A figure is drawn by
plotly, with much to point at and 4.8 MB of script, or is a picture of a few kB (`drawn`). Text is
escaped by jinja2, data are JSON in which nothing can end a script, and the Content-Security-Policy
lets only the page's own scripts run, by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from attnrate.extras import missing
from attnrate.figures.figure import Figure
from attnrate.figures.interactive import interactive
from attnrate.figures.layout import BREAKS, WIDTHS
from attnrate.figures.shades import shade_rules
from attnrate.figures.style import COLOURS, css_variables, light_to_dark
from attnrate.figures.svg import painted
from attnrate.figures.words import cell, duration
from attnrate.pages.formulas import formulas

if TYPE_CHECKING:
    from jinja2 import Environment


_ROOM = "attnrate.pages"


@dataclass(frozen=True)
class Own:
    """What a page has of its own, by names of files in the folder `templates` of its package.

    Attributes:
        package: The full name of the package.
        template: The template of the page.
        styles: Style sheets, after the one that all pages share.
        scripts: Scripts, after the one that changes the theme.
        pictures: Whether figures are pictures (`drawn`), which need a style sheet of theirs.

    """

    package: str
    template: str
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    pictures: bool = False


def render(
    own: Own,
    plots: Mapping[str, Figure] | None = None,
    data: Mapping[str, Any] | None = None,
    **context: Any,
) -> str:
    """Render a template as a page.

    Args:
        own: The template with its styles and scripts.
        plots: Figures that plotly draws, by the ids of the elements in which they are drawn.
        data: What scripts read, as JSON values by the ids of the elements that hold them.
        **context: What the template names.

    Returns:
        The page as HTML.

    """
    environment = _environment(own.package)
    from markupsafe import Markup

    scripts = [_text_of("theme.js"), *(_text_of(name, own.package) for name in own.scripts)]
    held = dict(data or {})
    if plots:
        scripts += [_plotly(), _text_of("plots.js")]
        held["plots"] = _payload(plots)
    styles = [_text_of("style.css")]
    if own.pictures:
        styles += [_text_of("pictures.css"), shade_rules()]
    styles += [_text_of(name, own.package) for name in own.styles]
    return environment.get_template(own.template).render(
        **context,
        palette=Markup(css_variables()),
        style=Markup("\n".join(styles)),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts, bool(plots)),
        data={place: Markup(safe_json(value)) for place, value in held.items()},
        backgrounds=COLOURS["background"],
    )


def drawn(figure: Figure, file: str) -> dict[str, Any]:
    """A figure as pictures for the macro `drawing`; `file` is that of its PNG and SVG, bare."""
    _environment(_ROOM)
    from markupsafe import Markup

    found = painted(figure)
    return {
        "figure": figure,
        "file": file,
        "panels": [Markup(panel) for panel in found.panels],
        "legend": [(Markup(sample), label) for sample, label in found.legend],
    }


def safe_json(value: object) -> str:
    """A value as JSON that can stand inside a script element: nothing in it ends or opens one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _payload(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """What the script of the page draws from: plots for each width, and the colours in dark."""
    plots = {}
    for place, figure in figures.items():
        drawn = {width: interactive(figure, width) for width in WIDTHS}
        layouts = {width: one["layout"] for width, one in drawn.items()}
        plots[place] = {"data": drawn["wide"]["data"], "layouts": layouts}
    return {"plots": plots, "dark": light_to_dark(), "breaks": BREAKS}


def _policy(scripts: list[str], plots: bool) -> str:
    """The Content-Security-Policy of a page with these scripts; `plots` are those of plotly."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # plotly.js writes a style element; images are those beside the page and those of plotly.js.
    images = "img-src 'self' file: data: blob:; " if plots else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; {images}"
        "base-uri 'none'; form-action 'none'"
    )


def require_extra(plots: bool = True) -> None:
    """Raise an InputError before the work where a package that makes pages is not installed.

    Without `plots` the page has none of plotly, which is then not needed.
    """
    _environment(_ROOM)
    if plots:
        _plotly()


@cache
def _environment(package: str) -> "Environment":
    """The environment of jinja2 with our filters, and the templates of a package and this room."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise missing("jinja2", "report", "the page", "jinja2") from None
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _ROOM))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "duration": duration, "formulas": formulas}
    return environment


@cache
def _plotly() -> str:
    """The script of plotly.js, so that it can stand in a page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise missing("plotly", "report", "the page", "plotly") from None
    # A script is hashed as the browser reads it: with plain line ends.
    script: str = get_plotlyjs()
    return script.replace("\r\n", "\n").replace("</script", "<\\/script")


@cache
def _text_of(name: str, package: str = _ROOM) -> str:
    """The text of a file in the folder `templates` of a package."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")
