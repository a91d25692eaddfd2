"""The settings of a monitor, checked before training begins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from attnrate.errors import InputError, hint, require_whole
from attnrate.settings import Count, Switch, by, checked
from attnrate.spectra.monitor.loggers import Logger, LogTo, loggers, require_log
from attnrate.spectra.picked import Layers, Picked, require_layers
from attnrate.words import Gauge, GaugeLike, require_gauge


class MonitorSettings(TypedDict, total=False):
    """The settings of a monitor by name: what `trainer_callback` and `lightning_callback` take.

    Every setting is optional. `Monitor` says what each of them means and which values it takes.

    Examples:
        >>> settings: ar.MonitorSettings = {"every": 50, "log": "ranks.csv"}
        >>> callback = ar.trainer_callback(**settings)

    """

    every: int
    batches: int
    log: LogTo | Sequence[LogTo] | None
    layers: Layers | None
    gauge: Gauge | None
    beyond: int | float
    each_head: bool


@dataclass(frozen=True)
class Options:
    """The settings of a monitor.

    Attributes:
        every: Steps between two records.
        batches: The largest number of forward passes in a record.
        loggers: Where numbers go.
        picked: The layers that are recorded.
        gauge: What is taken out of the logits.
        beyond: The rank beyond which the tail is taken, or a share of the head size.
        each_head: Whether every head has curves of its own.

    """

    every: int
    batches: int
    loggers: tuple[Logger, ...]
    picked: Picked
    gauge: Gauge
    beyond: int | float
    each_head: bool


def _require_beyond(name: str, value: object) -> int | float:
    if not isinstance(value, float):
        return require_whole(name, value, 0)
    if not 0 < value < 1:
        remedy = f"Pass {name}=0.5 for half of the head size, or a rank such as {name}=8."
        raise InputError(
            f"{name} must be a whole number, or a share between 0 and 1", value, remedy
        )
    return value


Log = Annotated[LogTo | Sequence[LogTo] | None, by(require_log)]
LayersLike = Annotated[Layers | None, by(require_layers)]
Beyond = Annotated[int | float, by(_require_beyond)]


@checked
def options(
    every: Count = 100,
    batches: Count = 2,
    log: Log = None,
    layers: LayersLike = None,
    gauge: GaugeLike = "softmax",
    beyond: Beyond = 0.5,
    each_head: Switch = False,
) -> Options:
    """The settings of a monitor, with defaults for those that are left out; InputError if wrong."""
    return Options(
        every,
        batches,
        loggers("log", log),
        Picked.of(layers),
        require_gauge("gauge", gauge),
        beyond,
        each_head,
    )


def require_settings(function: str, settings: Iterable[str]) -> None:
    """Raise a TypeError for a name that is no setting, as Python does for an unknown argument."""
    known = [*MonitorSettings.__annotations__]
    for name in settings:
        if name not in known:
            near = hint(name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}. {near}")
