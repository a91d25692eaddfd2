"""The attention weights of a call, computed from what is known of it; does that give its output?"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float

from attnrate.spectra.added import Added
from attnrate.spectra.capture import Call, Mask

Tensor = torch.Tensor
#: Numbers that are added to logits and are below this hide a key
HIDES = -5000.0
_ROWS = 64  # queries on which a call is held against its output
_LIMITS = {torch.float64: 1e-6, torch.float32: 2e-3}  # others have 16 bits or fewer
_COARSE = 6e-2


def weights(
    call: Call,
    query: Float[Tensor, "batch heads t m"],
    key: Float[Tensor, "batch heads S m"],
    rows: slice,
    kept: Bool[Tensor, "batch S"] | None,
) -> Float[Tensor, "batch heads t S"]:
    """The attention weights of some queries of a call.

    Args:
        call: The call, for its scale, soft cap, bias, mask and sinks.
        query: The queries whose numbers are `rows`, or other ones in their place.
        key: All keys, one for each query head.
        rows: The numbers of the queries.
        kept: Which keys are no padding; None: all are.

    Returns:
        Weights that add up to 1 over the keys, or to less where there are sinks.

    """
    logits = call.scale * (query @ key.mT)
    if call.softcap is not None:
        logits = call.softcap * (logits / call.softcap).tanh()
    if call.bias is not None:
        logits = logits + _part(call.bias, rows).to(logits)
    hidden = None if kept is None else ~kept[:, None, None, :]
    if call.causal:
        T, S = call.query.shape[2], key.shape[2]
        t = torch.arange(rows.start, rows.stop, device=key.device)[:, None]
        future = torch.arange(S, device=key.device) > t + S - T
        hidden = future if hidden is None else hidden | future
    if call.mask is not None:
        mask = _part(call.mask, rows) if isinstance(call.mask, Tensor) else call.mask(rows)
        if mask.dtype == torch.bool:
            hidden = ~mask if hidden is None else hidden | ~mask
        else:
            logits = logits + mask.to(logits)
    if hidden is not None:
        logits = logits.masked_fill(hidden, torch.finfo(logits.dtype).min)
    if call.sinks is None:
        return logits.softmax(-1)
    sinks = _part(call.sinks, rows).to(logits).expand(*logits.shape[:3], 1)
    return torch.cat([logits, sinks], -1).softmax(-1)[..., :-1]


def understood(call: Call, kept: tuple[Tensor | None, Tensor | None]) -> bool:
    """Whether the weights that `weights` computes give the output that the model computed.

    The first row of the batch and its first queries are looked at. A call without an output, or
    with numbers that are not finite, cannot be held against it and counts as understood.
    """
    if call.output is None:
        return True
    rows = slice(0, min(_ROWS, call.query.shape[2]))
    heads = call.query.shape[1]
    one = _first_row(call)
    query = one.query[:, :, rows].float()
    key, value = (x.float().repeat_interleave(heads // x.shape[1], 1) for x in (one.key, one.value))
    keys = None if kept[1] is None else kept[1][:1]
    if keys is not None:
        hidden = ~keys[:, None, :, None]
        key, value = key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0)
    made = weights(one, query, key, rows, keys) @ value
    given = call.output[:1, :, rows].float()
    if kept[0] is not None:
        there = kept[0][0, rows]
        made, given = made[:, :, there], given[:, :, there]
    if not all(bool(torch.isfinite(x).all()) for x in (given, query, key)):
        return True
    size = given.norm().clamp(min=1e-30)
    return float((made - given).norm() / size) <= _LIMITS.get(call.query.dtype, _COARSE)


def _first_row(call: Call) -> Call:
    """The call with its first row alone; biases and masks may have one row for all."""
    return replace(
        call,
        query=call.query[:1],
        key=call.key[:1],
        value=call.value[:1],
        mask=_first_of(call.mask),
        bias=None if call.bias is None else call.bias[:1],
        sinks=None if call.sinks is None else call.sinks[:1],
        plain=None,
        output=None,
        kept=(None, None),
    )


def _first_of(mask: Mask) -> Mask:
    """The mask of the first row of the batch alone."""
    if mask is None or isinstance(mask, Tensor):
        return None if mask is None else mask[:1]
    if isinstance(mask, Added):  # which computes no more than it has to
        return mask.first()
    return lambda rows: mask(rows)[:1]


def _part(added: Tensor, rows: slice) -> Tensor:
    """The rows of a mask or bias (…, T, S), which may have one row for all queries."""
    return added[..., rows, :] if added.shape[-2] > 1 else added
