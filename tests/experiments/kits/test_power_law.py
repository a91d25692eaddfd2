"""A known power law plus constant is found with an interval that holds it."""

import numpy as np
import pytest

from attnrate.experiments.kits.power_law import fit_power_law

SIZES = [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("b", [0.1, 0.27, 1.0, 2.5])
def test_an_exact_law_is_found(b: float) -> None:
    law = fit_power_law(SIZES, [2.0 * m**-b + 1.05 for m in SIZES])
    assert law is not None
    assert law.b.value == pytest.approx(b, rel=5e-3)
    assert law.at(1) == pytest.approx(3.05, rel=1e-3)
    assert law.at(64) == pytest.approx(2.0 * 64**-b + 1.05, rel=1e-3)
    assert law.p_flat < 1e-6


@pytest.mark.parametrize("relative", [False, True])
def test_the_interval_holds_the_truth_as_often_as_it_says(relative: bool) -> None:
    random = np.random.default_rng(2 * relative)
    m = np.array(SIZES * (3 if relative else 2), dtype=float)
    truth = m**-1.5 + 0.01 if relative else m**-0.5 + 1.0
    held = 0
    for _ in range(100):
        noise = random.standard_normal(len(m))
        noisy = truth * np.exp(0.1 * noise) if relative else truth + 0.02 * noise
        law = fit_power_law(m.tolist(), noisy.tolist(), relative)
        assert law is not None
        held += law.b.low <= (1.5 if relative else 0.5) <= law.b.high
    assert 88 <= held <= 100


@pytest.mark.parametrize("b", [0.1, 1.0, 2.5])
def test_errors_over_decades_are_fitted_by_their_shares(b: float) -> None:
    law = fit_power_law(SIZES, [2.0 * m**-b + 1e-4 for m in SIZES], relative=True)
    assert law is not None
    assert law.b.value == pytest.approx(b, rel=5e-3)
    # a constant far below all values is hardly seen
    assert law.c == pytest.approx(1e-4, rel=0.2 if b > 0.1 else 1e3)


def test_relative_constants_are_not_negative() -> None:
    falling = [2.0 * m**-1.0 - 0.02 for m in SIZES]
    free, bounded = (fit_power_law(SIZES, falling, relative) for relative in (False, True))
    assert free is not None
    assert bounded is not None
    assert free.c < -0.01
    assert bounded.c >= 0
    assert bounded.b.value > 1.0


def test_noise_without_a_law_bounds_no_exponent_and_looks_flat() -> None:
    random = np.random.default_rng(1)
    found = [fit_power_law(SIZES * 2, random.standard_normal(14).tolist()) for _ in range(40)]
    assert np.mean([law is not None and law.p_flat < 0.05 for law in found]) <= 0.2
    assert not all(law is not None and law.bounded for law in found)


def test_too_few_values_have_no_law() -> None:
    assert fit_power_law([1, 2, 4], [3.0, 2.0, 1.5]) is None
    assert fit_power_law([1, 1, 2, 2], [3.0, 2.0, 1.5, 1.0]) is None


def test_an_end_of_what_was_looked_at_is_no_limit() -> None:
    rising = fit_power_law(SIZES, [1.0, 1.3, 1.1, 1.2, 1.3, 1.1, 1.2])
    assert rising is not None
    assert not rising.seen
    assert rising.limits[1:] == (None, None)
    assert str(rising).endswith(" [≤ 0.01, ≥ 8]")
    law = fit_power_law(SIZES, [2.0 * m**-0.5 + 1.05 for m in SIZES])
    assert law is not None
    assert law.seen
    assert None not in law.limits
    assert "≤" not in str(law)
