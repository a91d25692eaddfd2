"""The page of a profile and the files beside it: figures, a table of heads, the spectra as JSON."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnrate.errors import InputError
from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Cell, Figure, Table
from attnrate.figures.words import NOTHING, number
from attnrate.files import safe_name
from attnrate.folders import filled_at_once, look_at
from attnrate.report.page import FIGURES, PAGE, facts_of
from attnrate.report.profile_figures import profile_figures
from attnrate.report.profile_words import INTRO, SECTIONS, meanings
from attnrate.report.skeleton import render, require_extra
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.result import Profile
from attnrate.spectra.saved import write_data
from attnrate.words import Gauge

if TYPE_CHECKING:
    import pandas as pd

COMMAND = "profile"
_ADVICE = {
    "layer": "layer",
    "name": "name",
    "m_h": "m_h",
    "size": "size advised",
    "low": "could be as small as",
    "predicted": "predicted loss of attention",
    "predicted_high": "high end of its interval",
}
_SHARES = (0.05, 0.5, 0.95)  # quantiles over inputs that are kept


def write_profile(profile: object, folder: object, advice: object = None) -> Path:
    """Write index.html and the files beside it, and return the path of index.html.

    The files are figures/, heads.csv, profile.json, and moments.safetensors for `load_profile`.

    The folder must be new, empty, or one that an earlier call has made. Either all files are
    written or none.
    """
    if not isinstance(profile, Profile):
        raise InputError("this is not a profile", type(profile).__name__, "Call profile() first.")
    place = look_at(folder, COMMAND)[0]
    figures = profile_figures(profile)
    page = render_profile(profile, figures, advice)
    plain = json.dumps(profile_to_plain(profile), ensure_ascii=False, allow_nan=False, default=str)
    table = profile.to_frame().to_csv(index=False, lineterminator="\n")
    with filled_at_once(place, COMMAND) as fresh:
        (fresh / FIGURES).mkdir()
        for figure in figures.values():
            save_figure(figure, fresh / FIGURES)
        (fresh / "heads.csv").write_bytes(table.encode())
        (fresh / "profile.json").write_bytes((plain + "\n").encode())
        write_data(profile, fresh)
        (fresh / PAGE).write_bytes(page.encode())
    return place / PAGE


def check_folder(folder: object) -> None:
    """Raise the InputError now that `write_profile` would raise after the work; touch nothing."""
    look_at(folder, COMMAND)
    require_extra()


def profile_to_plain(profile: Profile) -> dict[str, Any]:
    """The profile as JSON values: pooled spectra, and quantiles of the spectra of single inputs."""
    frame = profile.to_frame()
    return {
        "model": profile.model,
        "family": profile.family,
        "gauge": profile.gauge,
        "made_by": dict(profile.made_by),
        "tokens": profile.tokens.tolist(),
        "quantiles": list(_SHARES),
        "layers": [_layer_to_plain(layer, profile.gauge) for layer in profile.layers],
        "heads": json.loads(frame.to_json(orient="records", double_precision=12)),
    }


def _layer_to_plain(layer: LayerSpectra, gauge: Gauge) -> dict[str, Any]:
    """The spectra of a layer in the profile's own gauge, one row per head."""
    names = ("number", "name", "kind", "heads", "groups", "m_h", "rotary", "scale")
    plain: dict[str, Any] = {name: getattr(layer, name) for name in names}
    plain["pooled"] = {
        stage: _rounded(values, 6) for (stage, own), values in layer.pooled.items() if own == gauge
    }
    over = np.quantile(layer.sigma["logits", gauge], _SHARES, axis=0)
    return plain | {"inputs": _rounded(over.swapaxes(0, 1), 3)}


def _rounded(values: np.ndarray, digits: int) -> list[Any]:
    """An array as nested lists of numbers with `digits` significant digits."""
    if values.ndim > 1:
        return [_rounded(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def render_profile(profile: Profile, figures: Mapping[str, Figure], advice: object = None) -> str:
    """One HTML file that shows what the model's attention uses; its figure files lie in figures/.

    `advice` is what `advise` returns; with None the page has no advice.
    """
    places: dict[str, Figure] = {}
    sections = []
    for id_, title, paragraph, names in SECTIONS:
        drawn = []
        for name in names:
            if name in figures:
                spot = f"plot-{len(places) + 1}"
                places[spot] = figures[name]
                file = f"{FIGURES}/{safe_name(name)}"
                panels = len(figures[name].panels)
                drawn.append({"id": spot, "file": file, "figure": figures[name], "panels": panels})
        if drawn:
            sections.append(
                {"id": id_, "title": title, "paragraphs": [paragraph], "figures": drawn}
            )
    return render(
        "profile.html.j2",
        places,
        title=f"What the attention of {profile.model} uses",
        intro=INTRO,
        facts=_facts(profile),
        summary=str(profile).splitlines(),
        advice=None if advice is None else _advice(advice),
        words=meanings(profile),
        layers=_layer_table(profile),
        sections=sections,
    )


def _facts(profile: Profile) -> list[tuple[str, str]]:
    """What was profiled and what made the profile, as (name, value)."""
    tokens = profile.tokens
    return [
        ("model", profile.model),
        ("family", profile.family),
        ("gauge", profile.gauge),
        ("inputs", str(len(tokens))),
        ("tokens", str(int(tokens.sum()))),
        *facts_of([profile.made_by]),
    ]


def _layer_table(profile: Profile) -> Table:
    """The table of the page with one row per layer."""
    frame = profile.to_frame()
    rows: list[tuple[Cell, ...]] = []
    for layer in profile.layers:
        heads = frame[frame.layer == layer.number]
        laws = Counter(heads.law).most_common()
        rows.append(
            (
                layer.number,
                layer.name,
                layer.kind,
                layer.heads,
                layer.m_h,
                _spread(heads.rank99),
                _spread(heads.rank999),
                _percent(heads, "weights_loss99"),
                _percent(heads, "output_loss99"),
                ", ".join(_unbroken(f"{law} {count}") for law, count in laws),
            )
        )
    columns = (
        *("layer", "name", "kind", "heads", "m_h", "rank 99 %", "rank 99.9 %"),
        *("attention moved", "output changed", "laws of decay"),
    )
    note = (
        "Ranks are medians over the heads of a layer, with the least and the largest in brackets; "
        "what moves and changes is the median of what a cut to 99 % does."
    )
    return Table("One row per layer", columns, tuple(rows), note)


def _spread(ranks: "pd.Series[int]") -> str:
    """The median of some ranks, with the least and the largest in brackets."""
    return _unbroken(f"{number(float(ranks.median()))} [{ranks.min()}–{ranks.max()}]")


def _unbroken(text: str) -> str:
    """The text with spaces and dashes at which no line is broken."""
    return text.replace(" ", "\u00a0").replace("–", "\u2060–\u2060")


def _percent(heads: "pd.DataFrame", column: str) -> str:
    """The median of a column of shares in percent; a dash where the table does not have it."""
    return f"{heads[column].median():.1%}" if column in heads else NOTHING


def _advice(advice: object) -> dict[str, Any]:
    """The lines and the table of the advice, for the template."""
    to_frame = getattr(advice, "to_frame", None)
    if not callable(to_frame):
        raise InputError("advice must be what advise() returns", type(advice).__name__)
    frame = to_frame()[list(_ADVICE)]
    # to_dict makes Python's own numbers of numpy's
    rows = tuple(tuple(row.values()) for row in frame.to_dict("records"))
    table = Table("Head sizes", tuple(_ADVICE.values()), rows)
    return {"lines": str(advice).splitlines(), "table": table}
