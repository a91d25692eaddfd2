"""Where tasks on real data keep their epochs until their results are stored."""

import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attnrate.data.registry import cache_folder
from attnrate.fitting.trial import Trial

_STALE = 30 * 86_400.0  # seconds


def training_folder(trial: Trial) -> Path:
    """The folder of a task's checkpoints in the cache."""
    return _all() / trial.key[:20]


def clear_epochs(stored: Iterable[Trial]) -> None:
    """Delete the epochs of tasks whose results are stored, and of any that nobody has gone on with
    for a month."""
    gone = [training_folder(trial) for trial in stored]
    if not _all().is_dir():
        return
    for left in _all().iterdir():
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE:
                gone.append(left)
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)


def _all() -> Path:
    return cache_folder() / "training"
