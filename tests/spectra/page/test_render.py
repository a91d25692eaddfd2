"""The page of a profile as text: what people want to know comes first, and it stays small."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from attnrate.spectra.advise import advise
from attnrate.spectra.page.figures import profile_figures
from attnrate.spectra.page.render import render_profile
from attnrate.spectra.page.subject import Subject, subject_of
from attnrate.spectra.page.words import answer
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
LAYERS: tuple[dict[str, Any], ...] = (
    {"name": "encoder.0", "heads": 3, "m_h": 12, "rotary": True},
    {"name": "decoder.0", "heads": 2, "m_h": 16, "rotary": True},
)


def page_of(profile: Profile, **asked: float) -> str:
    subject = subject_of(advise(profile, **asked))  # type: ignore[arg-type]
    return render_profile(subject, profile_figures(subject))


def test_it_opens_with_the_answer_then_map_cost_and_heads(made: Made) -> None:
    profile = made(*LAYERS)
    page = page_of(profile)
    parts = [
        answer(advise(profile)).replace("'", "&#39;"),
        'id="map"',
        "What a cut would save, and cost",
        "Heads one by one",
        "In short, to quote",
        "What softmax cannot see",
        "<details>",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    for line in str(profile).splitlines():
        assert line.replace("'", "&#39;") in page
    for words in ("encoder.0", "decoder.0", "exponential", "5.5\xa0%", "0123456789"):
        assert words in page


def test_the_map_has_a_row_a_layer_and_the_number_that_each_head_needs(made: Made) -> None:
    advice = advise(made(*LAYERS), tolerance=0.02)
    page = page_of(made(*LAYERS), tolerance=0.02)
    table = page[page.index('<table class="map"') : page.index("</table>")]
    cells = [int(size) for size in re.findall(r'<td class="q\d+"><span>(\d+)</span>', table)]
    assert cells == advice.by_head().needed.tolist()
    sizes = re.findall(r'<th class="size">(\d+)/(\d+)</th>', table)
    assert sizes == [(str(one.size), str(one.m_h)) for one in advice.layers]
    assert '<td class="none" colspan="1">' in table  # the second layer has a head fewer


def test_parts_of_a_model_have_headings_in_the_map(made: Made) -> None:
    one = ({**LAYERS[0], "name": "layer.0"}, {**LAYERS[1], "name": "layer.1"})
    assert 'class="part"' not in page_of(made(*one))
    page = page_of(made(*LAYERS))
    assert re.findall(r'class="part"><th [^>]*>(\w+)<', page) == ["encoder", "decoder"]
    (held,) = re.findall(r'id="heads">(.*?)</script>', page)
    assert [layer["part"] for layer in json.loads(held)["layers"]] == ["encoder", "decoder"]


@pytest.mark.parametrize(
    ("layers", "sizes", "said"),
    [
        (
            [(4, 32)],
            [29],
            "The 4 heads of it have 32 dimensions each; 29 would do if at most 5.0 %",
        ),
        (
            [(12, 32), (12, 32)],
            [29, 30],
            "The 24 heads of it have 32 dimensions each; 29 to 30, layer by layer, would do if at "
            "most 5.0 % of any head's attention may move (59 of 64 over the layers).",
        ),
        (
            [(2, 8), (2, 16)],
            [8, 16],
            "The 4 heads of it have 8 to 16 dimensions, and none of them can be given away if",
        ),
        ([(1, 4)], [1], "The only head of it has 4 dimensions; 1 would do if"),
        ([(1, 1)], [1], "The only head of it has 1 dimension, and it cannot be given away if"),
        ([(1000, 4)], [4], "The 1,000 heads of it have 4 dimensions each, and none of them"),
    ],
)
def test_the_answer_is_one_sentence(
    made: Made, layers: list[tuple[int, int]], sizes: list[int], said: str
) -> None:
    profile = made(*({"name": f"l{h}", "heads": 2, "m_h": m} for h, m in layers), model="it")
    own = zip(profile.layers, layers, strict=True)
    profile = replace(profile, layers=tuple(replace(one, heads=h) for one, (h, _) in own))
    advice = advise(made({"name": "a", "heads": 1, "m_h": 4}))
    rows = [
        replace(advice.layers[0], m_h=m, size=size)
        for (_, m), size in zip(layers, sizes, strict=True)
    ]
    found = answer(replace(advice, model="it", profile=profile, layers=tuple(rows)))
    assert found.startswith(said)
    assert found.endswith(".")


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_loaded(made: Made) -> None:
    page = page_of(made(*LAYERS))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#39;none&#39;" in policy
    assert "img-src" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in policy.replace("&#43;", "+")
    assert "unsafe-eval" not in policy
    assert not re.search(r'(src|href)="(https?:|//|/)', page)


@pytest.mark.slow
def test_a_page_of_a_thousand_heads_is_below_three_megabytes(made: Made) -> None:
    """40 equal layers of 25 heads of size 64 on 32 inputs, rotary, so that it has all figures."""
    one = made({"name": "a", "heads": 25, "m_h": 64, "rotary": True}, inputs=32)
    names = [f"model.language_model.layers.{i}.self_attn.attention" for i in range(40)]
    layers = [replace(one.layers[0], number=i, name=name) for i, name in enumerate(names)]
    advice = advise(replace(one, layers=tuple(layers)))
    first = subject_of(advise(one))  # all layers have the same numbers
    heads = [first.heads.assign(layer=i, name=name) for i, name in enumerate(names)]
    subject = Subject(
        advice,
        pd.concat(heads, ignore_index=True),
        pd.concat([first.needed] * 40, ignore_index=True),
    )
    page = render_profile(subject, profile_figures(subject))
    assert page.count('<td class="q') == 1000
    assert 1_500_000 < len(page.encode()) < 3_000_000
