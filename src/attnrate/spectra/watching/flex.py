"""Calls of torch's flex_attention outside the attention interface of transformers.

Torch compiles this function, so it cannot be seen from within. While a watch is open, the files of
a model find another function under its name, which does the same and passes its arguments on.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn

from attnrate.spectra.capture import Call
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.reading import function_mask

Tensor = torch.Tensor
_FILE = "torch.nn.attention.flex_attention"
_BENT = "its score_mod changes logits by more than what it adds to them"


@contextmanager
def watch_flex(desk: Desk, model: nn.Module) -> Iterator[None]:
    """While it is open, calls of flex_attention from the model's files go to the desk."""
    if _FILE not in sys.modules:  # then no file has a name for it either
        yield
        return
    original: Any = sys.modules[_FILE].flex_attention
    files = {type(part).__module__ for part in model.modules()}
    with ExitStack() as stack:
        for name in sorted({_FILE, *files} & sys.modules.keys()):
            known = vars(sys.modules[name])
            for word, value in list(known.items()):
                # itself, or what torch.compile made of it
                if getattr(value, "_torchdynamo_orig_callable", value) is original:
                    stack.callback(known.__setitem__, word, value)
                    known[word] = _followed(desk, value, inspect.signature(original))
        yield


def _followed(
    desk: Desk, attend: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    @wraps(attend)
    def watched(*args: Any, **kwargs: Any) -> Any:
        module = desk.frames[-1].module if desk.frames else None
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if module is None or not desk.is_free(module) or given["query"].dim() != 4:
            with torch._C.DisableTorchFunction():
                return attend(*args, **kwargs)
        query, key = given["query"], given["key"]
        run = desk.begin(module)
        if desk.edits:
            given["query"] = desk.edited(module, run, query)
        with torch._C.DisableTorchFunction():
            made = attend(*bound.args, **bound.kwargs)
            bias = _added(given["score_mod"], query, key)
        if desk.sees and bias is False:
            desk.lost(module, _BENT)
        elif desk.sees:
            block = given["block_mask"]
            call = Call(
                query,
                key,
                given["value"],
                query.shape[-1] ** -0.5 if given["scale"] is None else float(given["scale"]),
                mask=None if block is None else function_mask(block.mask_mod, query, key),
                bias=None if isinstance(bias, bool) else bias,
                output=made[0] if isinstance(made, tuple) else made,
            )
            desk.seen(module, run, call)
        return made

    return watched


def _added(change: Any, query: Tensor, key: Tensor) -> Tensor | bool:
    """What a score_mod adds to logits, (batch, heads, T, S); True: nothing, False: it does more."""
    if change is None:
        return True
    sizes = (*query.shape[:3], key.shape[2])
    places = torch.meshgrid(
        *(torch.arange(size, device=key.device) for size in sizes), indexing="ij"
    )
    zero = torch.zeros(sizes, device=key.device)
    added: Tensor = change(zero, *places).broadcast_to(sizes)
    there = torch.isfinite(added)
    same = torch.allclose(change(zero + 1, *places)[there], added[there] + 1, atol=1e-5)
    return added.clamp(min=torch.finfo(torch.float32).min / 4) if same else False
