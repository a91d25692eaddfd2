"""The ladder: brackets hold exact floors, gains are differences, and what cannot be is refused."""

import numpy as np
import pytest
from cut_samples import attended, autoregressive, filtered, sequences, windows

import attnrate as ar
from attnrate.choose.ladder import LEAST_UNITS, ladder
from attnrate.choose.rungs import CLASSES, Class
from attnrate.choose.verdict import by_ladder
from attnrate.errors import InputError
from attnrate.targets.linear import FloorKind

drawn = np.random.default_rng(0)
KINDS: list[tuple[Class, FloorKind]] = [("filter", "time-invariant"), ("causal", "causal")]


def test_brackets_hold_the_exact_floors_of_permuted_functionals() -> None:
    held = 0
    for seed in range(8):
        made = np.random.default_rng(300 + seed)
        length = int(made.integers(3, 9))
        rho = made.normal(size=length)
        target = ar.linear_target(rho, length).permuted(made.permutation(length))
        x = target.sample(400, seed=seed).double()
        y = target(x).numpy()
        noise = 0.5 * float(y.std())
        found = ladder(
            sequences(x.numpy(), y + noise * made.normal(size=y.shape)), seed, progress=False
        )
        for name, kind in KINDS:
            floor = target.floor(kind) + noise**2
            rung = found[name]
            low, high = (found.variance * end for end in (rung.lower.low, rung.upper.high))
            held += low <= floor <= high
            # and the bracket says something
            assert high - low < 0.6 * floor
    # of 16 that hold in 19 of 20 each, fewer than 14 would be seen once in 23
    assert held >= 14


def test_a_gain_is_the_difference_of_held_out_shares() -> None:
    found = ladder(attended(150, 4, 0.5), progress=False)
    for one, two in (("nothing", "filter"), ("additive", "pairwise"), ("set", "additive")):
        if one in found.models and one != "set":
            difference = found[one].upper.value - found[two].upper.value
            assert found.gain(one, two).value == pytest.approx(difference, abs=1e-12)
        back = found.gain(two, one)
        assert found.gain(one, two).value == pytest.approx(-back.value)
        assert found.gain(one, two).low == pytest.approx(-back.high)


def test_the_variance_is_that_of_the_outputs_around_their_mean_at_each_position() -> None:
    samples = attended(150, 4, 0.5)
    y = samples.truth(np.arange(150))
    found = ladder(samples, progress=False)
    assert found.variance == pytest.approx(np.square(y - y.mean(0)).mean(), rel=1e-6)
    assert found["nothing"].lower.value == pytest.approx(1.0)
    series = windows(samples.x, samples.y, 3)
    after = samples.y[2:]
    assert ladder(series, progress=False).variance == pytest.approx(after.var(), rel=1e-6)


def test_a_panel_has_all_rungs_and_a_series_those_without_positions() -> None:
    panel = ladder(attended(60, 3, 0.5), progress=False)
    assert tuple(rung.name for rung in panel.rungs) == CLASSES
    assert panel.drift is None
    x = autoregressive(300, 0.5)
    series = ladder(windows(x, x, 4, 1), progress=False)
    assert {*CLASSES} - {rung.name for rung in series.rungs} == {"causal", "linear"}
    assert series.drift is not None
    frame = panel.to_frame()
    assert frame["class"].tolist() == [*CLASSES]
    assert frame["upper"].tolist() == [rung.upper.value for rung in panel.rungs]
    with pytest.raises(KeyError):
        series["causal"]


def test_the_same_seed_gives_the_same_ladder_and_another_seed_other_blocks() -> None:
    samples = attended(60, 3, 0.5)
    one, two, other = (ladder(samples, seed, progress=False) for seed in (1, 1, 2))
    assert one.to_frame().equals(two.to_frame())
    assert not one.to_frame().equals(other.to_frame())


@pytest.mark.parametrize("level", [0.0, 3.3, -1e9])
def test_a_constant_is_refused(level: float) -> None:
    with pytest.raises(InputError, match=r"constant: its variance is .* Leave out"):
        ladder(windows(drawn.normal(size=(400, 1)), np.full((400, 1), level), 4), progress=False)
    with pytest.raises(InputError, match="constant at each position"):
        ladder(sequences(drawn.normal(size=(60, 3, 1)), np.full((60, 3, 1), level)), progress=False)


def test_a_panel_whose_outputs_depend_on_the_position_alone_is_refused() -> None:
    y = np.broadcast_to(np.array([1.0, 5.0, -2.0])[None, :, None], (60, 3, 1))
    with pytest.raises(InputError, match="constant at each position"):
        ladder(sequences(drawn.normal(size=(60, 3, 1)), y), progress=False)


def test_small_changes_of_a_large_number_are_no_constant() -> None:
    x = autoregressive(400, 0.5)
    samples = windows(x, 1e6 + 1e-3 * filtered(x, [1.0, 0.5], 0.1), 4)
    assert by_ladder(ladder(samples, progress=False)).verdict == "linear"


def test_too_few_data_are_refused_with_what_to_do() -> None:
    x = drawn.normal(size=(8 * LEAST_UNITS, 1))
    with pytest.raises(InputError, match=r"12 independent stretches of 10 rows.*there are \d+\."):
        ladder(windows(x, x, 9, 1), progress=False)
    with pytest.raises(InputError, match=r"12 independent sequences and more; there are 11\.$"):
        ladder(sequences(x[:33].reshape(11, 3, 1), x[:33].reshape(11, 3, 1)), progress=False)
    x = drawn.normal(size=(12, 3, 1))
    assert ladder(sequences(x, x), progress=False)["nothing"].upper.known


def test_tokens_of_too_many_coordinates_are_refused() -> None:
    x = np.zeros((40, 1001))
    with pytest.raises(InputError, match=r"1,000 coordinates at most; there are 1001\. Leave some"):
        ladder(windows(x, x[:, :1], 1), progress=False)


def test_a_column_that_is_the_target_leaves_nothing_and_a_constant_one_breaks_nothing() -> None:
    y = drawn.normal(size=(400, 1))
    x = np.concatenate([y, np.full_like(y, 7.0), np.zeros_like(y)], axis=1)
    found = ladder(windows(x, y, 4), progress=False)
    said = by_ladder(found)
    assert (said.verdict, said.enough) == ("memoryless", "memoryless linear")
    assert found["memoryless linear"].upper.value < 1e-12


def test_a_single_huge_value_breaks_no_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    # of few samples the scale of the column does not see it
    monkeypatch.setattr("attnrate.choose.sums._SCALED", 100)
    x = np.zeros((1500, 2))
    x[:, 0] = drawn.normal(size=1500)
    x[777, 1] = 1e9
    samples = windows(x, x[:, :1] + 0.1 * drawn.normal(size=(1500, 1)), 24)
    found = ladder(samples, progress=False)
    assert found["memoryless linear"].upper.value < 0.02


def test_of_many_coordinates_pairs_are_not_tried_and_said_so() -> None:
    x = drawn.normal(size=(80, 18))
    found = ladder(windows(x, x[:, :1], 2), progress=False)
    assert not found.paired
    assert "Pairs of tokens were not tried" in " ".join(by_ladder(found).because)
    assert ladder(windows(x[:, :2], x[:, :1], 2), progress=False).paired
