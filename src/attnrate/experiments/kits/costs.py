"""What a model costs: operations and bytes counted while it runs, its state, its seconds.

Counts do not depend on the machine, seconds do. So seconds of several models are measured in turn,
round by round, and compared within a round.
"""

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from attnrate.errors import InputError
from attnrate.experiments.contract import Outcome
from attnrate.models import (
    GRU,
    CausalConvolution,
    LinearRNN,
    SequenceModel,
    StateSpace,
    Transformer,
)

Tensor = torch.Tensor
#: A product of complex numbers and a sum of two are 4 + 2 + 2 operations, of real ones 1 + 1
_COMPLEX = 4
#: Fourier transforms of real numbers, to real numbers, and of complex ones, as in the first's
#: backward pass
_FORWARD, _BACK, _WHOLE = "aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c"


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations, and the bytes of tensors that are alive, while it is switched on.

    Operations are those of matrix products and convolutions, two for each product that is summed,
    and of Fourier transforms, 5/2 N log2 N for N real numbers and 5 N log2 N for complex ones. What
    acts on each number alone (activations, exponentials, sums) is not counted. Bytes are those of
    tensors that were made while the ledger was on, without views; memory that an operation takes
    and gives back by itself is not seen.

    Attributes:
        operations: The number of operations.
        bytes: The bytes of the tensors that are alive.
        peak: The largest number that `bytes` has had.

    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = self.bytes = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation, and enter it."""
        named = kwargs or {}
        # what an operation is given and no other has made was there before: parameters, inputs
        for storage in _storages((args, named)):
            self._enter(storage, 0)
        made = func(*args, **named)
        for storage in _storages(made):
            self._enter(storage, storage.nbytes())
        self.operations += _operations(func, args, named, made)
        self.peak = max(self.peak, self.bytes)
        return made

    def _enter(self, storage: torch.UntypedStorage, size: int) -> None:
        place = storage._cdata
        if place not in self._known:
            self._known.add(place)
            self.bytes += size
            weakref.finalize(storage, self._leave, place, size)

    def _leave(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.bytes -= size


def _storages(values: Any) -> Iterator[torch.UntypedStorage]:
    return (each.untyped_storage() for each in tree_leaves(values) if isinstance(each, Tensor))


def _operations(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> int:
    name = str(func._overloadpacket)
    if name in (_FORWARD, _BACK, _WHOLE):
        # the longer side is the real one: N numbers against N/2 + 1 complex ones
        whole = made if name == _BACK else args[0]
        length = math.prod(whole.shape[axis] for axis in args[1])
        numbers: int = whole.numel()
        return round((5 if name == _WHOLE else 2.5) * numbers * math.log2(length))
    count = flop_registry.get(func._overloadpacket)
    if count is None:
        return 0
    found: int = count(*args, **kwargs, out_val=made)
    is_complex = isinstance(made, Tensor) and made.is_complex()
    return found * (_COMPLEX if is_complex else 1)


class Cost(Outcome, kw_only=True):
    """What a model costs for one batch of sequences, without its parameters' own bytes.

    A training step is a forward and a backward pass; its bytes include the gradients, and not what
    the optimiser keeps. `state` is that of `state_bytes` after all tokens.
    """

    parameters: int
    inference: int
    training: int
    inference_bytes: int
    training_bytes: int
    state: int


def cost_of(model: SequenceModel, length: int, batch: int = 1) -> Cost:
    """Count what a forward pass and a training step of a model cost.

    Args:
        model: The model; its gradients are None afterwards.
        length: The number of tokens of a sequence.
        batch: The number of sequences. Default: 1, so that sequences share nothing.

    Returns:
        The counts.

    """
    x = torch.zeros(batch, length, model.d)
    forward, step = Ledger(), Ledger()
    with forward:
        infer(model, x)
    model.zero_grad(set_to_none=True)
    with step:
        train_once(model, x)
    model.zero_grad(set_to_none=True)
    return Cost(
        parameters=model.parameter_count(),
        inference=forward.operations,
        training=step.operations,
        inference_bytes=forward.peak,
        training_bytes=step.peak,
        state=state_bytes(model, length),
    )


def infer(model: nn.Module, x: Tensor) -> None:
    """Do one forward pass."""
    with torch.no_grad():
        model(x)


def train_once(model: nn.Module, x: Tensor) -> None:
    """Do the forward and the backward pass of a training step; gradients are added up."""
    model(x).square().mean().backward()


def state_bytes(model: SequenceModel, tokens: int) -> int:
    """Count the bytes that a model must keep between two tokens, when it is given one at a time.

    A Transformer keeps the keys and values of all tokens, which needs causal=True; a dilated
    convolution the last (kernel - 1) 2^(ℓ-1) inputs of layer ℓ; a recurrent model its state.

    Args:
        model: The model, with parameters of 4 bytes.
        tokens: The number of tokens that it has seen.

    Returns:
        The bytes.

    Raises:
        InputError: If nothing is known of the model.

    """
    if isinstance(model, Transformer):
        return 4 * tokens * model.layers * model.heads * (model.m_h + model.m_v)
    if isinstance(model, LinearRNN | GRU):
        return 4 * model.hidden
    if isinstance(model, StateSpace):
        return 8 * model.channels * (model.state // 2)
    if isinstance(model, CausalConvolution):
        reached = ((model.kernel - 1) << layer for layer in range(model.layers))
        return 4 * model.channels * sum(min(tokens, each) for each in reached)
    raise InputError(
        "nothing is known of the state of a {value}",
        type(model).__name__,
        "Say in state_bytes what it keeps between two tokens.",
    )


def in_rounds(
    functions: Sequence[Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[tuple[float, ...]]:
    """Time functions that are called in turn, each round beginning with another one.

    Whatever slows the machine for a while then slows all of them. Each is called once before.

    Args:
        functions: The functions.
        rounds: The number of rounds.
        clock: What tells the time.

    Returns:
        For each function its time in every round.

    """
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for number in range(rounds):
        for turn in range(len(functions)):
            which = (number + turn) % len(functions)
            start = clock()
            functions[which]()
            times[which].append(clock() - start)
    return [tuple(each) for each in times]
