"""One model on one target: it learns, it repeats itself, it stops for the reason it gives."""

import copy
import math
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.fitting.fit import fit
from attnrate.fitting.train import Look, Plateau
from attnrate.models import LinearRNN, Transformer
from attnrate.targets import (
    UniformInputs,
    error_of,
    linear_target,
    nearest_point,
    spectral_target,
    swap_ends,
)
from attnrate.theory.compile import compile_target

EXPONENTIAL = linear_target("exponential", 8)


def small() -> LinearRNN:
    return LinearRNN(1, 1, hidden=16)


def test_a_linear_rnn_learns_an_exponential_kernel() -> None:
    result = fit(EXPONENTIAL, small, steps=600)
    assert result.error < 1e-6
    assert result.stopped == "steps"
    kernel = result.model.kernel(8)[:, 0, 0].detach()
    assert torch.allclose(kernel, torch.exp(-torch.arange(8.0)), atol=5e-3)


def test_a_linear_rnn_ends_at_the_exact_floor_of_a_permuted_target_and_not_below() -> None:
    target = EXPONENTIAL.permuted(swap_ends(8, 2))
    result = fit(target, small, steps=600)
    floor = target.floor("time-invariant")
    assert floor - 4 * result.standard_error <= result.error <= 1.05 * floor


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    one, two, other = (fit(EXPONENTIAL, small, seed=seed, steps=60) for seed in (3, 3, 4))
    assert one.error == two.error
    assert [look.error for look in one.curve] == [look.error for look in two.curve]
    assert one.error != other.error


def test_the_model_passed_in_and_the_callers_random_state_and_threads_are_left_alone() -> None:
    torch.manual_seed(0)
    model, before = small(), torch.get_num_threads()
    weights = [p.clone() for p in model.parameters()]
    state = torch.get_rng_state()
    result = fit(EXPONENTIAL, model, steps=20, threads=1)
    assert all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    assert result.model is not model
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == before


def test_the_curve_is_what_was_watched_and_tells_the_time_to_an_error() -> None:
    seen: list[Look] = []
    result = fit(EXPONENTIAL, small, steps=200, check_every=20, watch=seen.append)
    assert tuple(seen) == result.curve
    assert [look.step for look in seen] == list(range(20, 201, 20))
    reached = result.seconds_to(seen[4].error)
    assert reached is not None
    assert reached <= seen[4].seconds
    assert result.seconds_to(0.0) is None


def test_a_plateau_ends_the_fit() -> None:
    """A model that cannot improve: the target is zero for it from the start."""
    target = linear_target([0.0] * 4, 4)
    result = fit(
        target, lambda: LinearRNN(1, 1, hidden=2), "paper", steps=5000, check_every=10, patience=3
    )
    assert result.stopped == "plateau"
    assert result.steps < 5000


def looks_until_plateau(errors: Iterable[float], gain: float, patience: int) -> int | None:
    plateau = Plateau(gain, patience)
    return next((n for n, error in enumerate(errors, start=1) if plateau.sees(error)), None)


def test_a_flat_error_is_a_plateau_after_patience_looks_and_a_slow_fall_is_none() -> None:
    assert looks_until_plateau([1.0] * 99, 0.1, 4) == 1 + 4
    assert looks_until_plateau([0.0] * 99, 0.1, 4) == 1 + 4
    # 0.97^4 < 0.9: by less than the gain a look, by more within the patience
    assert looks_until_plateau([0.97**n for n in range(99)], 0.1, 4) is None
    # 0.98^4 > 0.9
    assert looks_until_plateau([0.98**n for n in range(99)], 0.1, 4) == 1 + 4
    assert looks_until_plateau([1.0, 2.0, 3.0, 0.5, 0.5, 0.5, 0.5], 0.1, 3) == 7


@given(st.lists(st.floats(0, 1e3), max_size=30), st.floats(0.01, 0.5), st.integers(1, 6))
def test_there_is_no_plateau_while_errors_fall_by_the_gain_within_every_patience(
    errors: list[float], gain: float, patience: int
) -> None:
    at = looks_until_plateau(errors, gain, patience)
    seen = errors if at is None else errors[:at]
    if at is not None:
        assert at >= patience
        best_before = min(errors[: at - patience], default=math.inf)
        assert all(e >= best_before * (1 - gain) for e in errors[at - patience : at])
    for n in range(1, len(seen)):
        assert looks_until_plateau(errors[:n], gain, patience) is None


def test_a_run_that_diverges_is_tried_with_smaller_steps_and_then_said_to_have_diverged() -> None:
    wild = {"steps": 100, "check_every": 5, "warmup": 0, "clip": 1e9, "decay": "none"}
    lost = fit(EXPONENTIAL, small, "paper", lr=1e4, **wild)
    assert lost.diverged
    assert math.isnan(lost.error)
    assert lost.learning_rate == pytest.approx(1e4 / 9)
    assert fit(EXPONENTIAL, small, "paper", lr=0.01, **wild).learning_rate == 0.01


def test_an_infinite_error_at_the_first_look_has_diverged() -> None:
    class Wild(LinearRNN):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1.0 if self.training else math.inf)

    assert fit(EXPONENTIAL, lambda: Wild(1, 1, hidden=2), steps=20, check_every=5).diverged


def test_gradients_that_are_not_finite_are_a_divergence_of_soap_too() -> None:
    """Its eigendecomposition fails long before the first look."""

    class Broken(LinearRNN):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (math.nan if self.training else 1.0)

    assert fit(EXPONENTIAL, lambda: Broken(1, 1, hidden=2), "strong", steps=60).diverged


def test_lost_attempts_are_counted() -> None:
    wild = {"steps": 100, "check_every": 5, "clip": 1e9, "decay": "none", "lr": 1e4}
    once = fit(EXPONENTIAL, small, "paper", retries=0, **wild)
    thrice = fit(EXPONENTIAL, small, "paper", retries=2, **wild)
    assert once.diverged
    assert thrice.steps > once.steps
    assert thrice.seconds > 0


def test_training_watching_judging_and_starts_have_inputs_of_their_own() -> None:
    drawn: list[torch.Tensor] = []
    law = EXPONENTIAL.inputs

    class Watched(UniformInputs):
        def draw(self, n: int, length: int, generator: torch.Generator) -> torch.Tensor:
            drawn.append(law.draw(n, length, generator))
            return drawn[-1]

    target = replace(EXPONENTIAL, inputs=Watched(**vars(law)))
    drawn.clear()  # a new law is tried twice with one seed
    weights: list[torch.Tensor] = []

    def made() -> LinearRNN:
        model = small()
        weights.append(model.W.detach().clone())
        return model

    found = fit(target, made, steps=4, check_every=4, starts=3)
    rows = torch.cat([x.flatten(1) for x in drawn])
    assert len(torch.unique(rows, dim=0)) == len(rows)
    assert len(torch.unique(torch.stack(weights).flatten(1), dim=0)) == 3
    assert len({*found.starts}) == 3


def test_the_watched_error_is_of_the_kind_that_is_judged() -> None:
    target = nearest_point(points=2, dim=2)
    model = Transformer(target.d, target.out, m_h=2, width=8)
    found = fit(target, model, steps=1, lr=1e-12)
    assert found.curve[-1].error == pytest.approx(found.error, rel=0.1)


LONG_ENOUGH = {"steps": 200, "check_every": 4}


def test_a_run_that_learns_nothing_is_tried_with_smaller_steps_and_then_said_to_be_stuck() -> None:
    y = EXPONENTIAL(EXPONENTIAL.sample(1000, seed=1))

    class Level(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = torch.nn.Parameter(y.mean())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.level + 0.0 * x

    found = fit(EXPONENTIAL, Level, **LONG_ENOUGH)
    assert found.stopped == "stuck"
    assert found.steps == 3 * 200
    # which is no divergence: the error is that of the best constant
    assert found.error == pytest.approx(float(y.var()), rel=0.1)
    # cut short, or with a step that does not fall, it might still have begun to learn
    assert fit(EXPONENTIAL, Level, steps=150, check_every=4).stopped == "steps"
    assert fit(EXPONENTIAL, Level, decay="none", **LONG_ENOUGH).stopped == "steps"


def test_smaller_steps_free_a_run_that_was_stuck() -> None:
    class Fragile(LinearRNN):
        """Gives a constant from the first step on that moves its weights too far."""

        def __init__(self) -> None:
            super().__init__(1, 1, hidden=16)
            self.level = torch.nn.Parameter(torch.zeros(()))
            self.register_buffer("before", self.W.detach().clone())
            self.register_buffer("dead", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                moved = float((self.W.detach() - self.before).abs().max())
                self.dead.fill_(max(float(self.dead), float(moved > 0.02)))
                self.before.copy_(self.W.detach())
            return torch.where(self.dead > 0, self.level, super().forward(x))

    found = fit(EXPONENTIAL, Fragile, lr=0.03, **LONG_ENOUGH)
    assert found.stopped == "steps"
    assert found.learning_rate < 0.03
    assert found.steps > 200
    assert found.error < 0.1 * float(EXPONENTIAL(EXPONENTIAL.sample(1000, seed=1)).var())


def test_starts_are_fits_with_other_seeds_and_the_best_of_them_is_returned() -> None:
    seeds = [5 + (k << 32) for k in range(3)]
    alone = [fit(EXPONENTIAL, small, seed=seed, steps=60, check_every=20) for seed in seeds]
    seen: list[Look] = []
    best = fit(EXPONENTIAL, small, seed=5, steps=60, check_every=20, starts=3, watch=seen.append)
    watched = [one.starts[0] for one in alone]
    assert best.starts == tuple(watched)
    assert watched == [min(look.error for look in one.curve) for one in alone]
    winner = watched.index(min(watched))
    assert best.error == alone[winner].error
    assert [look.error for look in best.curve] == [look.error for look in alone[winner].curve]
    assert {look.start for look in best.curve} == {winner}
    assert [look.start for look in seen] == [0] * 3 + [1] * 3 + [2] * 3
    assert best.seed == 5
    assert best.steps == 180
    assert best.seconds > max(look.seconds for look in seen)
    assert "best of 3 starts" in str(best)


def test_a_start_that_diverges_never_wins() -> None:
    made: list[int] = []

    def some_lost() -> LinearRNN:
        model = small()
        made.append(len(made))
        if made[-1] != 1:
            torch.nn.init.constant_(model.W, math.nan)
        return model

    found = fit(EXPONENTIAL, some_lost, steps=20, check_every=10, starts=3)
    assert [math.isnan(error) for error in found.starts] == [True, False, True]
    assert not found.diverged
    assert math.isfinite(found.error)
    assert found.summary["starts"] == [None, found.starts[1], None]
    made.clear()
    made.extend([0, 1])
    assert fit(EXPONENTIAL, some_lost, steps=20, check_every=10, starts=2).diverged


def test_a_fit_is_never_worse_than_its_beginning() -> None:
    target = spectral_target(1.0, 2, length=4)
    compiled = compile_target(target, 2, 128)
    found = fit(target, compiled, lr=0.3, steps=20, check_every=10)
    assert found.error <= 1.1 * error_of(compiled, target).value


def test_a_model_that_a_function_hands_out_is_left_as_it_is() -> None:
    model = small().double()
    fit(EXPONENTIAL, lambda: model, steps=1)
    assert {p.dtype for p in model.parameters()} == {torch.float64}


def test_a_warm_start_begins_at_the_compiled_transformer() -> None:
    target = spectral_target(1.0, 2, length=4)
    compiled = compile_target(target, 2, 128)
    result = fit(target, lambda: Transformer(1, 1, m_h=2), "warm", steps=1, lr=1e-12)
    names = dict(result.model.named_parameters())
    for name, weight in compiled.named_parameters():
        assert torch.allclose(names[name].double(), weight, atol=1e-3)


def test_a_transformer_learns_far_more_than_the_mean_of_its_target() -> None:
    target = spectral_target(1.0, 1, length=4)
    spread = float(target(target.sample(4096, seed=5)).var())
    assert fit(target, lambda: Transformer(1, 1, m_h=2), steps=600).error < spread / 20


@pytest.mark.parametrize("beyond", [{"causal": True}, {"heads": 2}, {"scale": True}])
def test_a_warm_start_of_another_form_than_eq_5_is_refused(beyond: dict[str, object]) -> None:
    target = spectral_target(1.0, 2, length=4)
    with pytest.raises(InputError, match=r"form of Eq\. 5"):
        fit(target, lambda: Transformer(1, 1, m_h=2, **beyond), "warm", steps=1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"recipe": "weak"}, "recipe"),
        ({"steps": 0}, "steps"),
        ({"recipe": "warm"}, "warm start"),
        ({"model": lambda: 3}, "model"),
        ({"device": "abacus"}, "device"),
        ({"device": "xpu:7"}, "device"),
        ({"seed": 2**62}, "seed"),
        ({"starts": 0}, "starts"),
        ({"starts": 101}, "starts"),
        ({"model": LinearRNN(1, 1, hidden=2), "starts": 2}, "function that makes the model"),
        ({"model": lambda: LinearRNN(1, 2, hidden=2)}, "shape of the target"),
        ({"model": lambda: LinearRNN(1, 1, hidden=2).requires_grad_(False)}, "nothing to train"),
    ],
)
def test_wrong_requests_are_refused_before_training(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit(EXPONENTIAL, **{"model": small, **changes})


@pytest.mark.parametrize(
    "given", [pd.DataFrame({"x": [1.0, 2.0]}), np.zeros((2, 3)), torch.zeros(2, 3), "x", None]
)
def test_what_is_no_target_is_answered_by_what_a_target_is(given: object) -> None:
    with pytest.raises(InputError, match="target must be a Target") as caught:
        fit(given, given)
    assert ("SampledInputs" in str(caught.value)) == hasattr(given, "shape")
    assert len(str(caught.value)) < 400


def test_what_is_no_model_is_answered_by_what_a_model_is() -> None:
    with pytest.raises(InputError, match="torch module, or a function") as caught:
        fit(EXPONENTIAL, pd.DataFrame({"x": [1.0]}))
    assert "lambda: ar.Transformer" in str(caught.value)


class _Pair(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return super().forward(x), None


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (torch.nn.Linear, "'Linear' needs arguments. Pass lambda: Linear(…)"),
        (lambda out: LinearRNN(1, out), "needs arguments. As lambda:"),
        (torch.nn.Linear(2, 1), "fails on inputs of shape (512, 8, 1) (RuntimeError: mat1"),
        (_Pair(1, 1), "must return a torch tensor: got 'tuple'"),
        (torch.nn.MultiheadAttention(1, 1), "missing 2 required positional arguments"),
    ],
)
def test_a_model_of_the_wrong_form_is_answered_by_the_right_one(model: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        fit(EXPONENTIAL, model, steps=1)
    assert said in str(caught.value)


@pytest.mark.parametrize("progress", ["yes", 1, 0.0])
def test_progress_is_a_switch(progress: object) -> None:
    with pytest.raises(InputError, match="progress must be None, True or False"):
        fit(EXPONENTIAL, small, progress=progress)


def test_a_fit_shows_itself_without_its_weights_and_can_be_copied_and_pickled() -> None:
    found = fit(EXPONENTIAL, small, steps=20, check_every=10)
    assert repr(found) == str(found)
    assert "\n" not in str(found)
    for twin in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301
        assert str(twin) == str(found)
        assert torch.equal(twin.model.W, found.model.W)
    assert found.to_frame()["step"].to_list() == [10, 20]
    html = found._repr_html_()
    assert str(found) in html
    assert html.count("<img") == 1
    (axes,) = found.plot().axes
    assert (axes.get_xlabel(), axes.get_yscale()) == ("optimiser step", "log")


def test_a_fit_that_diverged_says_so_and_has_no_error() -> None:
    class Lost(LinearRNN):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * math.nan

    found = fit(EXPONENTIAL, lambda: Lost(1, 1, hidden=2), steps=5, retries=0)
    assert str(found).startswith("diverged: every attempt by strong, seed 0")
    assert "nan" not in str(found)
    assert "<img" not in found._repr_html_()


def test_a_fit_shows_its_progress(
    on_a_terminal: Callable[[Callable[[], object]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnrate.fitting.fit.QUIET", 0.0)
    written = on_a_terminal(lambda: fit(EXPONENTIAL, small, steps=20, check_every=10))
    assert "training by strong, 20 steps" in written
    assert "training, step 20 of 20 · error" in written
    assert "20 steps · time left" not in written
    assert on_a_terminal(lambda: fit(EXPONENTIAL, small, steps=20, progress=False)) == ""


def test_a_recipe_shows_itself_and_its_changes_are_its_fields() -> None:
    from attnrate.fitting.recipe import RECIPES, Recipe, RecipeChanges

    assert {*RecipeChanges.__annotations__} == {*Recipe.__dataclass_fields__}
    for name, recipe in RECIPES.items():
        assert repr(recipe) == str(recipe)
        assert str(recipe).startswith(f"recipe {name}: ")
        assert pickle.loads(pickle.dumps(recipe)) == recipe  # noqa: S301
