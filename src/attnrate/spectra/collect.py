"""From a call of an attention layer to its spectra and moments on a batch of inputs."""

from dataclasses import replace

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.layer import LayerSpectra, Stage
from attnrate.spectra.watching.reading import is_causal
from attnrate.words import GAUGES

Tensor = torch.Tensor
_KEPT = ("name", "kind", "heads", "groups", "m_h", "rotary", "run")  # what is kept of a site


def by_input(call: Call, inputs: int) -> Call:
    """The call with one row for each input, the tokens of its windows one after another.

    Where the rows are no multiple of the inputs (images packed into one sequence), all of them
    become one row. What depends on pairs of tokens is left out.
    """
    rows = call.query.shape[0]
    if rows == inputs:
        return call
    own = inputs if rows % inputs == 0 else 1

    def tokens(x: Tensor) -> Tensor:
        wide = x.reshape(own, rows // own, *x.shape[1:]).transpose(1, 2)
        return wide.flatten(2, 3)

    def flags(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.reshape(own, -1)

    plain = None if call.plain is None else (tokens(call.plain[0]), tokens(call.plain[1]))
    return replace(
        call,
        query=tokens(call.query),
        key=tokens(call.key),
        value=tokens(call.value),
        mask=None,
        bias=None,
        plain=plain,
        kept=(flags(call.kept[0]), flags(call.kept[1])),
    )


def layer_of(
    number: int, site: Site, call: Call, batch: Batch, held: list[int], model: nn.Module
) -> LayerSpectra:
    """The spectra and moments of a layer on one batch.

    Args:
        number: The number of the layer.
        site: The layer.
        call: Its call on the batch.
        batch: The inputs.
        held: The numbers of the inputs that have no part in making cuts.
        model: The model, whose weights are looked at if something is not finite.

    Returns:
        A piece of the layer's record, to be joined with those of other batches.

    """
    _require_inputs_first(site, call, batch)
    bias = None if call.bias is None else call.bias[0].detach().float().cpu().numpy()
    causal = is_causal(call)
    kept = kept_tokens(site, call, batch)
    whole = by_input(replace(call, kept=kept), batches.size(batch))
    pairs: dict[Stage, tuple[Tensor, Tensor]] = {"logits": (whole.query, whole.key)}
    if whole.plain is not None:
        pairs["plain"] = whole.plain
    sigma, moments = {}, {}
    for stage, (query, key) in pairs.items():
        q, k = Gram.of(query, whole.kept[0]), Gram.of(key, whole.kept[1])
        _check(site, model, q, k)
        for gauge, values in zip(GAUGES, spectra(q, k, call.scale), strict=True):
            sigma[stage, gauge] = values.float().cpu().numpy()
        moments[stage] = q.pooled().cpu(), k.pooled().cpu()
        if stage == "logits":
            tokens = q.count[:, 0].long().cpu().numpy()
            for_cuts = _for_cuts(q, k, held, batches.size(batch))
    return LayerSpectra(
        number=number,
        **{name: getattr(site, name) for name in _KEPT},
        m_v=int(call.value.shape[-1]),
        causal=causal,
        scale=call.scale,
        tokens=tokens,
        sigma=sigma,
        moments=moments,
        query=for_cuts[0],
        key=for_cuts[1],
        cuts={},
        bias=bias,
    )


def _require_inputs_first(site: Site, call: Call, batch: Batch) -> None:
    """Raise an InputError when the layer takes the batch's second axis for that of the inputs."""
    rows, tokens = call.query.shape[0], call.query.shape[2]
    for value in [batch] if isinstance(batch, Tensor) else batch.values():
        if value.dim() >= 3 and tuple(value.shape[:2]) == (tokens, rows) and rows != tokens:
            raise InputError(
                f"{site.name} sees another number of inputs than the batch has along its first "
                f"axis, {tokens}",
                rows,
                "Put the inputs along the first axis (batch_first=True).",
            )


def _for_cuts(query: Gram, key: Gram, held: list[int], inputs: int) -> tuple[Gram, Gram]:
    """The moments of those inputs that have a part in making cuts."""
    others = [number for number in range(len(query.count)) if number not in held]
    if len(query.count) != inputs and held:
        others = []  # inputs that were packed together cannot be told apart
    own = query.pick(others), key.pick(others)
    return own[0].pooled().cpu(), own[1].pooled().cpu()


def _check(site: Site, model: nn.Module, *moments: Gram) -> None:
    """Raise an InputError for inputs without tokens and for queries or keys that are not finite."""
    for each in moments:
        empty = (each.count[:, 0] == 0).nonzero()[:, 0].tolist()
        said = f"inputs are nothing but padding in {site.name}; their numbers in the batch"
        require_none(said, empty, "Leave them out.")
    if not all(bool(torch.isfinite(each.spread).all()) for each in moments):
        broken = batches.not_finite(model)
        raise InputError(
            f"queries or keys of {site.name} are not finite, and of the model's weights {{value}}",
            broken or "none",
            "Load these weights anew."
            if broken
            else "Look at the inputs, or use a wider number type.",
        )
