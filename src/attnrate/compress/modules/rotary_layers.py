"""Which attention layers with a rotary embedding can lose pairs, and why others cannot.

Whether a layer is built as that of Llama is tried on inputs, by `llama.require_same`. What inputs
need not show is looked for by name here: a bound that is seldom reached, a factor that grows with
the position.
"""

import inspect
from collections.abc import Mapping
from typing import Any, cast

from torch import nn

from attnrate.compress.modules.standing import StandIn
from attnrate.errors import InputError

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_KIN = "Models built as Llama, Mistral or Qwen2 are can be cut."


def attention_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The attention layers with rotary embedding that can be made thin, by their names.

    An InputError names the first layer that cannot, and says why.
    """
    found = {name: part for name, part in model.named_modules() if has_projections(part)}
    for part in found.values():
        require_rotary(part)
    if not found:
        raise InputError(
            "the model has no attention layer with q_proj, k_proj, v_proj and o_proj",
            type(model).__name__,
            "Models built as Llama are can be cut.",
        )
    return found


def has_projections(module: nn.Module) -> bool:
    """Whether a module has the four projections of an attention layer by the names of Llama."""
    return all(isinstance(getattr(module, own, None), nn.Linear) for own in _PROJECTIONS)


def require_rotary(module: nn.Module) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """The four projections of a layer that can be made thin; InputError for any other."""
    kind = type(module).__name__
    if isinstance(module, StandIn):
        raise InputError(
            "the weights of {value} cannot be cut: its heads were cut before",
            kind,
            "Cut the original model to the sizes that are wanted now.",
        )
    norms = [name for name, _ in module.named_children() if "norm" in name.lower()]
    if norms:
        raise InputError(
            f"the weights of {{value}} cannot be cut: its queries and keys are normalised over all "
            f"their dimensions ({', '.join(norms)}) before the rotation",
            kind,
            "Only its key cache could be made smaller, which is done for layers built as those of "
            "Qwen3, Gemma 3 or OLMo 2 are.",
        )
    found = [getattr(module, name, None) for name in _PROJECTIONS]
    lacking = [x for x in found if not isinstance(x, nn.Linear)]
    known = all(hasattr(module, name) for name in ("head_dim", "scaling", "layer_idx", "config"))
    if lacking or not known:
        raise InputError(
            "the weights of {value} cannot be cut: it is not built as the attention of Llama is",
            kind,
            _KIN,
        )
    packed = {type(x).__name__ for x in found if type(x) is not nn.Linear}
    if packed:
        raise InputError(
            f"the weights of {{value}} cannot be cut: its projections are {', '.join(packed)} and "
            "no plain torch.nn.Linear",
            kind,
            "Open the model with weights that are not packed, e.g. in bfloat16.",
        )
    why = _beyond(module)
    if why is not None:
        raise InputError(f"the weights of {{value}} cannot be cut: {why}", kind, _KIN)
    q, k, v, o = (cast(nn.Linear, x) for x in found)
    return q, k, v, o


def window_of(module: nn.Module) -> int | None:
    """The sliding window of a layer: its own, or that of its model."""
    own = getattr(module, "sliding_window", None)
    if own is None and not hasattr(module, "sliding_window"):
        own = getattr(module.config, "sliding_window", None)
    return own if isinstance(own, int) else None


def _beyond(module: Any) -> str | None:
    """What a layer does that the attention of Llama does not; None for nothing that is known."""
    config = module.config
    if "position_embeddings" not in inspect.signature(type(module).forward).parameters:
        return "it is not given the rotation of its tokens, as attention to other tokens is not"
    if not getattr(module, "use_rope", True):
        return "it does not turn its queries and keys (use_rope), as other layers do"
    if getattr(config, "clip_qkv", None) is not None:
        return "it bounds whole queries, keys and values (clip_qkv)"
    if getattr(module, "sinks", None) is not None:
        return "its heads may attend to nothing (sinks)"
    grows = [n for n in ("llama_4_scaling_beta", "attn_temperature_tuning") if _said(config, n)]
    if grows:
        return f"it multiplies queries by a factor that grows with the position ({grows[0]})"
    share = _said(config, "partial_rotary_factor")
    if isinstance(share, float) and share < 1:
        return (
            f"it turns {share:.0%} of the dimensions of queries and keys (partial_rotary_factor), "
            "and only heads that turn all of them lose pairs"
        )
    return None


def _said(config: Any, name: str) -> Any:
    """What a configuration or its settings of the rotation say; None for nothing."""
    rotation = getattr(config, "rope_parameters", None) or {}
    places = [rotation, *(x for x in rotation.values() if isinstance(x, Mapping))]
    return next((x[name] for x in places if name in x), getattr(config, name, None))
