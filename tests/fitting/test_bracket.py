"""Brackets: the lower bound is exact, the upper the least that was found, and both say why."""

import copy
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from attnrate.errors import AttnrateError, InputError
from attnrate.fitting.bracket import bracket, floor_of
from attnrate.fitting.fit import fit
from attnrate.fitting.train import Look
from attnrate.models import GRU, LinearRNN, Transformer
from attnrate.progress import Progress, Said
from attnrate.targets import (
    PositionedInputs,
    error_of,
    linear_target,
    nearest_point,
    spectral_target,
    swap_ends,
)
from attnrate.theory.compile import compile_target

PERMUTED = linear_target("exponential", 8).permuted(swap_ends(8, 2))
SPECTRAL = spectral_target(1.0, 3, length=8)
ALL = {"compiled", "compiled, then trained", "trained"}


def test_a_recurrent_model_on_a_permuted_target_is_held_by_its_floor() -> None:
    found = bracket(PERMUTED, lambda: LinearRNN(1, 1, hidden=16), steps=400)
    assert found.lower == PERMUTED.floor("time-invariant") > 0
    assert found.upper >= found.lower - 4 * found.upper_standard_error
    assert found.upper <= 1.1 * found.lower
    assert found.from_.lower == "best causal convolution with a bias"
    assert found.from_.upper == "trained"


def test_floors_follow_from_the_kind_of_model() -> None:
    assert floor_of(PERMUTED, GRU(1, 1, hidden=4))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, LinearRNN(1, 1, 4, "tanh"))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, Transformer(1, 1, causal=True))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, Transformer(1, 1)) == (0.0, "no floor is known")
    without = LinearRNN(1, 1, 4, bias=False)
    floor = PERMUTED.floor("time-invariant", bias=False)
    assert floor_of(PERMUTED, without) == (floor, "best causal convolution without a bias")
    assert floor > PERMUTED.floor("time-invariant")


def test_where_inputs_are_not_alike_no_floor_is_known_and_that_is_said() -> None:
    target = linear_target("exponential", 4, PositionedInputs.shifted(4))
    found = bracket(target, lambda: GRU(1, 1, hidden=2), steps=2)
    assert (found.lower, found.from_.lower) == (0.0, "no floor is known")


def test_a_head_of_full_rank_is_best_compiled_and_a_small_one_best_trained() -> None:
    full = bracket(SPECTRAL, m_h=3, m_ff=512, steps=60)
    assert full.from_.upper.startswith("compiled")
    assert set(full.parts) == ALL
    assert full.upper == min(full.parts.values())
    assert full.lower == 0.0
    assert full.from_.lower == "no floor is known"
    assert full.left_out == {}


def test_every_part_is_what_its_name_says() -> None:
    def make() -> Transformer:
        return Transformer(1, 1, n=16, m_h=2, m_v=4, width=64, depth=2)

    seen: list[tuple[str, Look]] = []
    found = bracket(SPECTRAL, make, steps=40, check_every=20, watch=lambda *told: seen.append(told))
    compiled = compile_target(SPECTRAL, 2, 64)
    warm = fit(SPECTRAL, compiled, lr=1e-3, steps=40, check_every=20)
    trained = fit(SPECTRAL, make, steps=40, check_every=20)
    assert found.parts == {
        "compiled": error_of(compiled, SPECTRAL, 8192, 2**42).value,
        "compiled, then trained": warm.error,
        "trained": trained.error,
    }
    assert [(part, look.error) for part, look in seen] == [
        *(("compiled, then trained", look.error) for look in warm.curve),
        *(("trained", look.error) for look in trained.curve),
    ]
    assert {network[0].out_features for network in (compiled.f_hat, compiled.F_hat)} == {64}
    assert (compiled.n, compiled.m_v) == (2 * 2 + 1, 1)


def test_the_recipe_warm_does_not_turn_the_trained_part_into_a_compiled_one() -> None:
    found = bracket(SPECTRAL, m_h=2, recipe="warm", steps=20)
    trained = fit(SPECTRAL, lambda: Transformer(1, 1, m_h=2), lr=1e-3, steps=20)
    assert found.parts["trained"] == trained.error


def embedded(small: Transformer, large: Transformer) -> Transformer:
    """The large one with weights that make it the small one."""
    with torch.no_grad():
        for parameter in large.parameters():
            parameter.zero_()
        for name in ("W_Q", "W_K", "W_V"):
            weight = getattr(small, name).weight
            getattr(large, name).weight[: weight.shape[0], : weight.shape[1]] = weight
        for one, two in ((small.f_hat, large.f_hat), (small.F_hat, large.F_hat)):
            first, _, last = one
            layers = [layer for layer in two if isinstance(layer, nn.Linear)]
            layers[0].weight[: first.out_features, : first.in_features] = first.weight
            layers[0].bias[: first.out_features] = first.bias
            for between in layers[1:-1]:  # hidden units are not negative, relu leaves them alone
                between.weight.copy_(torch.eye(between.out_features))
            layers[-1].weight[: last.out_features, : last.in_features] = last.weight
            layers[-1].bias[: last.out_features] = last.bias
    return large


def test_a_model_that_is_large_enough_can_be_the_compiled_one() -> None:
    compiled = compile_target(SPECTRAL, 3, 20)
    model = Transformer(1, 1, n=7, m_h=3, m_v=2, width=20, depth=3).double()
    x = SPECTRAL.sample(16, seed=3)
    torch.testing.assert_close(embedded(compiled, model)(x), compiled(x))
    assert set(bracket(SPECTRAL, model, steps=1).parts) == ALL


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Transformer(1, 1, m_h=2, causal=True), "plain form"),
        (Transformer(1, 1, m_h=2, heads=2), "plain form"),
        (Transformer(1, 1, m_h=2, layers=2), "plain form"),
        (Transformer(1, 1, m_h=2, scale=True), "plain form"),
        (Transformer(1, 1, m_h=2, layer_norm=True), "plain form"),
        (Transformer(1, 1, m_h=2, position="learned", length=8), "plain form"),
        (Transformer(1, 1, m_h=2, f_hat=nn.Linear(1, 32)), "plain form"),
        (Transformer(1, 1, n=6, m_h=3), "n = 7, and has {'n': 6}"),
    ],
)
def test_a_model_that_cannot_be_the_compiled_one_is_only_trained(
    model: Transformer, why: str
) -> None:
    found = bracket(SPECTRAL, model, steps=2)
    assert set(found.parts) == {"trained"}
    assert why in found.left_out["compiled"]
    assert why in str(found)


def test_a_target_that_cannot_be_compiled_is_only_trained_and_says_why() -> None:
    target = nearest_point(4)
    found = bracket(target, lambda: Transformer(target.d, target.out, m_h=2), steps=2)
    assert set(found.parts) == {"trained"}
    assert set(found.left_out) <= {"compiled"}


class Lost(LinearRNN):
    """Diverges at once, whatever the step size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * math.nan


def test_a_diverged_fit_is_never_a_bound() -> None:
    made: list[int] = []

    def first_is_lost() -> LinearRNN:
        made.append(1)  # one look at the kind of model comes before the first fit
        return (Lost if len(made) <= 2 else LinearRNN)(1, 1, hidden=2)

    found = bracket(PERMUTED, first_is_lost, steps=5, seeds=[0, 1])
    assert math.isfinite(found.upper)
    with pytest.raises(AttnrateError, match="every fit diverged"):
        bracket(PERMUTED, lambda: Lost(1, 1, hidden=2), steps=5)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"model": lambda: GRU(1, 1), "m_h": 2},
        {"m_h": 2},
        {"m_h": 0},
        {"model": lambda: 3},
        *({"model": lambda: GRU(1, 1), "seeds": seeds} for seeds in ((), 0, "01", [-1], [0.5])),
        {"model": lambda: GRU(1, 1), "seeds": [2**63]},
        {"model": lambda: GRU(1, 1), "m_ff": 0},
        {"model": lambda: GRU(1, 1), "threads": 0},
        {"model": lambda: GRU(1, 1), "recipe": "weak"},
        {"model": lambda: GRU(1, 1), "stepz": 3},
    ],
)
def test_wrong_requests_are_refused(request_: dict[str, object]) -> None:
    with pytest.raises(InputError):
        bracket(PERMUTED, **request_)


@pytest.mark.parametrize(
    ("request_", "way_out"),
    [
        ({}, "As bracket(target, m_h=6)"),
        ({"model": lambda: GRU(1, 1), "m_h": 2}, "Leave one of them out."),
        ({"m_h": 2}, "Or pass a model: bracket(target, lambda: Transformer(1, 1))."),
    ],
)
def test_a_wrong_request_is_told_the_way_out(request_: dict[str, object], way_out: str) -> None:
    with pytest.raises(InputError) as caught:
        bracket(PERMUTED, **request_)
    assert way_out in str(caught.value)


def test_a_bracket_shows_itself_and_can_be_copied_and_pickled() -> None:
    found = bracket(SPECTRAL, m_h=2, m_ff=16, steps=2)
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found  # noqa: S301
    assert repr(found) == str(found)
    frame = found.to_frame()
    assert frame["bound"].to_list() == ["lower", "upper", "upper", "upper"]
    assert frame["error"].min() == found.lower
    html = found._repr_html_()
    assert html.count("<table") == html.count("<img") == 1
    (axes,) = found.plot().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [*found.parts]


def test_a_bracket_shows_one_line_of_progress_over_all_parts(
    on_a_terminal: Callable[[Callable[[], object]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnrate.fitting.bracket.QUIET", 0.0)
    at = Progress.at

    def at_once(self: Progress, text: Said, share: float | None = None) -> None:
        at(self, text, share)
        self.mark()  # however short a part is: the line is otherwise drawn ten times a second

    monkeypatch.setattr(Progress, "at", at_once)
    changes = {"steps": 20, "check_every": 10, "seeds": [0, 1]}
    written = on_a_terminal(lambda: bracket(SPECTRAL, m_h=2, m_ff=16, **changes))
    assert "compiled, then trained · error" in written
    assert " trained · error" in written
    assert "training" not in written
    assert on_a_terminal(lambda: bracket(SPECTRAL, m_h=2, m_ff=16, progress=False, steps=2)) == ""


def test_arrays_are_answered_by_what_a_target_is() -> None:
    with pytest.raises(InputError, match="target must be a Target"):
        bracket(np.zeros((2, 3)), m_h=2)
