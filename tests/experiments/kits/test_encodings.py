"""The jobs of the position encodings: they run as in a worker, and models are of one size."""

from attnrate.experiments.contract import to_plain
from attnrate.experiments.kits.encodings import (
    ENCODINGS,
    Compiled,
    Floors,
    Symmetries,
    Trained,
    order_of,
    random_model,
    spectrum,
    target_of,
)
from attnrate.experiments.paper.positions import group
from attnrate.experiments.run import run_job

FOUND = tuple(
    tuple(sorted(group(kind))) for kind in ("all", "none", "none", "none", "none", "reversal")
)


def test_the_orders_are_those_of_tables_1_and_2():
    assert order_of("moved", 12) == [10, 11, *range(10)]
    assert order_of("swapped", 20) == [*range(10, 20), *range(10)]
    assert order_of("original", 3) == [0, 1, 2]
    x = target_of("table2", "original").sample(2, 0)
    moved = target_of("table2", "moved")
    assert (
        moved(x[:, order_of("moved", 32)]) - target_of("table2", "original")(x)
    ).abs().max() < 1e-12


def test_a_spectrum_does_not_see_what_softmax_does_not():
    for encoding in ENCODINGS:
        model = random_model(encoding, 6, 0)
        x = target_of("table2", "original").sample(3, 0)[:, :6]
        sigma = spectrum(model, x)
        assert sigma.shape == (3, 6)
        # a row of logits without its mean leaves at most 5 dimensions
        assert sigma[:, -1].max() < 1e-12 * sigma[:, 0].min()


def test_a_fit_runs_as_in_a_worker_and_knows_its_rank():
    recipe = {"name": "strong", "lr": 0.01, "steps": 2, "batch": 4, "first_batch": 4}
    job = Trained(encoding="rotary", task="spectral", order="moved", width=4, recipe=recipe)
    found = run_job(job.settings)
    assert 1 <= found["rank"] <= 16
    assert found["parameters"] > 0
    assert found["error"] > 0


def test_exact_jobs_run_as_in_a_worker():
    found = run_job(Symmetries(models=1).settings)
    assert tuple(tuple(map(tuple, each)) for each in found["found"]) == FOUND
    assert max(found["relabelled"]) < 1e-12
    job = Compiled(task="table2", order="moved", sequences=4)
    made = run_job(job.settings)
    assert max(*made["before"], *made["after"], *made["drifts"]) < 1e-12
    job = Floors(task="spectral", order="moved", sequences=50)
    outcome = job.run()
    assert 0 < outcome.reversal < outcome.every
    assert to_plain(outcome) == {key: run_job(job.settings)[key] for key in to_plain(outcome)}
