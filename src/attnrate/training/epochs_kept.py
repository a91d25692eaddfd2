"""Where tasks on real data keep their epochs until their results are stored."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from attnrate.data.registry import cache_folder, older_than

_STALE = 30 * 86_400.0  # seconds


def training_folder(key: str) -> Path:
    """The folder in the cache for the checkpoints of the task with this key."""
    return _all() / key[:20]


def clear_epochs(stored: Iterable[str]) -> None:
    """Delete the epochs of tasks whose results are stored, and of any that nobody has gone on with
    for a month."""
    if not _all().is_dir():
        return
    for folder in (*map(training_folder, stored), *older_than(_STALE, _all().iterdir())):
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)


def _all() -> Path:
    return cache_folder() / "training"
