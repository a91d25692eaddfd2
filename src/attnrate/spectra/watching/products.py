"""Attention written out by hand, followed from the product q(t)ᵀ k(s) through softmax to values.

A product of two stacks of matrices may be logits. If softmax over the keys comes next, and then a
product with values, it was attention. If something on the way was not understood, the module is
named. Nothing is said of products that no softmax or no values follow.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from attnrate.spectra.added import Added
from attnrate.spectra.attention import HIDES
from attnrate.spectra.capture import Call
from attnrate.spectra.watching.axes import ONE, TWO, Axes, lead_axes
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.product import Operation, Product, operation
from attnrate.spectra.watching.reading import head_count
from attnrate.spectra.watching.traces import BETWEEN, Logits, Lost, Trace, Weights, after

Tensor = torch.Tensor
Function = Callable[..., Any]


class Products:
    """The traces of a pass."""

    def __init__(self, desk: Desk, runs: dict[tuple[int, int], int]) -> None:
        """Begin without traces; `runs` says which product of a module was which call of it."""
        self._desk, self._runs = desk, runs
        self._traces: Any = WeakIdKeyDictionary()
        self._numbers: Counter[int] = Counter()
        self._sizes: dict[int, set[int]] = {}

    def restart(self) -> None:
        """Count the products of modules from the first again: another pass begins."""
        self._traces.clear()
        self._numbers.clear()
        self._sizes.clear()

    def multiply(
        self, name: str, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Do a product, and see whether it is one of queries and keys or of weights and values."""
        found = operation(name, args, kwargs) if self._desk.frames else None
        if found is None:
            return func(*args, **kwargs)
        self._desk.did("product")
        for side, tensor in enumerate(found.sides):
            trace = self._traces.get(tensor) if len(self._traces) else None
            if isinstance(trace, Weights) or (isinstance(trace, Lost) and trace.softened):
                made = func(*args, **kwargs)
                self._deliver(trace, found.with_first(side), made)
                return made
        module = self._desk.frames[-1].module
        if not self._desk.is_free(module):
            return func(*args, **kwargs)
        self._numbers[id(module)] += 1
        product = found.with_first(found.queries)
        trace = self._begun(module, product, found)
        if isinstance(trace, Logits):
            run = self._runs.get((id(module), trace.number))
            if self._desk.edits and run is not None:
                assert product is not None
                args, kwargs = self._edited(run, trace, product, found)
        made = func(*args, **kwargs)
        if isinstance(made, Tensor):
            self._traces[made] = trace
            self._sizes.setdefault(id(module), set()).add(made.numel())
        return made

    def _begun(self, module: nn.Module, product: Product | None, found: Operation) -> Trace:
        """The trace of a product that may be logits."""
        shape = tuple(found.sides[found.queries].shape)
        lost = Lost(module, f"its queries of shape {shape} do not show which axis counts heads")
        if product is None or not product.left.numel() or not product.right.numel():
            return lost
        lead = lead_axes(product.left.shape[:-2], head_count(self._desk.frames), self._desk.inputs)
        if lead is None:
            return lost
        T, S = product.left.shape[-2], product.right.shape[-1]
        key = in_groups(lead, product.right.mT)
        if key is None:
            return lost
        query = lead.ending(*product.left.shape[-2:]).canonical(product.left)
        axes = lead.ending(T, S).permuted(product.out)
        begun = Logits(module, self._numbers[id(module)], axes, query, key)
        if found.added is None:
            return begun
        scaled = begun.times(found.alpha)
        assert scaled is not None
        if found.beta == 0:
            return scaled  # diffusers gives memory that nothing was written to
        return scaled.plus(found.added, found.beta) or lost

    def _edited(
        self, run: int, trace: Logits, product: Product, found: Operation
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the product with edited queries."""
        query = self._desk.edited(trace.module, run, trace.query)
        lead = lead_axes(product.left.shape[:-2], head_count(self._desk.frames), self._desk.inputs)
        assert lead is not None
        left = lead.ending(*product.left.shape[-2:]).restored(query)
        return found.replaced(found.queries, product.restored(left))

    def follow(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> None:
        """Follow logits or weights through an operation that was done."""
        if name == "softmax":  # noted also where no trace has come this far
            self._desk.did("softmax")
        if not len(self._traces) or not isinstance(made, Tensor):
            return
        given = (*args, *kwargs.values())
        if given and isinstance(given[0], list | tuple):
            given = (*given[0], *given[1:])
        place = next(
            (i for i, x in enumerate(given) if isinstance(x, Tensor) and x in self._traces), None
        )
        if place is None:
            if name == "softmax":
                self._suspect(made)
            return
        following = after(self._traces[given[place]], name, args, kwargs, place, made)
        if following is not None:
            self._traces[made] = following
        elif made in self._traces:
            del self._traces[made]

    def _suspect(self, made: Tensor) -> None:
        """Take note of weights that may come from a product of this module, on an unknown way."""
        module = self._desk.frames[-1].module if self._desk.frames else None
        if module is not None and made.numel() in self._sizes.get(id(module), ()):
            self._traces[made] = Lost(module, BETWEEN, softened=True)

    def _deliver(self, trace: Weights | Lost, product: Product | None, made: Any) -> None:
        """Pass on a call whose weights have met their values, or say why it is not understood."""
        if isinstance(trace, Lost):
            self._desk.lost(trace.module, trace.why)
            return
        logits = trace.logits
        if not self._desk.is_free(logits.module):
            return
        values = None if product is None else _values(trace, product)
        if product is None or values is None:
            self._desk.lost(logits.module, "its values do not fit its attention weights")
            return
        value, output = values[0], values[1].canonical(product.result(made))
        run = self._desk.begin(logits.module)
        self._runs[id(logits.module), logits.number] = run
        if self._desk.sees:
            # in training, what is saved for gradients would differ from what a checkpoint expects
            with torch.no_grad():
                call = _call(trace, value, output)
            self._desk.seen(logits.module, run, call)


def in_groups(lead: Axes, x: Tensor) -> Tensor | None:
    """Keys or values as (rows, groups, S, m); None where they do not fit the queries."""
    whole = lead.ending(*x.shape[-2:])
    if x.dim() == len(whole.axes) and all(
        a in (1, b) for a, b in zip(x.shape, whole.shape, strict=True)
    ):
        found = whole.canonical(x, groups=True)
        rows = lead.ending(1, 1).count(0)
        return found.expand(rows, -1, -1, -1)
    # fewer key heads than query heads, along the same axis
    heads = [place for place, axis in enumerate(lead.axes) if axis[0][0][0] == 1]
    if len(heads) != 1 or x.dim() != len(whole.axes):
        return None
    (place,) = heads
    groups = x.shape[place]
    if groups == 0 or lead.shape[place] % groups:
        return None
    return in_groups(
        Axes(
            tuple((((1, i), groups),) if i == place else axis for i, axis in enumerate(lead.axes))
        ),
        x,
    )


def _values(trace: Weights, product: Product) -> tuple[Tensor, Axes] | None:
    """The values (rows, groups, S, m) of a product with weights, and the axes of the output."""
    axes = trace.axes.permuted(product.taken)
    last = len(axes.axes) - 1
    tokens = trace.final.shape[-1]
    if not axes.is_only(last, TWO) or not axes.is_only(last - 1, ONE) or axes.count(TWO) != tokens:
        return None
    lead = Axes(axes.axes[:-2])
    if any(key[0] > 1 for key, size in lead.atoms if size > 1):
        return None  # queries are not where they should be
    value = in_groups(lead, product.right)
    if value is None:
        return None
    return value, lead.ending(axes.shape[-2], product.right.shape[-1])


def _call(trace: Weights, value: Tensor, output: Tensor) -> Call:
    logits, final = trace.logits, trace.final
    query = logits.query
    if logits.factor is not None:
        query = query * logits.factor.to(query)
    T, S = query.shape[2], logits.key.shape[2]
    heads = query.shape[1]
    # not copied where its factor is 1: all layers of MPNet share one bias, which is large
    biases = [
        (bias if by == 1.0 else bias * by).expand(-1, heads, T, S).float()
        for bias, by in logits.biases
    ]
    bias = sum(biases[1:], biases[0]) if biases else None
    seen = final[:, 0].amax(-2) > HIDES  # padding is the same for all heads
    return Call(
        query,
        logits.key,
        value,
        logits.scale,
        mask=Added(final, query, logits.key, logits.scale, logits.softcap, bias),
        bias=bias,
        kept=(None, seen),
        softcap=logits.softcap,
        sinks=logits.sinks,
        output=output,
    )
