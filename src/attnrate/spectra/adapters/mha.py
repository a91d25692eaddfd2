"""torch.nn.MultiheadAttention, alone or inside torch.nn.Transformer and its layers.

All of its calls go through one function of torch, which is replaced while a watch is open. Torch's
fused "fast path" of inference does not, so it is switched off for that time. The model's output is
then that with torch.backends.mha.set_fastpath_enabled(False): the same up to rounding, except at
padding, which the fast path may fill with zeros.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attnrate.errors import InputError
from attnrate.spectra.adapters.hooks import split
from attnrate.spectra.capture import Call, Edit, See, Site
from attnrate.spectra.watching.reading import bias_in

Tensor = torch.Tensor
Given = dict[str, Any]
"""The arguments of torch's function by name; tokens are (T, batch, k) or (T, k)."""

_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)


class MultiheadAttention:
    """The adapter for torch's own attention layers.

    What is padding is known from the `key_padding_mask` of their calls.
    """

    family = "torch.nn.MultiheadAttention"

    def sites(self, model: nn.Module) -> list[Site]:
        """All layers of this class; cross attention is recognised by its place or its sizes."""
        across = {
            id(part.multihead_attn)
            for part in model.modules()
            if isinstance(part, nn.TransformerDecoderLayer)
        }
        return [
            _site(path, part, id(part) in across)
            for path, part in model.named_modules()
            if isinstance(part, nn.MultiheadAttention)
            and type(part).forward is nn.MultiheadAttention.forward
        ]

    @contextmanager
    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> Iterator[None]:
        """Watch torch.nn.functional.multi_head_attention_forward while the context is open."""
        running: list[Site] = []
        padding: dict[int, Tensor | None] = {}
        original = functional.multi_head_attention_forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            if not running:
                return original(*args, **kwargs)
            given = arguments(args, kwargs)
            if see is not None:
                see(running[0], call_of(given, padding.get(id(running[0].module))))
            if edit is not None:
                given = with_queries(given, partial(edit, running[0]))
            # under a watch of all operations torch would come back to this function
            with torch._C.DisableTorchFunction():
                return original(**given)

        def enter(site: Site) -> Callable[..., None]:
            return lambda *_: running.append(site)

        def leave(*_: object) -> None:
            running.clear()

        def keep_padding(cross: nn.Module) -> Callable[..., None]:
            def before(_part: nn.Module, _args: object, given: Given) -> None:
                padding[id(cross)] = given.get("key_padding_mask")

            return before

        with ExitStack() as stack:
            # only a decoder's self attention is given the padding of the decoder's queries
            for part in model.modules():
                if isinstance(part, nn.TransformerDecoderLayer):
                    hook = keep_padding(part.multihead_attn)
                    handle = part.self_attn.register_forward_pre_hook(hook, with_kwargs=True)
                    stack.enter_context(handle)
            for site in sites:
                part = site.module
                stack.enter_context(part.register_forward_pre_hook(enter(site)))
                stack.enter_context(part.register_forward_hook(leave, always_call=True))
            fast = torch.backends.mha.get_fastpath_enabled()
            stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
            torch.backends.mha.set_fastpath_enabled(False)
            stack.callback(setattr, functional, "multi_head_attention_forward", original)
            functional.multi_head_attention_forward = watched
            yield


def _site(path: str, part: nn.MultiheadAttention, across: bool) -> Site:
    name = path or "attention"
    if part.bias_k is not None or part.add_zero_attn:
        raise InputError(
            f"the layer {name} has a key that belongs to no token",
            "add_bias_kv" if part.bias_k is not None else "add_zero_attn",
            "attnrate knows torch.nn.MultiheadAttention without these two options.",
        )
    return Site(
        name=name,
        module=part,
        heads=part.num_heads,
        groups=part.num_heads,
        m_h=part.head_dim,
        kind="cross" if across or part.kdim != part.embed_dim else "self",
        streams=(None, None),
    )


def arguments(args: tuple[Any, ...], kwargs: Given) -> Given:
    """The arguments of torch.nn.functional.multi_head_attention_forward by their names."""
    return _SIGNATURE.bind(*args, **kwargs).arguments


def call_of(given: Given, padding: Tensor | None = None) -> Call:
    """The call of attention that torch's function makes of its arguments.

    Args:
        given: The arguments.
        padding: Which queries are padding, if that is known from elsewhere.

    """

    def made(name: str, weight: Tensor, bias: Tensor | None) -> Tensor:
        # detached: in training nothing may be saved for gradients, nor weights be kept by autocast
        own = None if bias is None else bias.detach()
        return functional.linear(given[name].detach(), weight.detach(), own)

    heads = given["num_heads"]
    query, key, value = (
        split(_batched(made(name, weight, bias)), heads)
        for name, weight, bias in zip(("query", "key", "value"), *_projections(given), strict=True)
    )
    mask, bias, (queries, keys) = _masks(given, len(query))
    if queries is None and padding is not None:
        queries = _kept(padding, len(query))
    return Call(query, key, value, query.shape[-1] ** -0.5, mask, bias, kept=(queries, keys))


def with_queries(given: Given, edited: Callable[[Tensor], Tensor]) -> Given:
    """The arguments with edited queries in place of the tokens, and the identity as W_Q."""
    (W_Q, W_K, W_V), (b_Q, b_K, b_V) = _projections(given)
    plain = functional.linear(given["query"], W_Q, b_Q)
    query = edited(split(_batched(plain), given["num_heads"])).transpose(1, 2).flatten(-2)
    return given | {
        "query": query.transpose(0, 1).reshape(plain.shape),
        "in_proj_weight": None,
        "in_proj_bias": None if b_Q is None else torch.cat([torch.zeros_like(b_Q), b_K, b_V]),
        "use_separate_proj_weight": True,
        "q_proj_weight": torch.eye(len(W_Q), dtype=plain.dtype, device=plain.device),
        "k_proj_weight": W_K,
        "v_proj_weight": W_V,
    }


def _projections(given: Given) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """W_Q, W_K, W_V and their biases, which torch keeps in one tensor or in three."""
    W, b = given["in_proj_weight"], given["in_proj_bias"]
    if given.get("use_separate_proj_weight"):
        weights = tuple(given[f"{side}_proj_weight"] for side in "qkv")
    else:
        weights = W.chunk(3)
    return weights, (None, None, None) if b is None else b.chunk(3)


def _masks(
    given: Given, batch: int
) -> tuple[Tensor | None, Tensor | None, tuple[Tensor | None, Tensor | None]]:
    """What hides keys, the bias that is added, and which queries and keys are no padding."""
    mask, bias = given.get("attn_mask"), None
    if mask is not None:
        many = (-1, given["num_heads"], *mask.shape[-2:])
        mask = _hiding(mask.reshape(many) if mask.dim() == 3 else mask[None, None])
        if mask.shape[1] > 1 and bias_in(mask) is mask:
            mask, bias = None, mask
    padding = given.get("key_padding_mask")
    if padding is None:
        return mask, bias, (None, None)
    kept = _kept(padding, batch)
    added = _hiding(padding.reshape(batch, -1)[:, None, None, :])
    mask = added if mask is None else mask + added
    return mask, bias, (kept if given["query"] is given["key"] else None, kept)


def _hiding(mask: Tensor) -> Tensor:
    """A mask that is added to the logits; torch's boolean ones are True where a key is hidden."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)


def _kept(padding: Tensor, batch: int) -> Tensor:
    """Which tokens are no padding; torch marks padding by True or by -inf."""
    rows = padding.reshape(batch, -1)
    return ~rows if rows.dtype == torch.bool else rows > -torch.inf


def _batched(tokens: Tensor) -> Tensor:
    """Tokens of shape (T, batch, k) or (T, k) as (batch, T, k)."""
    return tokens.transpose(0, 1) if tokens.dim() == 3 else tokens[None]


ADAPTERS = (MultiheadAttention(),)
