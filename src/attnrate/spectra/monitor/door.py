"""Watching forward passes of a model that somebody else runs, while it is trained.

The model's output, its gradients, its random numbers and the time of all other passes stay as they
are. A hook is at the model only while a pass is waited for, and the watch is open only during the
outermost forward. So layers that gradient checkpointing runs again in the backward pass are not
counted twice, and evaluation passes are left alone.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import nn

from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.monitor.record import Pool, Sums
from attnrate.spectra.watching.running import Frame
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_COMPILED = "OptimizedModule"  # the class that torch.compile makes; its file is slow to import
Wanted = Callable[[int, str], bool]
"""Whether a layer is asked for, by its number and its name."""


class Door:
    """Where the forward passes of a model are waited for, and watched.

    Compiled code cannot be watched: a pass that is watched runs without torch.compile.

    Args:
        model: The module whose passes are noticed, with its wrappers.
        wanted: Which of its layers are asked for.
        compiled: Whether passes come from compiled code outside of the module.

    Attributes:
        model: The model, out of its wrappers.
        called: The module whose passes are noticed.
        waited: Whether any passes were waited for.
        pool: The moments of the passes that were watched.
        watched: The number of these passes.
        passed: The number of passes that were waited for and did not count, because the model was
            in evaluation mode or computed no gradients.
        failed: What went wrong, by the names of layers. It has not stopped the training.

    """

    def __init__(self, model: nn.Module, wanted: Wanted, compiled: bool = False) -> None:
        self.model, self.called = unwrapped(model), model
        self._wanted, self._compiled = wanted, compiled
        self._watcher: Watcher | None = None
        self._waiting = ExitStack()
        self._opened: ExitStack | None = None
        self._left = 0
        self._seen, self._doubtful = Pool(), False
        self.empty()

    def empty(self) -> None:
        """Forget what was collected."""
        self.pool, self.waited, self.watched, self.passed = Pool(), False, 0, 0
        self.failed: dict[str, Exception] = {}

    @property
    def watcher(self) -> Watcher:
        """The watcher, made when it is first needed: parts may be added until training begins."""
        if self._watcher is None:
            self._watcher = Watcher(self.model)
        return self._watcher

    @property
    def waits(self) -> bool:
        """Whether passes are waited for."""
        return self._left > 0

    def expect(self, passes: int, hook: bool = True) -> None:
        """Wait for passes in training mode, to watch them.

        Args:
            passes: How many.
            hook: Whether passes of the model are noticed here; otherwise `open` and `shut` are
                called when one begins and ends.

        """
        self.dismiss()
        if passes < 1:
            return
        self._left, self.waited = passes, True
        if self._compiled:
            # from within compiled code the stance cannot be set
            self._waiting.enter_context(torch.compiler.set_stance("force_eager"))
        own = self.called._compiled_call_impl
        if own is not None:  # a module that was compiled in place does not come by its hooks
            self._waiting.callback(setattr, self.called, "_compiled_call_impl", own)
            self.called._compiled_call_impl = None
        if hook:
            noticed = self.called.register_forward_pre_hook(_Entering(self), with_kwargs=True)
            self._waiting.callback(noticed.remove)

    def dismiss(self) -> None:
        """Wait no longer; a watch that is still open, after an interrupt, is closed."""
        self._left = 0
        self._close()
        self._waiting.close()

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Open the watch, from a hook, because a pass of the model begins."""
        if self._opened is not None:
            # The pass before was interrupted, or the model runs itself: neither is a pass to count.
            # The watch stays open until this pass ends, as hooks cannot be removed from within it.
            self._doubtful = True
            return
        if not self.called.training or not torch.is_grad_enabled():
            self.passed += 1
            return
        before = {*self.called._forward_pre_hooks}
        opened = self.open((args, kwargs), Frame(self.model, args, kwargs).given())
        if opened is None:
            return
        # hooks that the watch has placed at the module itself came too late for this pass
        for number, hook in [*self.called._forward_pre_hooks.items()]:
            if number not in before:
                with_kwargs = number in self.called._forward_pre_hooks_with_kwargs
                hook(self.called, args, kwargs) if with_kwargs else hook(self.called, args)
        leaving = self.called.register_forward_hook(_Leaving(self), always_call=True)
        opened.callback(leaving.remove)

    def open(self, given: object, named: Mapping[str, object]) -> ExitStack | None:
        """Open the watch.

        Args:
            given: The inputs, tensors in any structure, which say how many there are.
            named: The arguments of the model by name, among which masks of padding may be.

        Returns:
            What is closed with the watch; None if it cannot be opened.

        """
        self._close()
        self._seen, self._doubtful = Pool(), False
        batch = {name: value for name, value in named.items() if isinstance(value, Tensor)}
        with ExitStack() as opened:
            try:
                if any(_is_compiled(part) for part in self.called.modules()):
                    opened.enter_context(torch.compiler.set_stance("force_eager"))
                watch = self.watcher.open(inputs_of(given), self._see(batch), check=False)
                opened.enter_context(watch)
            except Exception as problem:  # whatever it is, it must not stop a training
                self.failed.setdefault(type(self.model).__name__, problem)
                return None
            self._opened = opened.pop_all()
        return self._opened

    def shut(self) -> None:
        """Close the watch at the end of a pass, and count the pass."""
        if self._opened is None:
            return
        self._close()
        if self._doubtful:
            return
        self.pool.join(self._seen)
        self.watched += 1
        self._left -= 1
        if self._left <= 0:
            self._waiting.close()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _see(self, batch: Batch) -> Callable[[Site, Call], None]:
        def see(site: Site, call: Call) -> None:
            number = self.watcher.sites.index(site)
            if not self._wanted(number, site.name):
                return
            try:
                self._seen.add(Sums.of(number, site, call, kept_tokens(site, call, batch)))
            except Exception as problem:  # whatever it is, it must not stop a training
                self.failed.setdefault(site.name, problem)

        return see


class _Hook:
    """A hook of a door at its model; a copy or a pickle of the model has one that does nothing."""

    def __init__(self, door: Door) -> None:
        self.door = door

    def __reduce__(self) -> tuple[Any, ...]:
        # takes any arguments and gives None, and wherever a pickle is opened it is there
        return getattr, (nullcontext(), "__exit__")


class _Entering(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # a replica of DataParallel, in a thread of its own, shares the hooks of the model
        if not torch.compiler.is_compiling() and module is self.door.called:
            self.door.enter(args, kwargs)


class _Leaving(_Hook):
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: object) -> None:
        if module is self.door.called:
            self.door.shut()


def _is_compiled(part: nn.Module) -> bool:
    return type(part).__name__ == _COMPILED or part._compiled_call_impl is not None


def unwrapped(model: nn.Module) -> nn.Module:
    """The module within torch.compile, DataParallel and DistributedDataParallel."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        elif type(model).__name__ == _COMPILED:
            inner = model._orig_mod
        else:
            return model
        assert isinstance(inner, nn.Module)
        model = inner


def inputs_of(given: object) -> int:
    """The number of inputs in a batch: the first axis of its first tensor that has several."""
    sizes = [tuple(one.shape) for one in _tensors(given) if one.dim() > 0]
    return next((shape[0] for shape in sizes if len(shape) > 1), sizes[0][0] if sizes else 1)


def _tensors(given: object) -> Iterator[Tensor]:
    """All tensors in a structure of lists, tuples and dictionaries."""
    if isinstance(given, Tensor):
        yield given
        return
    inner = given.values() if isinstance(given, Mapping) else given
    if isinstance(given, Mapping | list | tuple):
        for one in inner:  # type: ignore[attr-defined]
            yield from _tensors(one)
