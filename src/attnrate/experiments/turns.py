"""In which order the jobs of a run come, and what is said of the plan before any has ended."""

from collections.abc import Iterable

from attnrate.experiments.contract import Preset
from attnrate.fitting.job import Job, Sized
from attnrate.progress import said_range, say

#: On shared cores work has taken up to this many times its planned seconds
_SLOWER = 2.0
_MILLISECONDS = 1000  # sizes are whole numbers of these
_WORTH_SAYING = 60.0  # seconds


def in_turns(jobs: Iterable[Sized[Job]], preset: Preset) -> list[Sized[Job]]:
    """All jobs, each once; the paper preset by seeds, so that early results cover all."""
    each = {one.job.key: one for one in jobs}
    return [
        Sized(
            one.job,
            max(1, round(_MILLISECONDS * one.size)),
            turn=one.job.seed if preset == "paper" else 0,
        )
        for one in each.values()
    ]


def say_plan(sized: Iterable[Sized[Job]], done: set[str], workers: int) -> None:
    """How much there is to do and how long that takes by plan, if it is long."""
    left = [one for one in sized if one.job.key not in done]
    seconds = sum(one.size for one in left) / _MILLISECONDS / min(workers, max(1, len(left)))
    if seconds >= _WORTH_SAYING:
        told = said_range((seconds, _SLOWER * seconds))
        say(f"{len(left)} piece{'s' if len(left) > 1 else ''} of work; by plan {told}")
