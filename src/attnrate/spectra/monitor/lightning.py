"""A callback for Lightning."""

import functools
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from attnrate.errors import InputError
from attnrate.spectra.monitor.loggers import loggers
from attnrate.spectra.monitor.monitor import Monitor
from attnrate.spectra.monitor.options import MonitorSettings, Options, options, require_settings
from attnrate.spectra.monitor.recorder import Recorder

if TYPE_CHECKING:
    from lightning.pytorch import Callback

    class LightningMonitor(Callback):
        """A callback with a monitor, once training has begun."""

        monitor: Monitor | None

else:
    LightningMonitor = object
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")  # the same under two names


def lightning_callback(**settings: Unpack[MonitorSettings]) -> LightningMonitor:
    """Make a callback that records attention while a Trainer of Lightning trains.

    All attention within `training_step` is watched, whichever modules it calls. Numbers go to
    `log`, and to the loggers of the Trainer, under names that begin with "attnrate/".
    `callback.monitor` is the `Monitor` of the last training, with `to_frame` and `plot`.

    Args:
        **settings: The settings of the monitor, which `Monitor` explains: `every`, `batches`,
            `log`, `layers`, `gauge`, `beyond`, `each_head`.

    Returns:
        A callback for the argument `callbacks` of a Trainer.

    Raises:
        InputError: A setting is wrong, or Lightning is not installed.

    Examples:
        >>> try:
        ...     callback = ar.lightning_callback(every=0)
        ... except ar.InputError as problem:
        ...     print(problem)
        every must be a whole number of at least 1: got 0. Pass every=1 or more.
        >>> # Trainer(callbacks=[ar.lightning_callback(every=100)]).fit(module, loader)

    """
    require_settings("lightning_callback", settings)
    chosen = options(**settings)
    callback: LightningMonitor = _callback_class(_base(settings))(chosen)
    return callback


def _base(settings: MonitorSettings) -> Any:
    """The class Callback of Lightning; where both packages are there, of the one that is in use."""
    used = [name for name in _PACKAGES if sys.modules.get(name) is not None]
    for name in (*used, *_PACKAGES):
        with suppress(ImportError):
            return import_module(name).Callback
    raise InputError(
        "lightning_callback needs lightning, which is not installed; its settings",
        settings,
        "Install it: pip install lightning",
    )


@functools.cache
def _callback_class(base: Any) -> Any:
    class AttentionMonitor(base):
        """The callback; a class made late, because it derives from one of Lightning."""

        def __init__(self, options: Options) -> None:
            super().__init__()
            self.monitor: Monitor | None = None
            self._options = options
            self._recorder: Recorder | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self._close()
            done = trainer.global_step
            self._recorder = Recorder(pl_module, self._options, done, hook=False)
            self.monitor = Monitor._of(self._recorder)

        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            if self._recorder is not None and self._recorder.door.waits:
                self._recorder.door.open(batch, batch if isinstance(batch, dict) else {})

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            self._shut()

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            self._shut()
            # a batch whose gradients are only added to others is no step
            if self._recorder is not None and trainer.global_step != self._recorder.done:
                self._recorder.step(trainer.global_step, loggers("loggers", trainer.loggers))

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._close()

        def _shut(self) -> None:
            if self._recorder is not None:
                self._recorder.door.shut()

        def _close(self) -> None:
            if self._recorder is not None:
                self._recorder.close()

    return AttentionMonitor
