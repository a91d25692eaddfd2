"""The experiment ordering: its targets in closed form, models of equal size, crossings, claims."""

from collections.abc import Callable

import conclusions
import pytest
import torch
from conclusions import survives_json

from attnrate.experiments import load
from attnrate.experiments.contract import Done, Results
from attnrate.experiments.paper.ordering import (
    EXPERIMENT,
    NAMES,
    VARIANTS,
    Floor,
    FloorOutcome,
    Trained,
    TrainedOutcome,
    blend,
    causal_floor,
    measured,
    parameters,
    plan,
    variance,
)
from attnrate.experiments.run import run_job
from attnrate.targets import linear_target, spectral_target, swap_ends

SHARES = {"as it is": (0.0, 0.5, 1.0), "permuted": (0.0, 1.0), "causal": (0.0, 1.0)}


def floors() -> list[Done[Floor, FloorOutcome]]:
    least = {"as it is": 0.03, "permuted": 0.3, "causal": 0.0}
    return [
        Done(Floor(variant=variant, share=share), FloorOutcome(least[variant], 0.001))
        for variant, shares in SHARES.items()
        for share in shares
    ]


def fits(
    error: Callable[[str, float, str], float], seeds: int = 3
) -> list[Done[Trained, TrainedOutcome]]:
    return [
        Done(
            Trained(variant=variant, share=share, model=name, recipe={}, seed=seed),
            TrainedOutcome(error(variant, share, name) * (1 + 0.05 * seed)),
        )
        for variant, shares in SHARES.items()
        for share in shares
        for name in NAMES
        for seed in range(seeds)
    ]


def results(error: Callable[[str, float, str], float], seeds: int = 3) -> Results:
    return Results([*floors(), *fits(error, seeds)])


def as_the_paper(variant: str, share: float, name: str) -> float:
    if name == "Transformer":
        return 1e-3 * 10 ** (2 * share - 1)
    return 0.5 if variant == "permuted" else 1e-3 * 10 ** (1 - 2 * share)


def otherwise(variant: str, share: float, name: str) -> float:
    if name == "Transformer":
        return 0.5 if variant == "permuted" else 0.05
    return 0.04


def query_by_value(variant: str, share: float, name: str) -> float:
    if (variant, share, name) == ("permuted", 0.0, "Transformer"):
        return 0.5
    return as_the_paper(variant, share, name)


def verdicts(found: Results) -> dict[str, str]:
    return conclusions.verdicts(EXPERIMENT, found)


@pytest.mark.parametrize(("preset", "seconds"), [("quick", 100), ("paper", 1.2 * 3600)])
def test_the_tasks_are_different_and_within_the_budget(preset, seconds):
    listed = plan(preset)
    assert len({one.job.key for one in listed}) == len(listed)
    assert sum(one.size for one in listed) <= seconds
    assert {getattr(one.job, "model", None) for one in listed} == {None, *NAMES}
    assert load("ordering") is EXPERIMENT


def test_all_models_have_as_many_parameters_within_five_percent():
    for name in NAMES:
        assert parameters(name) == pytest.approx(parameters("Transformer"), rel=0.05)


def test_numbers_in_the_papers_sense_confirm_it():
    assert set(verdicts(results(as_the_paper)).values()) == {"holds"}


def test_where_the_best_rival_is_as_good_there_is_no_difference() -> None:
    def seeded(ratios: tuple[float, ...]) -> Results:
        done = [
            Done(
                Trained(variant="causal", share=0.0, model=name, recipe={}, seed=seed),
                TrainedOutcome(0.01 * (1.0 if name == "Transformer" else ratio)),
            )
            for seed, ratio in enumerate(ratios)
            for name in ("Transformer", "convolution")
        ]
        return Results([*floors(), *done])

    # the full run's is 0.81 [0.62, 1.06]: neither is ahead, and both ends are within a factor of 2
    assert verdicts(seeded((0.7, 0.9, 1.1)))["ordering-graph-causal"] == "no difference"
    assert verdicts(seeded((0.3, 0.9, 2.4)))["ordering-graph-causal"] == "open"
    assert verdicts(seeded((1.2, 1.25, 1.3)))["ordering-graph-causal"] == "holds"


def test_other_numbers_refute_it():
    found = verdicts(results(otherwise))
    assert found == {
        "ordering-graph": "does not hold",
        "ordering-graph-causal": "does not hold",
        "ordering-temporal": "holds",
        "ordering-transformer-permuted": "does not hold",
        "ordering-rnn-permuted": "no difference",
    }


def test_a_query_that_counts_by_its_value_corrects_proposition_6_2():
    found = verdicts(results(query_by_value))
    assert found["ordering-transformer-permuted"] == "holds when corrected"


def test_the_crossing_is_interpolated_in_the_logarithm():
    found = measured(results(as_the_paper))
    at, without = found.crossing("as it is", "GRU")
    assert (at.value, at.count, without) == (pytest.approx(0.5), 3, 0)
    at, without = found.crossing("permuted", "GRU")
    assert (at.count, without) == (0, 3)


def test_one_seed_and_missing_parts_leave_claims_open_and_break_nothing():
    assert set(verdicts(Results()).values()) == {"open"}
    single = verdicts(results(as_the_paper, 1))
    assert single["ordering-temporal"] == "holds"
    near = verdicts(results(lambda v, s, n: 0.05 if n == "Transformer" else 0.06, 1))
    assert near["ordering-temporal"] == near["ordering-graph"] == "open"
    plain = [one for one in results(as_the_paper).done if one.job.variant == "as it is"]
    assert verdicts(Results(plain))["ordering-graph-causal"] == "open"
    diverged = [Done(one.job, TrainedOutcome(None)) for one in fits(as_the_paper)]
    lost = Results([*floors(), *diverged])
    assert set(verdicts(lost).values()) == {"open"}
    said = EXPERIMENT.conclude(lost)
    assert all("diverged" in claim.evidence for claim in said.claims)
    assert {cell for row in said.tables[0].rows for cell in row[2:-1]} == {"diverged"}


@pytest.mark.parametrize("seeds", [0, 1, 3])
def test_the_record_survives_json(seeds):
    again = survives_json(EXPERIMENT.conclude(results(as_the_paper, seeds)))
    assert len(again.claims) == 5


def test_floor_and_fit_run():
    found = run_job(Floor(variant="permuted", share=1.0).settings)
    assert found["floor"] == pytest.approx(0.31, abs=0.02)
    assert Floor(variant="permuted", share=1.0) in [one.job for one in plan("quick")]
    tiny = {"steps": 2, "first_batch": 4, "batch": 4}
    for variant, name in (("causal", "Transformer"), ("as it is", "RNN")):
        job = Trained(variant=variant, share=0.0, model=name, recipe=tiny)
        assert run_job(job.settings)["error"] > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_parts_have_unit_variance(variant):
    assert variance(blend(variant, 0.0)) == pytest.approx(1.0, abs=0.02)
    assert variance(blend(variant, 1.0)) == pytest.approx(1.0, abs=0.02)


def test_a_blend_is_affine_in_its_share():
    x = blend("as it is", 0.0).sample(3, 1)
    graph, temporal, middle = (blend("as it is", share)(x) for share in (0.0, 1.0, 0.25))
    assert torch.allclose(middle, 0.75 * graph + 0.25 * temporal)


def test_the_ends_are_the_papers_targets_but_for_mean_and_scale():
    x = blend("as it is", 0.0).sample(50, 1)
    for share, part in ((0.0, spectral_target(1.0, 2)), (1.0, linear_target("exponential", 16))):
        pairs = torch.stack([blend("as it is", share)(x).flatten(), part(x).flatten()])
        assert float(torch.corrcoef(pairs)[0, 1]) == pytest.approx(1.0)


def test_the_permuted_blend_gives_the_same_outputs_for_the_permuted_inputs():
    plain, permuted = (blend(variant, 0.3) for variant in ("as it is", "permuted"))
    x = plain.sample(4, 0)
    assert torch.allclose(permuted(x[:, swap_ends(16, 5)]), plain(x))


def test_the_floor_of_causal_targets_is_zero():
    assert causal_floor(blend("as it is", 1.0)) == (0.0, 0.0)
    assert causal_floor(blend("causal", 0.4))[0] == pytest.approx(0.0, abs=1e-28)
