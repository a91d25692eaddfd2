"""The files of a profile: its page, figures, a table of heads, and the spectra as JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnrate.errors import InputError
from attnrate.figures.draw import save_figure
from attnrate.folders import filled_at_once, look_at
from attnrate.pages.facts import FIGURES, PAGE
from attnrate.pages.skeleton import require_extra
from attnrate.spectra.advise import Advice, advise
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.page.figures import profile_figures
from attnrate.spectra.page.render import render_profile
from attnrate.spectra.page.subject import subject_of
from attnrate.spectra.result import Profile
from attnrate.spectra.saved import write_data
from attnrate.words import Gauge

if TYPE_CHECKING:
    import pandas as pd

COMMAND = "profile"
_SHARES = (0.05, 0.5, 0.95)  # quantiles over inputs that are kept


def write_profile(profile: Profile, folder: object, advice: object = None) -> Path:
    """Write index.html and the files beside it, and return the path of index.html.

    Beside it are figures/, heads.csv, profile.json, and moments.safetensors for `load_profile`. The
    folder must be new, empty, or one that an earlier call has made. Either all files are
    written or none. Without advice the page shows that of the default tolerance.
    """
    place = look_at(folder, COMMAND)[0]
    require_extra(plots=False)
    subject = subject_of(_require_advice(advice, profile))
    figures = profile_figures(subject)
    page = render_profile(subject, figures)
    kept = profile_to_plain(profile, subject.heads)
    plain = json.dumps(kept, ensure_ascii=False, allow_nan=False, default=str)
    table = subject.heads.to_csv(index=False, lineterminator="\n")
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
    require_extra(plots=False)


def _require_advice(advice: object, profile: Profile) -> Advice:
    """The advice, or that of the default tolerance; an InputError if it is of another profile."""
    if advice is None:
        return advise(profile)
    if not isinstance(advice, Advice):
        raise InputError("advice must be what advise() returns", type(advice).__name__)
    if _heads(advice.profile) != _heads(profile):
        raise InputError(
            "this advice was made from another profile, of {value}",
            advice.model,
            "Pass advise(profile) of the profile that is saved.",
        )
    return advice


def _heads(profile: Profile) -> list[tuple[str, str, int, int]]:
    """The names and sizes by which an advice and a profile are known to belong together."""
    return [(profile.model, layer.name, layer.heads, layer.m_h) for layer in profile.layers]


def profile_to_plain(profile: Profile, heads: "pd.DataFrame") -> dict[str, Any]:
    """The profile as JSON values: pooled spectra, and quantiles of the spectra of single inputs.

    `heads` is its table of all heads.
    """
    return {
        "model": profile.model,
        "family": profile.family,
        "gauge": profile.gauge,
        "made_by": dict(profile.made_by),
        "tokens": profile.tokens.tolist(),
        "quantiles": list(_SHARES),
        "layers": [_layer_to_plain(layer, profile.gauge) for layer in profile.layers],
        "heads": json.loads(heads.to_json(orient="records", double_precision=12)),
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
