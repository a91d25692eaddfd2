"""Stands in for a fit in the tests of sweeps: quick, and it notes what it begins and ends."""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from attnrate.fitting.trial import Trial, trial_of

Settings = dict[str, Any]
DEATHS = "STANDIN_DEATHS"


def grid(trials: int = 12, sleep: float = 0.05, **more: Any) -> dict[str, Any]:
    return {
        "target": {"kind": "spectral", "rank": 2},
        "model": {"kind": "transformer"},
        "recipe": {"sleep": sleep, **more},
        "grid": {"target.alpha": [0.6, 1.5], "seed": [*range(trials // 2)]},
    }


def tiny(settings: Settings) -> dict[str, Any]:
    """A number that depends on the settings alone, after a nap."""
    trial = trial_of(settings)
    note("begin", trial)
    time.sleep(trial.recipe["sleep"])
    note("end", trial)
    return {"value": value(trial)}


def value(trial: Trial) -> float:
    return random.Random(trial.seed).random() ** trial.target["alpha"]


def raises_for_seed_1(settings: Settings) -> dict[str, Any]:
    trial = trial_of(settings)
    if trial.seed == 1:
        raise ValueError("seed 1 is not liked here")
    return tiny(settings)


def prints(settings: Settings) -> dict[str, Any]:
    print("a trial that prints")
    os.write(1, b"and writes to its standard output\n")
    sys.stdout.flush()
    return tiny(settings)


def dies_for_seed_1(settings: Settings) -> dict[str, Any]:
    """Is killed in the middle of seed 1, as many times as STANDIN_DEATHS says."""
    trial = trial_of(settings)
    deaths = sum(what == "dies" for what, _, _ in entries(Path(os.environ["STANDIN_LOG"])))
    if trial.seed == 1 and deaths < int(os.environ[DEATHS]):
        note("dies", trial)
        os.kill(os.getpid(), signal.SIGKILL)
    return tiny(settings)


def leaves_a_child_for_seed_1(settings: Settings) -> dict[str, Any]:
    """Dies in the middle of seed 1 and leaves a process behind that holds its channels."""
    trial = trial_of(settings)
    log = Path(os.environ["STANDIN_LOG"])
    if trial.seed == 1 and not times(log, "leaves"):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        note("leaves", trial, child)
        os.kill(os.getpid(), signal.SIGKILL)
    return tiny(settings)


def sticks_on_a_node(settings: Settings) -> dict[str, Any]:
    """Once two trials have ended, hangs on the Ray node that is named beside the log.

    Trials on other nodes then wait for that, or the sweep could end before that node has begun.
    """
    trial = trial_of(settings)
    import ray

    log = Path(os.environ["STANDIN_LOG"])
    here = ray.get_runtime_context().get_node_id()
    if times(log, "end").total() >= 2:
        if here == log.with_suffix(".node").read_text():
            note("sticks", trial)
            time.sleep(120)
        patience = time.monotonic() + 90
        while not times(log, "sticks") and time.monotonic() < patience:
            time.sleep(0.02)
    return tiny(settings)


def says_no_json(settings: Settings) -> dict[str, Any]:
    trial = trial_of(settings)
    return {"value": float("nan")} if trial.seed == 1 else tiny(settings)


def says_threads(settings: Settings) -> dict[str, Any]:
    import torch

    return {"threads": torch.get_num_threads(), "stdin": sys.stdin.read()}


def note(what: str, trial: Trial, pid: int | None = None) -> None:
    line = f"{what} {trial.key} {pid or os.getpid()}\n".encode()
    log = os.open(os.environ["STANDIN_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line)
    os.close(log)


def entries(log: Path) -> list[tuple[str, str, int]]:
    lines = (line.split() for line in log.read_text().splitlines())
    return [(what, key, int(pid)) for what, key, pid in lines]


def times(log: Path, what: str) -> Counter[str]:
    return Counter(key for entry, key, _ in entries(log) if entry == what)


def main() -> None:
    """Sweep `grid(trials, sleep)` into the store: STORE TRIALS SLEEP."""
    import sweep_standin  # workers cannot find what is in a script

    from attnrate.fitting.sweep import sweep

    store, trials, sleep = sys.argv[1:]
    print(
        sweep(grid(int(trials), float(sleep)), store=store, workers=2, function=sweep_standin.tiny)
    )


if __name__ == "__main__":
    main()
