"""What a call shows of its layer: self or cross attention, shared keys, padding."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import nn

from attnrate.spectra.attention import HIDES
from attnrate.spectra.capture import Call, Kept, Mask
from attnrate.spectra.watching.running import Frame

Tensor = torch.Tensor
_HEADS = (
    *("num_attention_heads", "num_heads", "n_heads", "n_head", "heads", "nhead", "nheads"),
    *("attention_heads", "num_head", "n_local_heads", "decoder_attention_heads"),
)
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head", "kv_heads")
# the names that modules give to the sequence of their keys, where it is another one
_OTHERS = (
    *("key_value_states", "encoder_hidden_states", "encoder_output", "encoder_outputs"),
    *("context", "memory", "cross_attention_states", "kv", "encoder_out", "image_hidden_states"),
)
_CACHES = ("past_key_values", "past_key_value", "layer_past", "cache", "kv_cache")
_CROSS = ("cross", "encoder_attn", "encdec", "multihead_attn")
_BLOCK = 512  # rows of a mask that are looked at together
_OUTWARD = 3  # modules around a call that may say how many heads it has


def head_count(frames: Sequence[Frame], names: tuple[str, ...] = _HEADS) -> int | None:
    """The number of heads that the modules around a call say they have, the innermost first."""
    for frame in reversed(frames[-_OUTWARD:]):
        for holder in (frame.module, getattr(frame.module, "config", None)):
            for name in names:
                value = _setting(holder, name)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
    return None


def _setting(holder: object, name: str) -> object:
    """A setting of a module or of its configuration; None without it."""
    try:
        return getattr(holder, name, None)
    except Exception:  # settings that differ from layer to layer cannot be asked for all of them
        return None


def is_cross(path: str, module: nn.Module, frames: Sequence[Frame], call: Call) -> bool:
    """Whether the keys of a call belong to another sequence than its queries.

    They do if the module was given another sequence, if its name or class says so, or if there are
    more or fewer of them and no cache of earlier tokens. A class does not say so if it takes
    another sequence and was given none (CrossAttention of Stable Diffusion does both).
    """
    said = path.rpartition(".")[2].lower()
    own = next((frame for frame in reversed(frames) if frame.module is module), None)
    if own is None or _was_given_other(own) is not False:
        said += f" {type(module).__name__}".lower()
    if any(word in said for word in _CROSS) or bool(getattr(module, "is_cross_attention", False)):
        return True
    cached = False
    for frame in reversed(frames[-_OUTWARD:]):
        given = frame.given()
        cached |= any(given.get(name) is not None for name in _CACHES)
        others = [given.get(name) for name in _OTHERS]
        tokens = [value for value in given.values() if isinstance(value, Tensor)]
        if any(isinstance(other, Tensor) and other is not tokens[0] for other in others):
            return True
        if frame.module is module:
            break
    return call.query.shape[2] != call.key.shape[2] and not cached


def _was_given_other(frame: Frame) -> bool | None:
    """Whether a module was given another sequence; None if it takes none."""
    names = [name for name in _OTHERS if name in frame.takes]
    given = frame.given()
    return any(given.get(name) is not None for name in names) if names else None


def with_shared_keys(call: Call, frames: Sequence[Frame]) -> Call:
    """The call with each key head once, where all query heads of a group were given a copy."""
    heads, groups = call.key.shape[1], head_count(frames, _KEY_HEADS)
    if groups is None or heads != call.query.shape[1] or groups >= heads or heads % groups:
        return call
    copies = heads // groups
    for side in (call.key, call.value):
        by_group = side[:1].reshape(1, groups, copies, *side.shape[2:])
        if not bool((by_group == by_group[:, :, :1]).all()):
            return call
    return replace(call, key=call.key[:, ::copies], value=call.value[:, ::copies])


def bias_in(added: Tensor) -> Tensor | None:
    """The values that are added to logits beside zeros and what hides; None if there are none.

    Returns:
        The values, with 0 where a key is hidden. Some models add bias and mask as one (ALiBi in
        Falcon).

    """
    if added.dtype == torch.bool or added.shape[-1] == 1 or not added.numel():
        return None
    least, most = (float(x) for x in torch.aminmax(added.detach()))
    if least > HIDES:
        return added if least != 0 or most != 0 else None
    shown = added.detach().masked_fill(added <= HIDES, 0.0)
    return shown if bool(shown.any()) else None


def bias_and_mask(whole: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """A mask of each head as the bias that is in it, if there is one, and the rest."""
    bias = bias_in(whole) if whole.shape[1] > 1 else None
    if bias is None or bias is whole:
        return bias, whole if bias is None else None
    return bias, whole.detach() - bias


def function_mask(allowed: Callable[..., Tensor], query: Tensor, key: Tensor) -> Mask:
    """The mask of a function of the numbers of input, head, query and key, as flex has it."""
    batch, heads, T = query.shape[:3]
    S, device = key.shape[2], key.device

    def rows_of(rows: slice) -> Tensor:
        """The mask of these rows only, because the whole mask may not fit into memory."""
        b, h, t, s = (torch.arange(count, device=device) for count in (batch, heads, T, S))
        axes = b.view(-1, 1, 1, 1), h.view(-1, 1, 1), t[None, None, rows, None], s
        return allowed(*axes).expand(batch, -1, axes[2].shape[2], S)

    return rows_of


def kept_keys(call: Call) -> Bool[Tensor, "rows S"] | None:
    """Which keys are no padding: those that some query may attend to; None: all are."""
    rows, (T, S) = call.query.shape[0], (call.query.shape[2], call.key.shape[2])
    if call.mask is None:
        return None
    seen = torch.zeros(rows, S, dtype=torch.bool, device=call.key.device)
    for start in range(0, T, _BLOCK):
        part = _rows(call.mask, slice(start, min(start + _BLOCK, T)))
        open_ = part if part.dtype == torch.bool else part > HIDES
        # padding is the same for all heads
        seen |= open_[:, 0].any(-2)
        if isinstance(call.mask, Tensor) and call.mask.shape[-2] == 1:
            break
    return None if bool(seen.all()) else seen


def said_padding(call: Call, frames: Sequence[Frame]) -> Bool[Tensor, "rows S"] | None:
    """Which tokens are padding by the attention_mask that the model was given, if it fits."""
    given = frames[0].given().get("attention_mask") if frames else None
    shape = call.query.shape[0], call.query.shape[2]
    if (
        not isinstance(given, Tensor)
        or tuple(given.shape) != shape
        or shape[1] != call.key.shape[2]
    ):
        return None
    return given == 0


def _without_own(
    call: Call, said: Bool[Tensor, "rows S"], keys: Bool[Tensor, "rows S"] | None
) -> Bool[Tensor, "rows S"] | None:
    """The keys that are no padding, where padding sees itself (XLNet lets every token do so)."""
    if call.mask is None:
        return keys
    T = call.query.shape[2]
    others = torch.zeros_like(said)
    for start in range(0, T, _BLOCK):
        rows = slice(start, min(start + _BLOCK, T))
        part = _rows(call.mask, rows)
        open_ = (part if part.dtype == torch.bool else part > HIDES)[:, 0]
        own = torch.arange(rows.start, rows.stop, device=said.device)
        others |= (open_ & (own[:, None] != torch.arange(T, device=said.device))).any(-2)
    hidden = said & ~others
    return ~hidden if keys is None else keys & ~hidden


def _rows(mask: Mask, rows: slice) -> Float[Tensor, "#rows #heads #t S"] | Bool[Tensor, "..."]:
    assert mask is not None
    if isinstance(mask, Tensor):
        return mask[..., rows, :] if mask.shape[-2] > 1 else mask
    return mask(rows)


class Padding:
    """Which tokens of the sequences of a model are padding, as its calls of a pass show it."""

    def __init__(self) -> None:
        self._last: list[tuple[int, int, Tensor | None]] = []

    def of(self, call: Call, cross: bool, said: Tensor | None = None) -> Kept:
        """Which queries and keys of a call count.

        The queries of self attention are its keys. Those of cross attention are the tokens of the
        last self attention with as many tokens.

        Args:
            call: The call.
            cross: Whether it is cross attention.
            said: The tokens (rows, S) that are padding by the model's own argument, if there is one
                that fits; it counts for tokens that none but they themselves see.

        """
        keys = kept_keys(call) if call.kept[1] is None else call.kept[1]
        if not cross and said is not None and bool((said if keys is None else said & keys).any()):
            keys = _without_own(call, said, keys)
        size = call.query.shape[0], call.query.shape[2]
        if not cross:
            queries = keys if call.kept[0] is None else call.kept[0]
            self._last.append((*size, keys))
            return queries, keys
        queries = call.kept[0]
        if queries is None:
            known = (kept for *shape, kept in reversed(self._last) if tuple(shape) == size)
            queries = next(known, None)
        return queries, keys


def is_causal(call: Call) -> bool:
    """Whether no query sees a key after it, as far as the first query shows it."""
    T, S = call.query.shape[2], call.key.shape[2]
    if T != S or T < 3:
        return call.causal
    if call.causal or call.mask is None:
        return call.causal
    first = _rows(call.mask, slice(0, 1))
    if isinstance(call.mask, Tensor) and call.mask.shape[-2] == 1:
        return False  # one row for all queries
    seen = first if first.dtype == torch.bool else first > HIDES
    return not bool(seen[..., 1:].any())
