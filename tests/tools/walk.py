"""A walk through the model types of transformers: how much of their attention the watcher finds.

A type is built small, run, and watched. What there is to find is counted by other means than the
watcher's: below autograd torch runs every operation by its name, so that a softmax whose result is
then multiplied is seen whatever Python did with it.
"""

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from any_inputs import Batch, batches_for
from small_settings import shrunk
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from attnrate.spectra import batches
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
Class = Literal[
    "covered",  # every softmax attention that ran is profiled, every part of the model ran
    "covered as far as it ran",  # the same, and parts that did not run are named
    "partly",  # some is profiled, and the rest is named
    "none",  # it has softmax attention, none is profiled, and it is named
    "silent",  # some softmax attention is neither profiled nor named: a defect
    "counted otherwise",  # more is profiled than the counter saw: one of both is wrong
    "no softmax attention",
    "not run here",
]
CLASSES: tuple[Class, ...] = Class.__args__  # type: ignore[attr-defined]
_LARGEST = 40_000_000  # parameters
_SECONDS = 30


@dataclass(frozen=True)
class Found:
    """What the walk found of a model type.

    Attributes:
        kind: The model type.
        verdict: How much of its attention is profiled.
        sites: The number of attention layers that are profiled.
        attended: How often softmax attention was computed in a pass, counted below autograd.
        seen: How many of these calls the watcher passed on.
        why: What was left out, or why the model could not be run.

    """

    kind: str
    verdict: Class
    sites: int = 0
    attended: int = 0
    seen: int = 0
    why: tuple[str, ...] = ()


class Counter(TorchDispatchMode):
    """Counts attention below autograd.

    It is a fused call, or a softmax of what came from a product of matrices without going through
    weights, whose result is then multiplied. Gates, routers and pooling by learned scores are not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        # by storage; tensors are kept alive so that no storage is used twice
        self._logits: dict[int, Tensor] = {}
        self._weights: dict[int, tuple[Tensor, int]] = {}
        self._met: set[int] = set()
        self._number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = str(func).split(".")[1]
        if name.startswith("_scaled_dot_product"):
            self.count += 1
        if not isinstance(made, Tensor) or name in _ANEW:
            return made
        flat = [x for each in args for x in (each if isinstance(each, list | tuple) else [each])]
        given = [_storage(x) for x in flat if isinstance(x, Tensor)]
        if name in ("bmm", "baddbmm"):
            for side in given[-2:]:
                _, softmax = self._weights.get(side, (None, -1))
                if softmax >= 0 and softmax not in self._met:
                    self._met.add(softmax)
                    self.count += 1
            if not any(side in self._weights for side in given[-2:]):
                self._logits[_storage(made)] = made
        elif name in _SOFTMAX and made.dim() >= 3:
            if any(side in self._logits for side in given):
                self._number += 1
                self._weights[_storage(made)] = made, self._number
        else:
            for side in given:
                if side in self._logits:
                    self._logits[_storage(made)] = made
                if side in self._weights and name in _COPIES:
                    self._weights.setdefault(_storage(made), (made, self._weights[side][1]))
        return made


#: The second is that of torch's own attention where it has no fused one (keys wider than values)
_SOFTMAX = ("_softmax", "_safe_softmax")
#: Operations with weights, and others after which numbers are logits no longer
_ANEW = frozenset({"addmm", "mm", "convolution", "native_layer_norm", "embedding", "rsqrt"})
#: Operations after which weights are weights still
_COPIES = frozenset(
    {"clone", "copy_", "_to_copy", "constant_pad_nd", "masked_fill", "mul", "cat", "index_select"}
    | {"native_dropout", "nan_to_num", "where", "div", "slice_scatter", "as_strided_copy"}
)


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def built(kind: str) -> nn.Module:
    """A model of a type with small settings and random weights that spread its logits."""
    import transformers
    from transformers.models.auto import modeling_auto

    wide = transformers.CONFIG_MAPPING[kind]()
    config = type(wide).from_dict(shrunk(wide.to_dict()))
    tables = [modeling_auto.MODEL_MAPPING] + [
        table
        for name, table in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_(FOR|WITH)_\w+_MAPPING", name)
    ]
    table = next((table for table in tables if type(config) in table), None)
    if table is None:
        raise LookupError("no model of this type in the tables of transformers")
    cls = table[type(config)]
    cls = cls[0] if isinstance(cls, tuple) else cls
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in cls(config).parameters())
    if size > _LARGEST:
        raise MemoryError(f"{size:,} parameters with small settings")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: nn.Module = cls(config)
    return model.eval()


def walked(kind: str) -> Found:
    """What the watcher finds of a model type."""
    try:
        with _alarm(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _looked_at(kind)
    except Exception as problem:  # of any kind: models and their packages fail in many ways
        return Found(kind, "not run here", why=(_line(problem),))


def _looked_at(kind: str) -> Found:
    model = built(kind)
    batch, attended = _runnable(model)
    watcher, calls = Watcher(model), []
    watcher.see(batch, lambda site, _: calls.append(site.name))
    unseen = watcher.unseen()
    left_out = [each for each in unseen if not each.is_idle]
    verdict: Class
    if attended == 0 and not calls:
        verdict = "no softmax attention"
    elif len(calls) > attended:
        verdict = "counted otherwise"
    elif len(calls) == attended:
        # what is named beside is idle, or no softmax of queries and keys (hybrid models)
        verdict = "covered as far as it ran" if len(left_out) < len(unseen) else "covered"
    elif not left_out:
        verdict = "silent"
    else:
        verdict = "partly" if calls else "none"
    why = tuple(str(each) for each in unseen)
    return Found(kind, verdict, len(watcher.sites), attended, len(calls), why)


def _runnable(model: nn.Module) -> tuple[Batch, int]:
    """A batch on which the model runs, and how often it attends in a pass on it."""
    problems: list[str] = []
    for batch in batches_for(model):
        try:
            with torch.no_grad(), batches.at_rest(model), Counter() as counter:
                model(**batch)
        except TimeoutError:
            raise
        except Exception as problem:
            problems.append(_line(problem))
        else:
            return batch, counter.count
    raise RuntimeError("; ".join(dict.fromkeys(problems)) or "no inputs are known for it")


@contextmanager
def _alarm() -> Iterator[None]:
    """A TimeoutError after some seconds."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"more than {_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _line(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:160]
