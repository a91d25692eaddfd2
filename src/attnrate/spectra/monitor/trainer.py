"""A callback for transformers.Trainer."""

import functools
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Unpack

from attnrate.extras import missing
from attnrate.spectra.monitor.monitor import Monitor
from attnrate.spectra.monitor.options import MonitorSettings, Options, options, require_settings
from attnrate.spectra.monitor.record import Record
from attnrate.spectra.monitor.recorder import Recorder

if TYPE_CHECKING:
    from transformers import TrainerCallback

    class TrainerMonitor(TrainerCallback):
        """A callback with a monitor, once training has begun."""

        monitor: Monitor | None

else:
    TrainerMonitor = object


def trainer_callback(**settings: Unpack[MonitorSettings]) -> TrainerMonitor:
    """Make a callback that records attention while a `transformers.Trainer` trains.

    Numbers go to `log`, and to whatever the Trainer reports to (`report_to`: TensorBoard, Weights &
    Biases, …), under names that begin with "attnrate/". They are also entries of
    `trainer.state.log_history`. `callback.monitor` is the `Monitor` of the last training, with
    `to_frame` and `plot`.

    Args:
        **settings: The settings of the monitor, which `Monitor` explains: `every`, `batches`,
            `log`, `layers`, `gauge`, `beyond`, `each_head`.

    Returns:
        A callback for the argument `callbacks` of a Trainer.

    Raises:
        InputError: A setting is wrong, or transformers is not installed.

    Examples:
        >>> callback = ar.trainer_callback(every=100, log="ranks.csv")
        >>> # Trainer(model, arguments, train_dataset=texts, callbacks=[callback]).train()
        >>> callback.monitor is None  # training has not begun
        True

    """
    require_settings("trainer_callback", settings)
    chosen = options(**settings)
    try:
        kind = _callback_class()
    except ImportError as problem:
        raise missing("transformers", "hf", "trainer_callback", settings) from problem
    callback: TrainerMonitor = kind(chosen)
    return callback


@functools.cache
def _callback_class() -> Any:
    from transformers import PrinterCallback, ProgressCallback, TrainerCallback
    from transformers.trainer_callback import CallbackHandler

    class AttentionMonitor(TrainerCallback):
        """The callback; a class made late, because it derives from one of transformers."""

        def __init__(self, options: Options) -> None:
            self.monitor: Monitor | None = None
            self._options = options
            self._recorder: Recorder | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            self._close()
            model, done = rest["model"], state.global_step
            compiled = bool(args.torch_compile)
            self._recorder = Recorder(model, self._options, done, compiled=compiled)
            self.monitor = Monitor._of(self._recorder)

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            def report(record: Record, scalars: dict[str, float]) -> None:
                if state.epoch is not None:
                    scalars["epoch"] = state.epoch
                state.log_history.append({**scalars, "step": record.step})
                for other in _listeners(self):
                    other.on_log(args, state, control, logs=dict(scalars), **rest)

            if self._recorder is not None:
                self._recorder.step(state.global_step, [report])

        def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            self._close()

        def _close(self) -> None:
            if self._recorder is not None:
                self._recorder.close()

    def _listeners(own: AttentionMonitor) -> Iterator[Any]:
        """The callbacks of the Trainer that take numbers, without those that print them.

        A callback is not told of the others. The handler that calls it knows them all; it is looked
        for among the callers.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            handler = frame.f_locals.get("self")
            if isinstance(handler, CallbackHandler) and own in handler.callbacks:
                for one in handler.callbacks:
                    if not isinstance(one, AttentionMonitor | PrinterCallback | ProgressCallback):
                        yield one
                return
            frame = frame.f_back

    return AttentionMonitor
