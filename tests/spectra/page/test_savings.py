"""What smaller heads save in keys and cost in attention, counted by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from attnrate.spectra.advise import Advice, advise
from attnrate.spectra.page.savings import savings_of, savings_table, savings_words
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
LARGE = {"name": "a", "heads": 4, "m_h": 16}
SMALL = {"name": "b", "heads": 2, "m_h": 8}


def advice_of(profile: Profile, causal: tuple[bool, ...], **more: object) -> Advice:
    own = zip(profile.layers, causal, strict=True)
    layers = [replace(one, causal=is_, **more) for one, is_ in own]  # type: ignore[arg-type]
    return advise(replace(profile, layers=tuple(layers)))


def test_bytes_of_keys_are_key_heads_times_sizes_times_two(made: Made) -> None:
    advice = advice_of(made(LARGE, SMALL), (False, False), groups=2)
    sizes = [layer.size for layer in advice.layers]
    assert sum(sizes) < 24
    asked = savings_of(advice).asked
    assert asked.before == 2 * 16 * 2 + 2 * 8 * 2
    assert asked.after == 2 * sizes[0] * 2 + 2 * sizes[1] * 2
    assert asked.share == pytest.approx(1 - asked.after / asked.before)
    assert asked.dimensions == sum(sizes)


def test_the_head_that_loses_most_has_the_largest_upper_end(made: Made) -> None:
    advice = advise(made(LARGE, SMALL), tolerance=0.02)
    worst = savings_of(advice).asked.worst
    heads = advice.by_head()
    row = heads.loc[heads.predicted_high.idxmax()]
    assert (worst.value, worst.low, worst.high) == (
        row.predicted, row.predicted_low, row.predicted_high,
    )  # fmt: skip
    assert worst.high <= 0.02


def test_rows_are_what_advise_says_at_each_tolerance(made: Made) -> None:
    profile = made(LARGE, SMALL)
    rows = savings_of(advise(profile, tolerance=0.07)).rows
    assert [row.tolerance for row in rows] == [0.01, 0.02, 0.05, 0.07, 0.1, 0.2]
    for row in rows:
        assert row.dimensions == advise(profile, tolerance=row.tolerance).total
    assert [row.after for row in rows] == sorted((row.after for row in rows), reverse=True)
    table = savings_table(savings_of(advise(profile)))
    assert [row[0] for row in table.rows].count("5.0\xa0% (this page)") == 1
    assert len(table.rows) == 5


def test_only_causal_self_attention_has_a_cache_that_grows(made: Made) -> None:
    both = advice_of(made(LARGE, SMALL), (True, False))
    found = savings_of(both)
    assert (found.kept, found.left_out) == (True, 1)
    assert found.asked.before == 4 * 16 * 2
    said = savings_words(found)[0]
    assert said.startswith("The key cache would shrink from 128 to ")
    assert "bytes for each token (without 1 layer of cross attention or of an encoder)" in said
    crossed = advice_of(made(LARGE, SMALL), (True, True), kind="cross")
    assert savings_of(crossed).kept is False
    for none in (crossed, advice_of(made(LARGE, SMALL), (False, False))):
        said = savings_words(savings_of(none))[0]
        assert said.startswith("The keys of one token in all layers would shrink from 160 to ")
        assert said.endswith("so this is not a cache that grows.")


def test_nothing_saved_is_said(made: Made) -> None:
    advice = advice_of(made({"name": "a", "heads": 1, "m_h": 1}), (True,))
    said = savings_words(savings_of(advice))
    assert said[0] == "The key cache would stay at 2 bytes for each token in float16."


def test_runs_of_one_module_have_one_size(made: Made) -> None:
    profile = made(LARGE, {**SMALL, "m_h": 16})
    second = replace(profile.layers[1], name="a#2", run=2)
    advice = advise(replace(profile, layers=(profile.layers[0], second)))
    alone = [layer.size for layer in advise(profile).layers]
    assert alone[0] != alone[1]
    assert [layer.size for layer in advice.layers] == [max(alone)] * 2
    for row in savings_of(advice).rows:
        assert row.dimensions % 2 == 0
