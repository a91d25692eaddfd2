"""The whole of `choose` as a user calls it: its wall time, and the memory of all its processes.

    python benchmarks/_choose_whole.py ROWS [MINUTES]

is the process that is measured; `measure` begins it.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: Rows of the data, and the seconds that the whole may take
BARS = ((20_000, 300.0), (100_000, 900.0))
_GIGABYTES = 2.0
_PAUSE = 0.5  # seconds between two looks at the memory
_PROC = Path("/proc")


def answer(rows: int, minutes: float | None) -> dict[str, Any]:
    """Choose for an hourly series whose target is a product, so that race and heads are due."""
    import numpy as np
    import pandas as pd

    import attnrate as ar
    from _choose_truths import noisy, uniform

    drawn = np.random.default_rng(0)
    x = uniform(drawn, (1, rows), 0.9)[0]
    past = np.convolve(x, np.ones(8) / 8)[:rows]
    y = np.tanh(3 * (x - 0.5) * (past - past.mean()) / past.std()) + 0.3 * x
    times = pd.date_range("2020-01-01", periods=rows, freq="h")
    frame = pd.DataFrame({"time": times, "x": x, "y": noisy(y, 0.3, drawn)})
    small = {} if minutes is None else {"minutes": minutes, "seeds": 1, "folds": 2}
    begun = time.perf_counter()
    found = ar.choose(frame, target="y", horizon=0, progress=False, **small)
    return {
        "rows": rows,
        "window": found.about.window,
        "seconds": time.perf_counter() - begun,
        "verdict": found.verdict,
        "winner": found.winner,
        "m_h": found.m_h,
        "steps": None if found.race is None else found.race.steps,
        "heads": found.heads is not None,
    }


def memory_of(pid: int) -> int:
    """The bytes of a process and of all that it began; what they share counts once."""
    total = 0
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = 1024 * int(line.split()[1])
        for task in (_PROC / str(pid) / "task").iterdir():
            total += sum(memory_of(int(child)) for child in (task / "children").read_text().split())
    except (OSError, ValueError):
        pass  # it has ended
    return total


def measure(rows: int, minutes: float | None = None) -> dict[str, Any]:
    """Run `answer` in a process of its own, and look at the memory while it runs.

    Args:
        rows: The number of rows.
        minutes: The minutes that are planned, with one seed and two folds. None is the default.

    """
    words = [sys.executable, __file__, str(rows), *([] if minutes is None else [str(minutes)])]
    load, peak, before = os.getloadavg()[0], 0, _processor()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            peak = max(peak, memory_of(running.pid))
            time.sleep(_PAUSE)
        assert running.stdout is not None
        text = running.stdout.read()
    if running.returncode:
        raise RuntimeError(f"choose failed on {rows} rows: {words}")
    found: dict[str, Any] = json.loads(text)
    return {
        **found,
        "gigabytes": peak / 1e9,
        "processor_seconds": _processor() - before,
        # what else the machine had to do: with a load above its cores the seconds are more
        **{"load_before": load, "load_after": os.getloadavg()[0]},
    }


def _processor() -> float:
    """The seconds of processor time of all processes that have ended under this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_whole(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, bool]]:
    """Beside the bars."""
    required = {}
    for row, (_, bar) in zip(rows, BARS, strict=False):
        what = f"{row['rows']} rows"
        required[f"{what}: {bar:.0f} s: {row['seconds']:.0f} s"] = row["seconds"] <= bar
        required[f"{what}: 2 GB: {row['gigabytes']:.2f} GB"] = row["gigabytes"] <= _GIGABYTES
    return {"rows": rows}, required


if __name__ == "__main__":
    # behind Python's own folders, where profile.py must not stand for the module of its name
    sys.path.append(sys.path.pop(0))
    asked = float(sys.argv[2]) if len(sys.argv) > 2 else None
    print(json.dumps(answer(int(sys.argv[1]), asked)))
