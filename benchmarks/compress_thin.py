"""Trained thin or cut thin? The same head size by training from scratch, by cutting, and by repair.

    python benchmarks/compress_thin.py [vit|translator ...] [--work FOLDER] [--seeds N] [--out FILE]

The ViT of Fig. 3 (CIFAR-10, queries and keys of 64, cut to 8) and the translator of Table 1 (48,
cut to 8); values keep their size. A whole model is trained for each seed and cut by inputs of its
training data without labels; its repair sees the same inputs. Thin ViTs are those on record in
docs/reproduction; thin translators are trained here, with the recipe of the whole one. Trained
models and finished cuts are kept in FOLDER, so that a run that was stopped goes on where it was.
FILE gets everything measured as JSON.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where profile.py of this folder would stand for the module
    sys.path.append(sys.path.pop(0))

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import _report
import attnrate as ar
from _thin_models import Scores, Task, translator_task, vit_task
from attnrate.statistics import paired_difference

SIZE = 8
#: Steps in each layer, steps of all layers together
WAYS = {
    "cut": (0, 0),
    "cut, each layer repaired": (200, 0),
    "cut, then all layers together": (200, 100),
}
WHOLE, THIN = "whole", "trained thin"
Table = dict[str, list[float]]


def cut_scores(task: Task, seed: int, way: str, work: Path) -> Scores:
    """The scores of a model that was cut, from their file where it was cut before."""
    file = work / f"{task.name}-{task.whole}-{seed}" / f"cut-{SIZE}-{'-'.join(way.split())}.json"
    if not file.exists():
        whole = task.trained(task.whole, seed, work).model
        repair, together = WAYS[way]
        done = ar.compress(
            whole,
            task.calibration,
            size=SIZE,
            repair=repair,
            together=together,
            seed=seed,
            progress=False,
        )
        scores = task.judge(done.model) | {"change": done.change}
        file.write_text(json.dumps(scores))
        print(f"{file.parent.name}, {way}: {scores}", flush=True)
    found: Scores = json.loads(file.read_text())
    return found


def table(task: Task, seeds: Sequence[int], work: Path) -> Table:
    """The score that counts of every way, seed by seed."""
    rows: Table = {
        WHOLE: [task.trained(task.whole, seed, work).scores[task.score] for seed in seeds],
        THIN: [task.thin(SIZE, seed, work) for seed in seeds],
    }
    recorded = [task.record(task.whole, seed) for seed in seeds]
    if None not in recorded:
        rows[f"{WHOLE}, as on record"] = [each for each in recorded if each is not None]
    for way in WAYS:
        rows[way] = [cut_scores(task, seed, way, work)[task.score] for seed in seeds]
    return rows


def show(task: Task, rows: Table) -> dict[str, bool]:
    """Print means with intervals over seeds; what is required of the best cut, and if it is met."""
    print(f"\n{task.name}, {task.whole} → {SIZE}: {task.score}, 95 % intervals over seeds")
    for way, scores in rows.items():
        less = paired_difference(scores, rows[WHOLE])
        print(f"  {way:32} {ar.mean(scores)}  to the whole one: {less.interval}", flush=True)
    trained = ar.mean(rows[THIN])
    best = max((ar.mean(rows[way]).value, way) for way in WAYS)
    required = f"{task.name}, {best[1]}: {best[0]:.4g}, at least as good as trained thin, {trained}"
    _report.require(best[0] >= trained.low, required)
    return {required: best[0] >= trained.low}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    tasks: dict[str, Callable[[], Task]] = {
        "vit": lambda: vit_task(ar.photographs()),
        "translator": lambda: translator_task(ar.sentences()),
    }
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(tasks))
    parser.add_argument("--work", type=Path, default=Path("compress-thin"))
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each way (3)")
    parser.add_argument(
        "--out", type=_report.out_file, help="write what was measured into this file"
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.tasks if name not in tasks]
    if unknown:
        parser.error(f"no such task: {', '.join(unknown)}; known: {', '.join(tasks)}")
    torch.set_num_threads(1)
    begun = time.perf_counter()
    found: dict[str, Table] = {}
    requirements: dict[str, bool] = {}
    for name in asked.tasks or tasks:
        task = tasks[name]()
        found[name] = table(task, range(asked.seeds), asked.work)
        requirements |= show(task, found[name])
    facts = _report.machine("torch", threads=1)
    if asked.out:
        _report.write(asked.out, _report.finding({"scores": found}, requirements, begun, facts))
    sys.exit(not all(requirements.values()))


if __name__ == "__main__":
    main()
