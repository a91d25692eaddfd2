"""Fig. 5: the whole model decides, held values may correct; how values are held."""

import torch
from map_experiments import changed, concluded, verdicts, worked

from attnrate.experiments.paper.fig5 import values_held
from attnrate.models.build import complete_model
from attnrate.targets import centre_of_gravity

GOOD = {"predictions": {"mae": 0.01}, "points": {"mae": 0.01}, "pointwise": {"rms": 0.01}}
BAD = {"predictions": {"mae": 0.1}, "points": {"mae": 0.2}, "pointwise": {"rms": 0.7}}


def test_the_whole_model_decides_and_held_values_correct():
    good = changed(worked("fig5"), **GOOD)
    assert set(verdicts("fig5", good).values()) == {"holds"}
    one_bad = changed(good, "whole", **BAD)
    assert set(verdicts("fig5", one_bad).values()) == {"holds when corrected"}
    assert "everything learned, in 1 of 1 fits" in concluded("fig5", one_bad).paragraphs[1]
    assert "nothing requires it" in concluded("fig5", good).paragraphs[1]
    assert set(verdicts("fig5", changed(good, **BAD)).values()) == {"does not hold"}


def test_an_input_with_the_papers_prediction_tokens_is_shown():
    for one in worked("fig5"):
        flags = [token[5] for token in one.outcome.example.x]
        assert [t for t, flag in enumerate(flags) if flag] == [0, 5]


def test_held_values_are_the_first_coordinates_and_are_not_trained():
    target = centre_of_gravity()
    settings = complete_model({"kind": "transformer", "n": 4, "m_h": 3, "width": 5, "depth": 1})
    model = values_held(settings, target, 2)
    x = target.sample(3, 0, torch.float32)
    assert torch.equal(model.W_V(model.f_hat(x)), x[..., :2])
    assert not model.W_V.weight.requires_grad
    torch.testing.assert_close(model(x), model.F_hat(model.attention(x) @ x[..., :2]))


def test_only_the_case_of_held_values_holds_them():
    target = centre_of_gravity()
    held = {one.job.case: one.job.make_model(target).W_V.weight for one in worked("fig5")}
    assert {case for case, W_V in held.items() if not W_V.requires_grad} == {"held"}
