"""How much of the attention of all model types of transformers the watcher finds.

    python benchmarks/zoo.py [--log FILE] [MODEL_TYPE ...]

Every type is built with small settings and random weights and run once on made-up inputs
(tests/tools/walk.py says how). A line is printed for each, and a table at the end. With --log what
is done is kept in a file, and a walk that was broken off goes on where it stopped.
"""

import argparse
import gc
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

if __name__ == "__main__":
    # behind Python's own folders, where profile.py must not stand for the module of its name
    sys.path.append(sys.path.pop(0))
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "tools"))

import torch
from walk import CLASSES, Found, walked

import _report

_SHARE = 0.8


def kinds() -> list[str]:
    """The model types of transformers."""
    import transformers

    return sorted(transformers.CONFIG_MAPPING.keys())


def known(log: Path | None) -> dict[str, Found]:
    """What a file says of types that were walked before."""
    if log is None or not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {row["kind"]: Found(**{**row, "why": tuple(row["why"])}) for row in rows}


def main() -> int:
    """Walk, print the table, and say whether the share is what is required."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="types; all by default")
    parser.add_argument("--log", type=Path, help="a file that keeps what is done")
    given = parser.parse_args()
    torch.set_num_threads(1)
    done = known(given.log)
    wanted = given.kinds or kinds()
    for number, kind in enumerate(wanted, 1):
        if kind in done:
            continue
        start = time.perf_counter()
        found = done[kind] = walked(kind)
        if number % 20 == 0:
            gc.collect()  # which takes seconds once hundreds of modules are loaded
        seconds = time.perf_counter() - start
        counts = f"{found.sites} sites, {found.seen} of {found.attended} calls"
        why = f": {found.why[0]}" if found.why else ""
        print(
            f"{number}/{len(wanted)} {kind}  {found.verdict}, {counts}, {seconds:.1f} s{why}",
            flush=True,
        )
        if given.log is not None:
            with given.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
    tally = Counter(done[kind].verdict for kind in wanted)
    print()
    for verdict in CLASSES:
        print(f"{tally[verdict]:5d}  {verdict}")
    covered = tally["covered"] + tally["covered as far as it ran"]
    attending = covered + sum(
        tally[verdict] for verdict in ("partly", "none", "silent", "counted otherwise")
    )
    share = covered / max(attending, 1)
    print(
        f"{covered} of {attending} types with softmax attention that ran are covered: {share:.1%}"
    )
    _report.machine("torch", "transformers")
    return (
        0
        if _report.all_required(
            {
                f"more than {_SHARE:.0%} of them are covered": share > _SHARE,
                "no attention is left out silently": tally["silent"] == 0,
                "no more is profiled than was counted": tally["counted otherwise"] == 0,
            }
        )
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
