"""Attention written out by hand, followed from the product q(t)ᵀ k(s) through softmax to values.

A product of two stacks of matrices may be logits. It is followed through what people do to logits:
scaling, adding masks and biases, hiding, a soft cap, other shapes and number types. If softmax over
the last axis comes next, and then a product with values, it was attention. Anything else ends the
trace, and nothing is said of it, except that softmax was reached and the trace was lost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from attnrate.spectra.attention import HIDES
from attnrate.spectra.capture import Call
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.layout import (
    Layout,
    Product,
    einsum_product,
    layout_of,
    matrix_product,
)
from attnrate.spectra.watching.reading import head_count

Tensor = torch.Tensor
Function = Callable[..., Any]

PRODUCTS = frozenset({"matmul", "__matmul__", "bmm", "baddbmm", "einsum"})
# what leaves the values as they are
_SAME = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous", "clone"),
        *("to", "float", "half", "bfloat16", "double", "type", "type_as", "dropout", "dropout_"),
        *("detach", "nan_to_num", "nan_to_num_", "__getitem__", "expand", "view_as", "reshape_as"),
    }
)
_TIMES = {
    "mul": 1,
    "mul_": 1,
    "multiply": 1,
    "div": -1,
    "div_": -1,
    "true_divide": -1,
    "divide": -1,
}
_PLUS = {"add": 1.0, "add_": 1.0, "sub": -1.0, "sub_": -1.0}
_FILL = frozenset({"masked_fill", "masked_fill_", "where"})
_BOUND = frozenset({"max", "maximum", "clamp", "clamp_", "clip", "clamp_min", "clamp_max"})
FOLLOWED = frozenset({*_SAME, *_TIMES, *_PLUS, *_FILL, *_BOUND, "tanh", "softmax", "pad"})
_FAR = 1e4  # a bound beyond which no logit lies


@dataclass(frozen=True)
class Logits:
    """A product of queries and keys on its way to softmax.

    Attributes:
        module: The module that made it.
        number: Which product of that module it is, in this pass.
        layout: The axes of its queries.
        query: The queries as (rows, heads, T, m).
        key: The keys as (rows, groups, S, m).
        scale: The factor of the product so far.
        per_head: A factor of each head, if there is one.
        cap: The factor within a soft cap, while its bound is not known yet.
        softcap: The bound of a soft cap.
        biases: What was added with values of its own for each head, with its factor.

    """

    module: nn.Module
    number: int
    layout: Layout
    query: Tensor
    key: Tensor
    scale: float = 1.0
    per_head: Tensor | None = None
    cap: float | None = None
    softcap: float | None = None
    biases: tuple[tuple[Tensor, float], ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return self.query.shape[2], self.key.shape[2]

    def times(self, factor: float) -> "Logits | None":
        """The trace after a multiplication."""
        if self.cap is not None:
            return replace(self, cap=None, softcap=factor, scale=self.cap * factor)
        if self.softcap is not None and factor != 1:
            return None
        scaled = tuple((bias, by * factor) for bias, by in self.biases)
        return replace(self, scale=self.scale * factor, biases=scaled)

    def canonical(self, x: Tensor) -> Tensor | None:
        """Logits of any of the shapes that they had, as (rows, heads, T, S)."""
        if tuple(x.shape[:-2]) == self.layout.given:
            return self.layout.to_heads(x)
        wanted = (self.layout.rows, self.layout.heads, *x.shape[-2:])
        natural = self.layout.axis == len(self.layout.lead) - 1
        return x.reshape(wanted) if natural and x.numel() == torch.Size(wanted).numel() else None


@dataclass(frozen=True)
class Weights:
    """Attention weights on their way to values: their logits, and those as they met softmax."""

    logits: Logits
    final: Float[Tensor, "rows heads T S"] = field(repr=False)


class Products:
    """The traces of a pass."""

    def __init__(self, desk: Desk, runs: dict[tuple[int, int], int]) -> None:
        """Begin without traces; `runs` says which product of a module was which call of it."""
        self._desk, self._runs = desk, runs
        self._traces: Any = WeakIdKeyDictionary()
        self._numbers: Counter[int] = Counter()

    def restart(self) -> None:
        """Count the products of modules from the first again: another pass begins."""
        self._traces.clear()
        self._numbers.clear()

    def multiply(self, name: str, func: Function, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Do a product, and see whether it is one of queries and keys or of weights and values."""
        found = _product(name, args, kwargs)
        if found is None or not self._desk.frames:
            return func(*args, **kwargs)
        trace = self._traces.get(found.given) if len(self._traces) else None
        if isinstance(trace, Weights):
            made = func(*args, **kwargs)
            self._deliver(trace, found.product, made)
            return made
        module = self._desk.frames[-1].module
        if not self._desk.is_free(module):
            return func(*args, **kwargs)
        self._numbers[id(module)] += 1
        logits = self._logits(module, found.product)
        if logits is None:
            return func(*args, **kwargs)
        run = self._runs.get((id(module), logits.number))
        if self._desk.edits and run is not None:
            query = self._desk.edited(module, run, logits.query)
            args, kwargs = found.replaced(found.product.restored(logits.layout.back(query)))
        made = func(*args, **kwargs)
        if found.added is not None:
            traced = logits.times(found.alpha)
            assert traced is not None
            logits = self._biased(traced, found.added, found.beta, made)
        if isinstance(made, Tensor) and logits is not None:
            self._traces[made] = logits
        return made

    def _logits(self, module: nn.Module, product: Product) -> Logits | None:
        lead = tuple(product.left.shape[:-2])
        layout = layout_of(lead, head_count(self._desk.frames), self._desk.inputs)
        if layout is None:
            return None
        key = layout.keys_to_heads(product.right.mT)
        if key is None:
            return None
        query = layout.to_heads(product.left)
        return Logits(module, self._numbers[id(module)], layout, query, key)

    def follow(self, name: str, args: tuple[Any, ...], kwargs: Any, made: Any) -> None:
        """Follow logits or weights through an operation that was done."""
        if not len(self._traces) or not isinstance(made, Tensor):
            return
        given = (*args[:3], *kwargs.values())
        place = next(
            (i for i, x in enumerate(given) if isinstance(x, Tensor) and x in self._traces), None
        )
        if place is None:
            return
        trace = self._traces[given[place]]
        after: Logits | Weights | None
        if isinstance(trace, Weights):
            after = self._after_weights(trace, name, args, kwargs, made)
        elif name == "softmax":
            after = self._softmax(trace, given[place], args, kwargs)
        else:
            after = self._after_logits(trace, name, args, kwargs, place, made)
        if after is not None:
            self._traces[made] = after
        elif made in self._traces:
            del self._traces[made]

    def _softmax(
        self, trace: Logits, x: Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> Weights | None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        final = trace.canonical(x) if dim in (-1, x.dim() - 1) else None
        if final is None or trace.cap is not None:
            self._desk.lost(trace.module, "its softmax is not over the keys of each query")
            return None
        return Weights(trace, final)

    def _after_weights(
        self, trace: Weights, name: str, args: tuple[Any, ...], kwargs: Any, made: Tensor
    ) -> Weights | None:
        if name in _SAME and made.shape[-2:] == trace.final.shape[-2:]:
            return trace
        if name in ("masked_fill", "masked_fill_") and made.shape[-2:] == trace.final.shape[-2:]:
            return (
                trace if _number(args[2] if len(args) > 2 else kwargs.get("value")) == 0 else None
            )
        if name in _TIMES:
            self._desk.lost(trace.logits.module, "its attention weights are multiplied by others")
        return None

    def _after_logits(
        self, trace: Logits, name: str, args: tuple[Any, ...], kwargs: Any, place: int, made: Tensor
    ) -> Logits | None:
        if tuple(made.shape[-2:]) != trace.size:
            return None
        given = (*args[:3], *kwargs.values())
        other = given[1 - place] if len(given) > 1 and place < 2 else None
        if name in _SAME:
            return trace
        if name in _TIMES:
            return _times(trace, other, _TIMES[name]) if place == 0 or _TIMES[name] > 0 else None
        if name in _PLUS:
            if place == 1 and _PLUS[name] < 0:
                return None
            return self._biased(trace, other, _PLUS[name] * float(kwargs.get("alpha", 1)), made)
        if name in _FILL:
            value = given[1 if place == 2 else 2] if name == "where" else given[2]
            least = _number(value)
            return trace if least is not None and least < HIDES else None
        if name in _BOUND:
            bounds = [_number(x) for x in (*args[1:], *kwargs.values()) if x is not None]
            return trace if all(b is not None and abs(b) > _FAR for b in bounds) else None
        if name == "tanh" and trace.softcap is None and not trace.biases:
            return replace(trace, cap=trace.scale, scale=1.0)
        return None

    def _biased(self, trace: Logits, other: Any, factor: float, made: Tensor) -> Logits | None:
        """The trace after something was added: masks need no note, biases of heads do."""
        if trace.cap is not None:
            return None
        if not isinstance(other, Tensor) or other.dim() < 3 or other.shape[-1] != made.shape[-1]:
            return trace
        heads = trace.layout.heads
        wide = other if other.dim() == made.dim() else other[None]
        lead = tuple(a if a > 1 else b for a, b in zip(wide.shape[:-2], (1,) * 9, strict=False))
        if heads == 1 or wide.dim() != made.dim() or heads not in (*lead, trace.layout.given[-1]):
            return trace
        if wide.dim() == 3:
            bias = trace.canonical(wide)
        else:
            bias = wide.reshape(-1, *wide.shape[-3:]) if wide.shape[-3] == heads else None
        if bias is None or bias.shape[1] != heads or float(bias.detach().min()) < HIDES:
            return trace
        return replace(trace, biases=(*trace.biases, (bias.detach(), factor)))

    def _deliver(self, trace: Weights, product: Product, made: Any) -> None:
        logits = trace.logits
        layout = replace(logits.layout)
        value = _values(layout, product.right)
        output = logits.canonical(product.result(made)) if isinstance(made, Tensor) else None
        if value is None or not self._desk.is_free(logits.module):
            self._desk.lost(logits.module, "its values do not fit its attention weights")
            return
        run = self._desk.begin(logits.module)
        self._runs[id(logits.module), logits.number] = run
        if self._desk.sees:
            # in training, what is saved for gradients would differ from what a checkpoint expects
            with torch.no_grad():
                call = _call(trace, value, output)
            self._desk.seen(logits.module, run, call)


def _call(trace: Weights, value: Tensor, output: Tensor | None) -> Call:
    logits, final = trace.logits, trace.final
    query = logits.query
    if logits.per_head is not None:
        query = query * logits.per_head.to(query).view(-1, 1, 1)
    T = query.shape[2]
    # not copied where its factor is 1: all layers of MPNet share one bias, which is large
    biases = [
        (bias if by == 1.0 else bias * by).expand(-1, -1, T, -1).float()
        for bias, by in logits.biases
    ]
    bias = sum(biases[1:], biases[0]) if biases else None
    shared = query.shape[1] // logits.key.shape[1]

    def mask(rows: slice) -> Tensor:
        """What the model added to the logits of these queries, beside the bias."""
        keys = logits.key.float().repeat_interleave(shared, 1)
        made = logits.scale * (query[:, :, rows].float() @ keys.mT)
        if logits.softcap is not None:
            made = logits.softcap * (made / logits.softcap).tanh()
        if bias is not None:
            made = made + bias[:, :, rows]
        # a query that sees nothing (padding) must not make nan
        return (final[:, :, rows].float() - made).clamp(min=torch.finfo(torch.float32).min / 4)

    seen = final[:, 0].amax(-2) > HIDES  # padding is the same for all heads
    return Call(
        query,
        logits.key,
        value,
        logits.scale,
        mask=mask,
        bias=bias,
        kept=(None, seen),
        softcap=logits.softcap,
        output=output,
    )


def _values(layout: Layout, right: Tensor) -> Tensor | None:
    """Values (…, S, m) as (rows, groups, S, m)."""
    found = layout.keys_to_heads(right)
    wanted = (layout.rows, layout.heads, *right.shape[-2:])
    if found is None and right.numel() == torch.Size(wanted).numel():
        found = right.reshape(wanted)
    return found


def _times(trace: Logits, other: Any, power: int) -> Logits | None:
    """The trace after a product with, or a quotient by, a number or one number for each head."""
    factor = _number(other)
    if factor is not None:
        return trace.times(factor**power) if factor or power > 0 else None
    heads = trace.layout.heads
    by_head = isinstance(other, Tensor) and other.numel() == heads > 1 and other.dim() >= 3
    if not by_head or other.shape[-3] != heads or trace.biases or trace.softcap is not None:
        return None
    each = other.detach().reshape(-1) ** power
    return replace(trace, per_head=each if trace.per_head is None else trace.per_head * each)


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class _Found:
    """The product that an operation does.

    Attributes:
        given: The left tensor as the operation was given it.
        product: Both sides as stacks of matrices.
        replaced: The arguments of the operation with another left tensor.
        added: What is added to the product (baddbmm), with its factor `beta`.
        alpha: The factor of the product.

    """

    given: Tensor
    product: Product
    replaced: Callable[[Tensor], tuple[tuple[Any, ...], dict[str, Any]]]
    added: Tensor | None = None
    beta: float = 1.0
    alpha: float = 1.0


def _product(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Found | None:
    names = {
        "baddbmm": ("input", "batch1", "batch2"),
        "einsum": ("equation", "left", "right"),
        "bmm": ("input", "mat2"),
    }.get(name, ("input", "other"))
    if name == "einsum" and len(args) == 2 and isinstance(args[1], list | tuple):
        args = (args[0], *args[1])
    if len(args) > len(names):
        return None
    given = dict(zip(names, args, strict=False)) | kwargs
    parts = [given.get(word) for word in names[-2:]]
    left, right = parts
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None

    def replaced(new: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = {word: value for word, value in given.items() if word not in names}
        first = tuple(given[word] for word in names[:-2])
        return (*first, new, right), rest

    if name == "einsum":
        equation = given.get("equation")
        found = einsum_product(equation, left, right) if isinstance(equation, str) else None
    else:
        found = matrix_product(left, right)
    if found is None:
        return None
    if name != "baddbmm":
        return _Found(left, found, replaced)
    factors = float(given.get("beta", 1)), float(given.get("alpha", 1))
    return _Found(left, found, replaced, given["input"], *factors)
