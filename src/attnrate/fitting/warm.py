"""The compiled Transformer as a start, for models that can represent it."""

from torch import nn

from attnrate.errors import InputError
from attnrate.models import Transformer
from attnrate.models.positions import NoPosition
from attnrate.targets import AttentionTarget, Target

_WAY_OUT = "Use the recipe 'strong', or another model."


def compiled_within(target: Target, model: nn.Module, m_ff: int | None = None) -> Transformer:
    """The Transformer that the proof constructs for the target, if the model can represent it.

    Its networks have m_ff units; by default as many as the narrowest layer of the model. Otherwise
    an InputError says why not: training from there would search another space than the model's.
    """
    if not isinstance(model, Transformer) or not isinstance(target, AttentionTarget):
        raise InputError(
            "a warm start needs a Transformer and a target of the form of Eq. 8",
            (type(target).__name__, type(model).__name__),
            _WAY_OUT,
        )
    width = _width(model)
    if not _is_plain(model) or width is None:
        raise InputError(
            "a warm start needs a Transformer of the plain form of Eq. 5: one head and layer, ReLU "
            "networks for f̂ and F̂, no position encoding, layer norm, scale or mask",
            type(model).__name__,
            _WAY_OUT,
        )
    units = width if m_ff is None else m_ff
    # imported here, since it needs much of scipy, and few fits begin with it
    from attnrate.theory.compile import compile_target

    compiled = compile_target(target, model.m_h, units)
    needed = {"n": compiled.n, "m_v": compiled.m_v, "width": units}
    has = {"n": model.n, "m_v": model.m_v, "width": width}
    small = {name: has[name] for name in has if needed[name] > has[name]}
    if small:
        asked = ", ".join(f"{name} = {needed[name]}" for name in small)
        raise InputError(
            f"the model would need {asked}, and has {{value}}", small, "Make it larger."
        )
    return compiled


def _is_plain(model: Transformer) -> bool:
    """Whether the model has the plain form of Eq. 5: one head, one layer, nothing else."""
    return (
        (model.heads, model.layers, model.rule.factor) == (1, 1, 1.0)
        and not model.rule.causal
        and isinstance(model.position, NoPosition)
        and isinstance(model.norm, nn.Identity)
    )


def _width(model: Transformer) -> int | None:
    """The units of the narrowest hidden layer of f̂ and F̂; None if they are not ReLU networks."""
    widths: list[int] = []
    for network in (model.f_hat, model.F_hat):
        if not isinstance(network, nn.Sequential):
            return None
        *hidden, last = network
        if not isinstance(last, nn.Linear) or len(hidden) < 2 or len(hidden) % 2:
            return None
        for linear, relu in zip(hidden[::2], hidden[1::2], strict=True):
            if not isinstance(linear, nn.Linear) or not isinstance(relu, nn.ReLU):
                return None
            widths.append(linear.out_features)
    return min(widths)
