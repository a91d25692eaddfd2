"""Training: least squares as numpy has it, the same bits again, divergence told, parts apart."""

from dataclasses import replace

import numpy as np
import pytest
from made_samples import panel, series

from attnrate.choose import training
from attnrate.choose.contender import Shape, contender
from attnrate.choose.folds import Fold, rolling
from attnrate.choose.samples import Samples
from attnrate.choose.training import Raced, fit_on, parted, train_on
from attnrate.errors import InputError

BOTH = [pytest.param(series(), id="series"), pytest.param(panel(), id="panel")]


def trained(samples: Samples, fold: Fold, name: str, seed: int = 0, steps: int = 12) -> Raced:
    size = contender(name).size(Shape.of(samples), 800)
    return train_on(samples, fold, name, size, seed, steps, batch=16)


@pytest.mark.parametrize("samples", [series(), series(horizon=3), panel(count=200)], ids=str)
def test_with_much_data_the_linear_map_is_that_of_least_squares(samples: Samples) -> None:
    fold = rolling(samples, 2)[1]
    learned, watched = parted(samples, fold.train, 0)
    both = np.concatenate([learned, watched])
    x, y = samples.tokens(both).reshape(len(both), -1), samples.truth(both)
    design = np.column_stack([x, np.ones(len(x))])
    solution = np.linalg.lstsq(design, y.reshape(len(y), -1), rcond=None)[0]
    held = samples.tokens(fold.held).reshape(len(fold.held), -1)
    guess = np.column_stack([held, np.ones(len(held))]) @ solution
    truth = samples.truth(fold.held)
    wanted = np.square(guess.reshape(truth.shape) - truth).sum(-1).mean()
    found = trained(samples, fold, "linear").judged
    assert found is not None
    assert found.mse == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("samples", BOTH)
@pytest.mark.parametrize("name", ["linear", "gru", "transformer"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    samples: Samples, name: str
) -> None:
    fold = rolling(samples, 2)[0]
    one, two, other = (trained(samples, fold, name, seed) for seed in (0, 0, 1))
    assert one.judged is not None
    assert two.judged is not None
    assert other.judged is not None
    assert one.judged.errors == two.judged.errors
    # of a panel the seed also says which sequences choose the ridge
    assert (one.judged.errors == other.judged.errors) is (name == "linear" and not samples.whole)


@pytest.mark.parametrize("samples", BOTH)
def test_the_order_of_held_out_samples_does_not_matter(samples: Samples) -> None:
    fold = rolling(samples, 2)[1]
    turned = Fold(fold.train, fold.held[::-1].copy())
    one, two = (trained(samples, each, "tcn").judged for each in (fold, turned))
    assert one is not None
    assert two is not None
    assert one.units == two.units
    assert one.counts == two.counts
    assert one.mse == pytest.approx(two.mse, rel=1e-5)
    assert one.errors == pytest.approx(two.errors, rel=1e-5)


def test_the_mean_error_is_that_of_its_units_by_their_counts() -> None:
    samples = series()
    found = trained(samples, rolling(samples, 2)[1], "gru").judged
    assert found is not None
    assert np.average(found.errors, weights=found.counts) == pytest.approx(found.mse)
    assert sum(found.counts) == len(rolling(samples, 2)[1].held)


def test_a_model_that_diverges_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    wild = replace(contender("tcn"), rate=1e30)
    monkeypatch.setattr(training, "contender", lambda name: wild)
    samples = series()
    found = trained(samples, rolling(samples, 2)[0], "tcn")
    assert (found.status, found.judged) == ("diverged", None)
    assert found.rate == pytest.approx(1e30 / 9)
    assert found.memory > 0


def test_training_learns() -> None:
    samples = series(rows=1500)
    fold = rolling(samples, 2)[1]
    found = trained(samples, fold, "tcn", steps=150).judged
    assert found is not None
    assert found.mse < 0.95 * samples.truth(fold.held).var()


def test_what_is_watched_in_a_series_is_its_end_and_shares_no_row_with_the_rest() -> None:
    samples = series(horizon=3)
    learned, watched = parted(samples, np.arange(200), 0)
    first, last = samples.moments()
    assert last[learned].max() < first[watched].min()
    assert watched.tolist() == [*range(170, 200)]


def test_of_a_panel_random_sequences_are_watched_by_the_seed() -> None:
    samples = panel()
    parts = [parted(samples, np.arange(40), seed) for seed in (0, 0, 1)]
    assert [sorted([*one, *two]) for one, two in parts] == 3 * [[*range(40)]]
    assert parts[0][1].tolist() == parts[1][1].tolist() != parts[2][1].tolist()


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InputError, match="too few samples"):
        fit_on(series(), np.arange(9), "gru", 2, 0, 5)


def test_torch_goes_on_with_its_random_numbers_as_if_nothing_were_trained() -> None:
    import torch

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    trained(panel(), rolling(panel(), 2)[0], "transformer", steps=2)
    assert torch.equal(before, torch.random.get_rng_state())
