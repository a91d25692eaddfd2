"""Fig. 6: frequencies need their correction always; the input is that of Eq. 66."""

import pytest
from map_experiments import changed, concluded, verdicts, worked


def test_the_correction_is_needed_even_when_the_weights_are_right():
    good = changed(
        worked("fig6"), rows={"mae": 0.01}, example={"mae": 0.015}, pointwise={"rms": 0.01}
    )
    assert verdicts("fig6", good) == {
        "fig6-frequencies": "holds when corrected",
        "fig6-example": "holds",
        "fig6-identity": "holds",
    }
    only_linear = changed(good, "network", rows={"mae": 0.05}, example={"mae": 0.05})
    claims = {claim.name: claim for claim in concluded("fig6", only_linear).claims}
    assert claims["fig6-example"].verdict == "holds when corrected"
    assert "F̂ linear" in claims["fig6-frequencies"].correction
    bad = changed(good, rows={"mae": 0.05}, example={"mae": 0.05}, pointwise={"rms": 0.2})
    assert set(verdicts("fig6", bad).values()) == {"does not hold"}


def test_the_indices_of_the_paper_are_shown():
    # Eq. 66: output 0 averages 4, 5, 5; output 1 is value 4.
    true = worked("fig6")[0].outcome.example.true
    assert true[0] == pytest.approx([0, 0, 0, 0, 1 / 3, 2 / 3, 0, 0], abs=1e-5)
    assert true[1] == pytest.approx([0, 0, 0, 0, 1, 0, 0, 0], abs=1e-5)
