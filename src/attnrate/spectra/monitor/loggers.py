"""Where the numbers of a monitor go: a CSV file, TensorBoard, Weights & Biases, a function.

None of these packages is imported. An object is known by the method that takes numbers:
`add_scalar` (SummaryWriter of TensorBoard), `log_metrics` (loggers of Lightning, mlflow, Comet),
`log` (a run of Weights & Biases, Accelerator).
"""

import csv
import io
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from attnrate.errors import InputError
from attnrate.spectra.monitor.record import COLUMNS, Record

_KINDS = (
    "Pass the path of a CSV file, a SummaryWriter, a run of Weights & Biases, an object with "
    "log_metrics, a function of the step and a dictionary of numbers, or a list of these."
)


@runtime_checkable
class ScalarWriter(Protocol):
    """What takes numbers one by one: the SummaryWriter of TensorBoard."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Take one number of a step."""


@runtime_checkable
class MetricsLogger(Protocol):
    """What takes numbers by name: a logger of Lightning, mlflow, an experiment of Comet."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> object:
        """Take the numbers of a step."""


@runtime_checkable
class RunLike(Protocol):
    """What takes numbers by name as `log`: a run of Weights & Biases, Accelerator."""

    # its parameters have other names everywhere
    log: Callable[..., object]


LogTo: TypeAlias = (
    str
    | os.PathLike[str]
    | ScalarWriter
    | MetricsLogger
    | RunLike
    | Callable[[int, dict[str, float]], object]
)
"""Where numbers go: a CSV file by its path, a SummaryWriter of TensorBoard, a run of Weights &
Biases, an object with `log_metrics`, or a function of the step and a dictionary of numbers."""

Logger: TypeAlias = Callable[[Record, dict[str, float]], None]
"""A function of a record and of its numbers by name."""


def loggers(name: str, log: object) -> tuple[Logger, ...]:
    """The loggers of a request: of one place, of several in a list, or of none.

    Args:
        name: The name of the parameter, for messages.
        log: What the user passed.

    Returns:
        One logger for each place. InputError for what takes no numbers.

    """
    if log is None:
        return ()
    places = log if isinstance(log, list | tuple) else [log]
    return tuple(_logger(name, place) for place in places)


def require_log(name: str, log: object) -> LogTo | Sequence[LogTo] | None:
    """`log` itself, or an InputError when it takes no numbers."""
    loggers(name, log)
    return cast(LogTo | Sequence[LogTo] | None, log)


def _logger(name: str, place: object) -> Logger:
    if isinstance(place, str | os.PathLike):
        return CsvLog(name, Path(os.fspath(place)))
    if isinstance(place, ScalarWriter):
        return _to_writer(place)
    if isinstance(place, MetricsLogger):
        return _to_metrics(place)
    # Python's own loggers have a method of that name, which takes text
    if isinstance(place, RunLike) and not isinstance(place, logging.Logger):
        return _RunLog(place)
    if callable(place) and not isinstance(place, type):
        return _to_function(cast(Callable[[int, dict[str, float]], object], place))
    raise InputError(f"{name} is of no kind that takes numbers", place, _KINDS)


def _to_writer(writer: ScalarWriter) -> Logger:
    def write(record: Record, scalars: dict[str, float]) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, record.step)
        histogram: Callable[..., object] | None = getattr(writer, "add_histogram", None)
        for layer in record.layers:
            if histogram is not None and layer.is_finite:
                histogram(f"attnrate/{layer.name}/rank99", layer.rank99, record.step)

    return write


def _to_metrics(logger: MetricsLogger) -> Logger:
    def write(record: Record, scalars: dict[str, float]) -> None:
        logger.log_metrics(scalars, step=record.step)

    return write


def _to_function(function: Callable[[int, dict[str, float]], object]) -> Logger:
    def write(record: Record, scalars: dict[str, float]) -> None:
        function(record.step, scalars)

    return write


class _RunLog:
    """A run of Weights & Biases, or something else with a method `log`.

    Weights & Biases has a count of its own, of calls of `log`. Numbers for a step that it has
    passed are dropped, and a step ahead of it would move the user's own curves. So a metric of our
    own is the axis, and the numbers go along with the user's next ones.
    """

    def __init__(self, run: RunLike) -> None:
        self._run = run
        self._defined = False

    def __call__(self, record: Record, scalars: dict[str, float]) -> None:
        define: Callable[..., Any] | None = getattr(self._run, "define_metric", None)
        if define is None:
            self._run.log(scalars, step=record.step)
            return
        if not self._defined:
            define("attnrate/step", hidden=True)
            define("attnrate/*", step_metric="attnrate/step")
            self._defined = True
        self._run.log({**scalars, "attnrate/step": record.step}, commit=False)


class CsvLog:
    """A CSV file with one row per head and step, written record by record.

    A file that is there already is continued if it has the columns of a monitor.

    Args:
        name: The name of the parameter, for messages.
        path: The file.

    """

    def __init__(self, name: str, path: Path) -> None:
        self.path = path.absolute()
        if path.is_dir() or not self.path.parent.is_dir():
            problem = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
            raise InputError(f"the file of {name} {problem}", str(path), "Pass another path.")
        if path.exists() and path.stat().st_size:
            self._check(name)

    def __call__(self, record: Record, scalars: Mapping[str, float]) -> None:
        """Add the rows of a record at the end of the file, all at once."""
        new = not self.path.exists() or not self.path.stat().st_size
        text = _lines([COLUMNS] if new else [])
        text += _lines(tuple(row.values()) for row in record.rows())
        # opened anew for every record: what is written stays, whatever happens to the process
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.write(text)

    def _check(self, name: str) -> None:
        """Raise an InputError unless the file is of a monitor; cut off a last line that is torn."""
        try:
            with open(self.path, "rb+") as file:
                first = file.readline()
                if first != _lines([COLUMNS]).encode():
                    raise InputError(
                        f"the file of {name} is there already and has other columns",
                        first[:200].decode("utf-8", "replace").rstrip(),
                        f"Pass another path than {self.path}, or move that file away.",
                    )
                whole = first + file.read()
                if not whole.endswith(b"\n"):
                    file.truncate(whole.rindex(b"\n") + 1)
        except OSError as problem:
            said = f"the file of {name} cannot be continued ({problem.strerror or problem})"
            raise InputError(said, str(self.path), "Pass another path.") from problem


def _lines(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
