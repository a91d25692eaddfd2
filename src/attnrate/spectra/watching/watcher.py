"""A model under watch: its attention layers in the order in which they run, and what was not seen.

Sites are not looked up beforehand. A layer becomes a site at its first call, so that anything that
attends is found, whatever its class is called. What is known of a site's first call is held against
the output that the model computed; a layer for which that fails is left out and named.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.adapters import claims
from attnrate.spectra.attention import understood
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Edit, See, Site, require_call
from attnrate.spectra.watching.desk import Did
from attnrate.spectra.watching.flex import watch_flex
from attnrate.spectra.watching.interface import watch_interface
from attnrate.spectra.watching.operations import Operations
from attnrate.spectra.watching.reading import (
    Padding,
    is_cross,
    said_padding,
    with_shared_keys,
)
from attnrate.spectra.watching.rotation import Rotation
from attnrate.spectra.watching.running import Frame, Running
from attnrate.spectra.watching.unseen import Evidence, Unseen, looks_like_attention, unseen_of

Tensor = torch.Tensor
_OTHER = "its output is not that of softmax attention with what its calls show"


@dataclass(frozen=True)
class Memory:
    """What a watcher has found out about a model, for a watcher of the same model elsewhere.

    Attributes:
        met: The paths of the modules of all sites that have run, by the names of the sites.
        doubted: Why sites are left out, by their names.
        lost: Why attention could not be read, by the paths of modules.
        did: What modules that look like attention have computed, by their paths.
        ran: The paths of modules that look like attention and have run.

    """

    met: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    did: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ran: Sequence[str] = ()


class Watcher:
    """Finds the attention of a model while it runs, and passes its calls on.

    Attributes:
        model: The model.
        sites: Its attention layers, in the order in which they first ran.

    """

    def __init__(self, model: nn.Module) -> None:
        self.model = batches.require_module(model)
        self.sites: list[Site] = []
        self._paths = {id(part): path for path, part in model.named_modules()}
        self._claims = claims(model)
        self._claimed = {
            id(part) for _, own in self._claims for site in own for part in site.module.modules()
        }
        self._known: dict[tuple[int, str, int], Site] = {}
        self._met: dict[str, str] = {}
        self._products: dict[tuple[int, int], int] = {}
        self._evidence = Evidence()
        self._doubted: dict[str, str] = {}
        self._running = Running(self._evidence.ran)

    @property
    def family(self) -> str:
        """What kind of model it is: the model type of transformers, or the adapters' families."""
        config = getattr(self.model, "config", None)
        named = getattr(config, "model_type", None)
        if isinstance(named, str) and named:
            return named
        return (
            " + ".join(adapter.family for adapter, _ in self._claims) or type(self.model).__name__
        )

    def see(self, batch: Batch, see: See) -> None:
        """Run the model in evaluation mode and pass every call of its attention to `see`."""
        failed: list[Exception] = []

        def taken(site: Site, call: Call) -> None:
            try:
                see(site, call)
            except Exception as problem:
                failed.append(problem)
                raise

        try:
            self.run(batch, taken)
        except InputError:
            # an error inside `see` is not the inputs' fault
            if failed:
                raise failed[0] from None
            raise

    def run(self, batch: Batch, see: See | None = None, edit: Edit | None = None) -> Any:
        """The model's output in evaluation mode; calls go to `see`, queries through `edit`."""
        with batches.at_rest(self.model), self.open(batches.size(batch), see, edit):
            return batches.run(self.model, batch)

    @contextmanager
    def open(
        self, inputs: int, see: See | None = None, edit: Edit | None = None, check: bool = True
    ) -> Iterator[None]:
        """While it is open, runs of the model are watched, each as a pass of its own.

        Args:
            inputs: The number of inputs in the batches on which the model is run.
            see: Takes every call.
            edit: Changes queries before the model uses them.
            check: Whether calls are held against their outputs; dropout would make them differ.

        """
        watched = _Pass(self, inputs, see, edit, check)
        operations = Operations(watched, self._products)

        def begun() -> None:
            watched.restart()
            operations.restart()

        with ExitStack() as stack:
            if any(type(part).__name__ == "OptimizedModule" for part in self.model.modules()):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(self._running.follow(self.model, watched.rotation.left, begun))
            stack.enter_context(watched.rotation.follow(self.model))
            stack.enter_context(watch_interface(watched))
            stack.enter_context(watch_flex(watched, self.model))
            for adapter, own in self._claims:
                claimed = watched.seen_by_adapter if see is not None else None
                edited = watched.edited_by_adapter if edit is not None else None
                stack.enter_context(adapter.watch(self.model, own, claimed, edited))
            stack.enter_context(operations)
            yield

    def memory(self) -> Memory:
        """What was found out so far."""
        alike = {
            id(part): path
            for path, part in self.model.named_modules()
            if looks_like_attention(part)
        }
        evidence = self._evidence
        return Memory(
            met=dict(self._met),
            doubted=dict(self._doubted),
            lost={self._paths[number]: why for number, why in evidence.lost.items()},
            did={
                path: sorted(evidence.did[number])
                for number, path in alike.items()
                if number in evidence.did
            },
            ran=[path for number, path in alike.items() if number in evidence.ran],
        )

    def remember(self, memory: Memory) -> None:
        """Take over what another watcher of the same model has found out on other inputs.

        Sites that it has met are not held against their outputs once more.
        """
        parts = dict(self.model.named_modules())
        self._met = {**memory.met, **self._met}
        self._doubted = {**memory.doubted, **self._doubted}
        numbers = {path: id(part) for path, part in parts.items()}
        evidence = self._evidence
        for path, why in memory.lost.items():
            if path in parts:
                evidence.lost.setdefault(numbers[path], why)
        for path, did in memory.did.items():
            if path in parts:
                evidence.did.setdefault(numbers[path], set()).update(did)
        evidence.ran.update(numbers[path] for path in memory.ran if path in parts)

    def unseen(self) -> list[Unseen]:
        """The modules that look like attention and have no site, each with the reason."""
        parts = dict(self.model.named_modules())
        sites = {name: id(parts[path]) for name, path in self._met.items() if path in parts}
        doubted = {sites[name]: why for name, why in self._doubted.items() if name in sites}
        seen = {number for name, number in sites.items() if name not in self._doubted}
        return unseen_of(self.model, seen, self._evidence, doubted)


@contextmanager
def _unwatched() -> Iterator[None]:
    """While it is open, what is computed is ours: not seen as attention, and without gradients."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        yield


class _Pass:
    """The runs of a model under watch, one after another; the `Desk` of the sources of calls."""

    def __init__(
        self, watcher: Watcher, inputs: int, see: See | None, edit: Edit | None, check: bool
    ) -> None:
        self._watcher, self.inputs = watcher, inputs
        self._see, self._edit, self._check = see, edit, check
        self._runs: Counter[tuple[int, str]] = Counter()
        self._edited: Counter[str] = Counter()
        self._padding = Padding()
        self.rotation = Rotation()

    def restart(self) -> None:
        """Count the runs of modules from the first again: another run of the model begins."""
        self._runs.clear()
        self._edited.clear()
        self._padding = Padding()
        self.rotation.restart()

    @property
    def frames(self) -> Sequence[Frame]:
        return self._watcher._running.stack

    @property
    def sees(self) -> bool:
        return self._see is not None

    @property
    def edits(self) -> bool:
        return self._edit is not None

    def is_free(self, module: nn.Module) -> bool:
        return id(module) in self._watcher._paths and id(module) not in self._watcher._claimed

    def begin(self, module: nn.Module) -> int:
        self._runs[id(module), ""] += 1
        return self._runs[id(module), ""]

    def did(self, what: Did) -> None:
        for frame in self.frames:
            self._watcher._evidence.did.setdefault(id(frame.module), set()).add(what)

    def lost(self, module: nn.Module, why: str) -> None:
        self._watcher._evidence.lost.setdefault(id(module), why)

    def edited(self, module: nn.Module, run: int, query: Tensor) -> Tensor:
        site = self._watcher._known.get((id(module), "", run))
        if site is None or self._edit is None or site.name in self._watcher._doubted:
            return query
        with _unwatched():
            return self._edit(site, query)

    def edited_by_adapter(self, site: Site, query: Tensor) -> Tensor:
        self._edited[site.name] += 1
        known = self._watcher._known.get((id(site.module), site.name, self._edited[site.name]))
        if known is None or self._edit is None:
            return query
        with _unwatched():
            return self._edit(known, query)

    def seen(self, module: nn.Module, run: int, call: Call) -> None:
        with _unwatched():
            self._read(module, run, call)

    def _read(self, module: nn.Module, run: int, call: Call) -> None:
        """Read the site of a call from the call, and take it."""
        path = self._watcher._paths[id(module)] or "attention"
        call = with_shared_keys(call, self.frames)
        cross = is_cross(path, module, self.frames, call)
        turned, plain = self.rotation.plain(call)
        kept = self._padding.of(call, cross, said_padding(call, self.frames))
        key = (id(module), "", run)
        site = self._watcher._known.get(key)
        if site is None:
            site = Site(
                name=path if run == 1 else f"{path}#{run}",
                module=module,
                heads=call.query.shape[1],
                groups=call.key.shape[1],
                m_h=call.query.shape[-1],
                kind="cross" if cross else "self",
                rotary=turned,
                streams=(None, None),
                run=run,
            )
        self._take(key, site, replace(call, plain=plain, kept=kept))

    def seen_by_adapter(self, site: Site, call: Call) -> None:
        number = id(site.module), site.name
        self._runs[number] += 1
        run = self._runs[number]
        if call.query.shape[2] != call.key.shape[2]:
            site = replace(site, kind="cross")  # as a probe that gathers an image into one token
        if run > 1:
            site = replace(site, name=f"{site.name}#{run}", run=run)
        with _unwatched():
            self._take((*number, run), site, require_call(site, call))

    def _take(self, key: tuple[int, str, int], site: Site, call: Call) -> None:
        """Pass a call on, if what is known of its layer's first call agrees with its output."""
        watcher = self._watcher
        if key not in watcher._known:
            watcher._known[key] = site
            if site.name not in watcher._met:
                watcher._met[site.name] = watcher._paths.get(id(site.module), site.name)
                if self._check and not understood(call, call.kept):
                    watcher._doubted[site.name] = _OTHER
            if site.name not in watcher._doubted:
                watcher.sites.append(site)
        if site.name not in watcher._doubted and self._see is not None:
            self._see(watcher._known[key], replace(call, output=None))
