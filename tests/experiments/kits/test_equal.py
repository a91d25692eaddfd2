"""Rivals have about as many parameters as the Transformer, at every length."""

import pytest

from attnrate.experiments.kits.equal import OTHERS, PIVOT, TRANSFORMER, parameters_of, settings_of


@pytest.mark.parametrize("length", [16, 33])
def test_sizes_match_within_five_percent(length):
    wanted = parameters_of(TRANSFORMER, length)
    for name in OTHERS:
        found = parameters_of(settings_of(name, length), length)
        assert found == pytest.approx(wanted, rel=0.05)
    assert settings_of(PIVOT, length) == TRANSFORMER


def test_parameters_are_counted():
    # W, U, c, b and b_out
    assert parameters_of({"kind": "linear_rnn", "hidden": 3}, 8) == 9 + 3 + 3 + 3 + 1
