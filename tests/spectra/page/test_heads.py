"""The compact data of all heads: what the script reads is what the profile has."""

import base64
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnrate.spectra.advise import advise
from attnrate.spectra.estimate import Gram
from attnrate.spectra.page import heads
from attnrate.spectra.page.heads import QUANTILES, heads_data
from attnrate.spectra.page.layers import label_of
from attnrate.spectra.page.subject import subject_of
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
SMALL = {"name": "a", "heads": 3, "m_h": 12}
LARGE = {"name": "b", "heads": 2, "m_h": 40}


def decoded(data: dict[str, Any], layer: int) -> np.ndarray:
    """(4, heads, k), as the script of the page reads it; nan for rounding."""
    own = data["layers"][layer]
    codes = np.frombuffer(base64.b64decode(own["spectra"]), "<u2").astype(float)
    sigma = data["low"] * np.exp((codes - 1) * data["range"] / 65534)
    return np.where(codes == 0, math.nan, sigma).reshape(4, len(own["needed"]), len(own["k"]))


def test_spectra_and_quantiles_are_kept_to_two_in_ten_thousand(made: Made) -> None:
    profile = made(SMALL, LARGE)
    data = json.loads(json.dumps(heads_data(subject_of(advise(profile)))))
    for number, layer in enumerate(profile.layers):
        found = decoded(data, number)
        for head in range(layer.heads):
            wanted = [profile.pooled(number, head)]
            wanted += [*np.quantile(profile.sigma(number, head), QUANTILES, axis=0)]
            for curve, values in zip(found[:, head], wanted, strict=True):
                seen = values > data["low"]
                assert curve[seen] == pytest.approx(values[seen], rel=2e-4)
                assert np.isnan(curve[~seen]).all()


def test_numbers_of_heads_stand_beside_them(made: Made) -> None:
    profile = made(SMALL, LARGE)
    advice = advise(profile)
    data, frame = heads_data(subject_of(advice)), profile.to_frame()
    for name, wanted in (("needed", advice.by_head().needed), ("rank99", frame.rank99)):
        found = [number for layer in data["layers"] for number in layer[name]]
        assert found == wanted.tolist()
    assert data["layers"][0]["moved"] == ["1.0 %", "5.5 %", "10.0 %"]
    assert [layer["size"] for layer in data["layers"]] == [one.size for one in advice.layers]
    assert "moved" not in heads_data(subject_of(advise(made({**SMALL, "cut": False}))))["layers"][0]


def test_of_too_many_values_some_k_are_kept_the_ends_among_them(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "MOST_VALUES", 200)
    profile = made(LARGE, LARGE)
    data = heads_data(subject_of(advise(profile)))
    k = data["layers"][0]["k"]
    assert (k[0], k[-1]) == (1, 40)
    assert 16 <= len(k) < 40
    found = decoded(data, 0)
    assert found[0, 0] == pytest.approx(profile.pooled(0, 0)[np.array(k) - 1], rel=2e-4)


def test_a_head_that_does_nothing_is_all_rounding(made: Made) -> None:
    profile = made(SMALL)
    (layer,) = profile.layers
    query, key = layer.moments["logits"]
    nothing = Gram(0 * key.spread, 0 * key.mean, key.count)
    zero = {place: 0 * values for place, values in layer.sigma.items()}
    still = replace(layer, sigma=zero, moments={"logits": (query, nothing)})
    data = heads_data(subject_of(advise(replace(profile, layers=(still,)))))
    assert np.isnan(decoded(data, 0)).all()


def test_a_later_run_of_a_layer_is_named(made: Made) -> None:
    (layer,) = made(SMALL).layers
    assert label_of(layer) == "0"
    assert label_of(replace(layer, run=2)) == "0·2"
