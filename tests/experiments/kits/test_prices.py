"""Jobs of `cost`: equal parameters, exact floors and scales, prices from made-up fits."""

import math

import pytest

from attnrate.experiments.contract import Done, to_plain
from attnrate.experiments.kits.costs import Cost
from attnrate.experiments.kits.fits import Fits
from attnrate.experiments.kits.prices import (
    GRAPH,
    LAST,
    LEVELS,
    NAMES,
    ORIGINAL,
    PAST,
    PERMUTED,
    PIVOT,
    SIZES,
    TASKS,
    TRANSFORMER,
    Counted,
    Floor,
    Runs,
    Seconds,
    Trained,
    TrainedOutcome,
    Written,
    entrants,
    models,
    spread,
    target_of,
)
from attnrate.experiments.run import run_job
from attnrate.models.build import build_model
from attnrate.targets import spectral_target

RECIPE = {"steps": 2, "first_batch": 4, "batch": 4}


def runs(counted=None, trained=(), timed=()):
    return Runs(counted or {}, timed, {}, None, Fits(trained))


def priced(errors, task=ORIGINAL, name=PIVOT):
    """Fits whose sizes cost ten operations each; `errors` has a list of them for each size."""
    return [
        Done(
            Trained(task=task, name=name, size=size, recipe={}, seed=seed),
            TrainedOutcome(error, operations=10 * size),
        )
        for size, each in errors.items()
        for seed, error in enumerate(each)
    ]


def test_all_models_have_the_transformers_parameters():
    target = spectral_target(1.0, 1, 16)
    counts = {name: build_model(one, target).parameter_count() for name, one in models().items()}
    assert tuple(counts) == NAMES
    assert max(abs(count / counts[PIVOT] - 1) for count in counts.values()) < 0.025


def test_the_share_of_attention_is_that_of_its_products():
    given = dict(TRANSFORMER)
    counted = {
        (PIVOT, length): Counted(name=PIVOT, model=given, length=length).run() for length in (8, 16)
    }
    every = {(name, n): cost for (_, n), cost in counted.items() for name in NAMES}
    found = runs(every)
    whole = counted[PIVOT, 8].inference
    assert found.share(8) == pytest.approx(2 * 8**2 * 64 / whole)
    networks = (whole - 2 * 8**2 * 64) / 8
    assert found.half(PIVOT) == pytest.approx(networks / (2 * 64))
    assert math.isnan(found.share(16))


def made_up(square=0, straight=1, state=0):
    """Costs a τ² + b τ at two lengths."""
    return {
        n: Cost(
            parameters=1,
            inference=square * n**2 + straight * n,
            training=square * n**2 + straight * n,
            inference_bytes=n,
            training_bytes=n,
            state=state,
        )
        for n in LAST
    }


def test_crossings_are_where_the_ratio_is():
    own = {(PIVOT, n): cost for n, cost in made_up(square=1, straight=0).items()}
    others = {(name, n): cost for name in NAMES[1:] for n, cost in made_up(straight=1024).items()}
    found = runs(own | others)
    assert found.exponent(PIVOT, "training") == pytest.approx(2)
    assert found.exponent("GRU", "training") == pytest.approx(1)
    assert found.ratios(LAST[-1], "training")["GRU"] == pytest.approx(4)
    assert found.crossing("GRU", "training", 2.0) == pytest.approx(2048)
    assert found.crossing("GRU", "training", 0.5) == LAST[0]
    assert found.crossing("GRU", "training", 8.0) is None


def test_a_price_is_the_least_cost_that_reaches_an_error():
    sure, open_, not_at_all = [1e-4, 1.1e-4, 1e-4], [5e-4, 5e-3, 2e-3], [1e-1, 1.1e-1, 1e-1]
    found = runs(trained=priced({1: not_at_all, 2: open_, 3: sure}))
    price = found.price(ORIGINAL, PIVOT, 2e-3)
    assert (price.low, price.value, price.high) == (20, 20, 30)
    price = found.price(ORIGINAL, PIVOT, 1e-3)
    assert (price.low, price.value, price.high) == (20, 30, 30)
    assert str(found.price(ORIGINAL, PIVOT, 1e-5)) == "not reached"
    assert str(found.price(ORIGINAL, PIVOT, 1e-3)) == "30 [20 to 30]"
    assert found.price(ORIGINAL, "GRU", 1.0).low == math.inf


def test_a_single_seed_decides_by_a_factor_of_ten():
    found = runs(trained=priced({1: [3e-3], 2: [3e-4], 3: [3e-5]}))
    price = found.price(ORIGINAL, PIVOT, 1e-3)
    assert (price.low, price.value, price.high) == (10, 20, 30)


def test_fits_that_diverged_reach_nothing():
    found = runs(trained=priced({1: [None, None], 2: [1e-4, 1.01e-4]}))
    assert found.price(ORIGINAL, PIVOT, 1e-3).low == 20


def test_the_cheapest_come_first():
    trained = priced({1: [1e-3]}) + priced({3: [1e-3]}, name="GRU")
    assert [name for name, _ in runs(trained=trained).ranked(ORIGINAL, 1e-2)] == [PIVOT, "GRU"]
    assert runs(trained=trained).ranked(ORIGINAL, 1e-5) == []


def test_floors_of_causal_targets_are_zero_and_of_the_others_are_above_the_levels():
    found = {task: Floor(task=task).run().floor for task in TASKS}
    assert found[ORIGINAL] == 0
    assert found[PAST] == pytest.approx(0, abs=1e-20)
    exact = target_of(PERMUTED).floor("causal") / spread(target_of(PERMUTED))
    assert found[PERMUTED] == exact > 0.3
    # where no causal model can reach the first level, only the Transformer is fitted
    assert found[GRAPH] > LEVELS[0]
    for task in TASKS:
        assert (entrants(task) == (PIVOT,)) == (found[task] > LEVELS[0])


def test_the_variance_of_a_linear_target_is_that_of_its_outputs():
    for task in (ORIGINAL, PERMUTED):
        target = target_of(task)
        drawn = target(target.sample(20_000, 1)).var(0).mean()
        assert float(drawn) == pytest.approx(spread(target), rel=0.02)


def test_one_unit_is_table_2s_target():
    found = Written(sequences=16).run()
    assert found.error < 1e-12
    # its kernel by doubling, then one product with it
    assert found.operations == 2 * 31 + 2 * 4 + 2 * 32 * 2 + 2 * 32**2


@pytest.mark.parametrize(
    ("task", "name"), [(PAST, PIVOT), (ORIGINAL, PIVOT), (ORIGINAL, "convolution")]
)
def test_a_fit_has_its_error_and_its_operations(task, name):
    job = Trained(task=task, name=name, size=SIZES[name][2][0], recipe=RECIPE)
    found = run_job(job.settings)
    assert found["error"] > 0
    assert found["operations"] > 0
    assert job.model.get("causal", False) == (task == PAST)


def test_every_model_is_timed_in_every_round():
    job = Seconds(models=models(), length=4, rounds=2)
    found = job.run()
    assert run_job(job.settings).keys() >= to_plain(found).keys()
    for times in (found.inference, found.training):
        assert [len(one) for one in times] == [2] * len(NAMES)
        assert min(min(one) for one in times) > 0
