"""How the benchmark of `choose` judges what it has measured; it decides as `choose` does."""

import json
import math
import mmap
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
# behind Python's own folders: there is a profile.py among the benchmarks
sys.path.append(str(ROOT / "benchmarks"))

import _choose_heads as head_sizes  # noqa: E402
import _choose_peers as peers  # noqa: E402
import _choose_real as real  # noqa: E402
import _choose_whole as whole  # noqa: E402
import choose as benchmark  # noqa: E402
from _choose_truths import Set, within  # noqa: E402
from attnrate.choose import choose as command  # noqa: E402
from attnrate.choose.ladder import Ladder, ladder  # noqa: E402
from attnrate.choose.race import Race, Racer  # noqa: E402
from attnrate.choose.samples import Samples  # noqa: E402
from attnrate.statistics import Interval  # noqa: E402

NONE = Interval(math.nan, math.nan, math.nan, 0)


def racer(name: str, ratio: float, low: float, nominal: float = 1.0) -> Racer:
    """A contender whose error is `ratio` times that of the best, which is 1."""
    known = Interval(ratio, ratio, ratio, 9)
    difference = Interval(ratio - 1, low - 1, 2 * ratio - low - 1, 9)
    tied = low <= 1 or ratio < 1.01
    return Racer(
        *(name, name, 6000, 6, 0, known, known, difference, ratio, tied),
        *(1.0, 0.1, nominal, 1000, (0.01,)),
    )


def raced(*racers: Racer) -> Race:
    return Race(racers, 100, 3, 2, 1.0)


BEST = racer("tcn", 1.0, 1.0)


def row(taken: str, *tied: str, best: str = "tcn", **more: Any) -> dict[str, Any]:
    """A task's row, as far as it is judged."""
    names = ("linear", "tcn", "gru")
    ratios = dict(zip(names, more.pop("ratios", (1.5, 1.0, 1.2)), strict=True))
    return {
        **{"task": "t", "best": best, "taken": taken, "tied": [*tied], "separated": True},
        "of_taken": {"regret": 1.0, "low": 1.0, "high": 1.0},
        "models": {name: {"ratio": each, "seconds": 10.0} for name, each in ratios.items()},
        **{"tenth": "gru", "raced": True, "ladder_seconds": 1.0, "race_seconds": 2.0, **more},
    }


@pytest.mark.parametrize(
    ("other", "sure"),
    [
        (racer("gru", 1.05, 1.02), True),
        (racer("gru", 1.05, 0.99), False),  # the interval of the difference holds 0
        (racer("gru", 1.005, 1.002), False),  # less than 1 %
        (replace(racer("gru", 1.0, 1.0), mse=NONE, ratio=math.nan), True),  # it diverged
    ],
)
def test_a_winner_separates_from_every_other_surely_and_by_one_per_cent(
    other: Racer, sure: bool
) -> None:
    assert real.separated(raced(BEST, racer("linear", 2.0, 1.9), other)) is sure


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (row("tcn", "tcn"), True),
        (row("gru", "tcn", "gru"), True),
        (row("gru", "gru"), False),
        (row(""), False),
        (row("filter", "filter", best="linear"), True),
        (row("memoryless", "memoryless", best="linear"), False),
    ],
)
def test_the_winner_is_named_if_it_is_taken_or_tied(found: dict[str, Any], right: bool) -> None:
    assert real.named(found) is right


def test_answers_are_counted_beside_winners_that_separate() -> None:
    worse = {"regret": 1.3, "low": 1.11, "high": 1.5}
    rows = [row("tcn", "tcn"), row("gru", "gru", of_taken=worse), row("")]
    rows += [row("gru", "gru", separated=False)]
    measured, required = real.of_real(rows, 4)
    assert measured["without an answer"] == ["t"]
    assert [*required.values()] == [True, False, False]
    texts = " ".join(required)
    assert "1 of 3 (1 of them without an answer)" in texts
    assert "1 of 3 answers" in texts
    none, required = real.of_real([row("gru", "gru", separated=False)], 1)
    assert none["separated"] == 0
    assert not any("separates" in text for text in required)


def test_regret_is_that_of_each_rule_over_answered_tasks() -> None:
    rows = [
        row("tcn", of_taken={"regret": 1.0}),
        row("gru", of_taken={"regret": 1.2}),
        row("filter", raced=False, of_taken={"regret": 0.9}, ratios=(1.0, 1.1, 1.3)),
        row(""),
    ]
    measured, required = real.of_regret(rows)
    by_rule = {each["rule"]: each for each in measured["rows"]}
    assert measured["tasks"] == 3
    assert by_rule["choose"]["regrets"] == [1.0, 1.2, 0.9]
    assert by_rule["choose"]["median"] == 1.0
    assert by_rule["choose"]["seconds"] == 3.0
    assert by_rule["always linear"]["regrets"] == [1.5, 1.5, 1.0]
    assert by_rule["best at a tenth"]["mean"] == pytest.approx((1.2 * 1.2 * 1.3) ** (1 / 3))
    assert [*required.values()] == [True, False, True, True, True]


def test_equal_regret_counts_as_better_at_less_time_alone() -> None:
    same = {"regret": 1.0}
    quick = row("tcn", of_taken=same, raced=False)
    slow = row("tcn", of_taken=same, ladder_seconds=20.0)
    met = [[*real.of_regret([each])[1].values()][3] for each in (quick, slow)]
    assert met == [True, False]


@pytest.fixture(scope="module")
def line() -> Samples:
    """A series whose next value is linear in the last ones."""
    drawn = np.random.default_rng(0)
    noise, y = drawn.normal(size=1600), np.zeros(1600)
    for t in range(2, 1600):
        y[t] = 0.5 * y[t - 1] + 0.3 * y[t - 2] + noise[t]
    task = real.Task("line", "y", 1, lambda: pd.DataFrame({"y": y}))
    return real.samples_of(task, real.Budget(rows=1500, window=4))


@pytest.fixture(scope="module", params=["filter", "attention", "nothing"])
def climbed(request: pytest.FixtureRequest) -> tuple[Samples, Ladder]:
    samples = within(Set(request.param, 0, count=300))
    return samples, ladder(samples, progress=False)


@pytest.mark.parametrize(
    "ran",
    [
        raced(BEST, racer("gru", 1.001, 0.9, 0.5), racer("linear", 2.0, 1.9, 0.0)),
        raced(BEST, racer("linear", 1.001, 0.9, 0.0), racer("transformer", 1.5, 1.4)),
        raced(racer("transformer", 1.0, 1.0), racer("tcn", 1.3, 1.2), racer("linear", 2.0, 1.9)),
        raced(replace(BEST, mse=NONE, tied=False, ratio=math.nan)),
    ],
)
def test_it_decides_as_choose_does(
    climbed: tuple[Samples, Ladder], ran: Race, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    samples, found = climbed
    monkeypatch.setattr(command, "ladder", lambda *_, **__: found)
    monkeypatch.setattr(command, "race", lambda *_, **__: ran)
    monkeypatch.setattr(command, "fit_winner", lambda *_, **__: None)
    effort = command.Effort("race", 1.0, 3, 2, 0, False, "local", 1, False)
    parts = command._parts(samples, effort, tmp_path / "no.sqlite")
    answer = real.answer_of(found, ran)
    assert answer.taken == parts.winner
    assert answer.said.verdict == parts.conclusion.verdict
    assert answer.raced is (parts.race is not None)


@pytest.mark.slow
def test_a_task_is_run_from_its_frame_to_its_row_and_goes_on_from_its_store(
    tmp_path: Path,
) -> None:
    task, store = real.drawn_tasks()[0], tmp_path / "a.sqlite"
    budget = real.Budget(rows=600, window=4, steps=4, seeds=1, times=2, long_seeds=2)
    found = real.run_task(task, budget, store)
    assert found["best"] in found["models"]
    assert found["models"][found["best"]]["ratio"] == 1.0
    assert min(each["ratio"] for each in found["models"].values()) == 1.0
    assert "t" not in real.Finished(tmp_path / "f.json", budget).rows
    done = real.Finished(tmp_path / "f.json", budget)
    done.add(found)
    assert done.rows == json.loads(json.dumps({task.name: found}))
    assert real.Finished(tmp_path / "f.json", real.Budget()).rows == {}


def test_heads_without_advice_count_as_not_close() -> None:
    fine = {"advised": 2, "largest": 16, "ratio": 1.05}
    rows = [fine] * 9 + [{"advised": None, "largest": 16}]
    assert [*head_sizes.of_heads(rows)[1].values()] == [True]
    rows[0] = {**fine, "ratio": 1.11}
    ((text, met),) = head_sizes.of_heads(rows)[1].items()
    assert not met
    assert "8 of 10, of which 9 advised less" in text


def test_a_peer_that_is_not_installed_is_skipped_with_a_sentence() -> None:
    assert "name a Python that has it" in peers.installed(None, "darts")
    python = Path(sys.executable)
    assert "no_such_peer" in peers.installed(python, "no_such_peer")
    assert peers.installed(python, "json") == ""
    rows = [{"tool": "attnrate", "mse": 1.0}, {"tool": "darts", "failed": "it is skipped"}]
    assert [*peers.of_peers(rows)[1].values()] == [False]


def test_memory_is_that_of_a_process_and_its_children() -> None:
    size = 64_000_000
    before = whole.memory_of(os.getpid())
    # not from the heap, which may have kept as much as this of an earlier test
    with mmap.mmap(-1, size) as held:
        for page in range(0, size, mmap.PAGESIZE):
            held[page] = 1
        after = whole.memory_of(os.getpid())
    assert after - before == pytest.approx(size, rel=0.2)
    assert whole.memory_of(2**22 + 1) == 0


def test_every_part_is_described_at_the_top_of_the_file() -> None:
    for name in (*benchmark.DRAWN, *benchmark.RACED):
        assert f"\n{name}  " in str(benchmark.__doc__)
