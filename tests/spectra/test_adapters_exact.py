"""Spectra from captured queries and keys are those of logits formed in float64 from the weights.

The other side takes the hidden states of a float64 copy of the model and redoes norms, projections
and rotations by hand, forms every logit matrix and decomposes it in full.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from attnrate.spectra.capture import Call, Site
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor


@dataclass(frozen=True)
class Sides:
    """Queries and keys (batch, heads, tokens, m_h) of a site in float64, and its scale."""

    query: Tensor
    key: Tensor
    scale: float


def heads(x: Tensor, count: int) -> Tensor:
    return torch.stack(x.chunk(count, -1), 1)


def joined(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(1), -1)


def linear_sides(part: Any, names: str, count: int, x: Tensor, y: Tensor, scale: float) -> Sides:
    q, k = (getattr(part, name) for name in names.split())
    return Sides(
        heads(x @ q.weight.T + q.bias, count), heads(y @ k.weight.T + k.bias, count), scale
    )


def attended(sides: Sides, value: Tensor, seen: Tensor) -> Tensor:
    """Heads side by side after softmax; `seen` broadcasts to (batch, heads, T, S)."""
    logits = sides.scale * torch.einsum("bhtm,bhsm->bhts", sides.query, sides.key)
    return joined(logits.masked_fill(~seen, -torch.inf).softmax(-1) @ value)


def causal(mask: Tensor) -> Tensor:
    length = mask.shape[1]
    return torch.ones(length, length).tril().bool() & mask[:, None, None, :].bool()


def bert(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    return [
        (linear_sides(layer.attention.self, "query key", 3, x, x, 8**-0.5), None)
        for layer, x in zip(model.encoder.layer, states.hidden_states, strict=False)
    ]


def bert_pair(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    found = [
        (linear_sides(layer.attention.self, "query key", 3, x, x, 8**-0.5), None)
        for layer, x in zip(model.encoder.encoder.layer, states.encoder_hidden_states, strict=False)
    ]
    memory = states.encoder_last_hidden_state
    for layer, x in zip(
        model.decoder.bert.encoder.layer, states.decoder_hidden_states, strict=False
    ):
        own = linear_sides(layer.attention.self, "query key", 3, x, x, 8**-0.5)
        value = heads(layer.attention.self.value(x), 3)
        mixed = attended(own, value, causal(batch["decoder_attention_mask"]))
        after = layer.attention.output(mixed, x)
        across = layer.crossattention.self
        found += [
            (own, None),
            (linear_sides(across, "query key", 3, after, memory, 8**-0.5), None),
        ]
    return found


def mpnet(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    return [
        (linear_sides(layer.attention.attn, "q k", 3, x, x, 8**-0.5), None)
        for layer, x in zip(model.encoder.layer, states.hidden_states, strict=False)
    ]


def vit(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    found = []
    for layer, x in zip(model.layers, states.hidden_states, strict=False):
        x = layer.layernorm_before(x)
        found.append((linear_sides(layer.attention, "q_proj k_proj", 3, x, x, 8**-0.5), None))
    return found


def gpt2(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    found: list[tuple[Sides, None]] = []
    for index, (block, x) in enumerate(zip(model.h, states.hidden_states, strict=False)):
        across = getattr(block, "crossattention", None)
        scale = 8**-0.5 / (1 if across is None else index + 1)
        q, k, v = (
            heads(part, 3)
            for part in (block.ln_1(x) @ block.attn.c_attn.weight + block.attn.c_attn.bias).chunk(
                3, -1
            )
        )
        own = Sides(q, k, scale)
        found.append((own, None))
        if across is not None:
            mixed = attended(own, v, causal(batch["attention_mask"]))
            y = block.ln_cross_attn(x + mixed @ block.attn.c_proj.weight + block.attn.c_proj.bias)
            query = y @ across.q_attn.weight + across.q_attn.bias
            key = batch["encoder_hidden_states"] @ across.c_attn.weight + across.c_attn.bias
            sides = Sides(heads(query, 3), heads(key[..., :24], 3), scale)
            found.append((sides, None))
    return found


def rotated(x: Tensor) -> Tensor:
    """Coordinates i and i + m_h/2 as a complex number, turned by position · 10000^(-2i/m_h)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2]).double()[:, None] * 1e4 ** -(
        torch.arange(half).double() / half
    )
    z = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angle)
    return torch.cat([z.real, z.imag], -1)


def rotary(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, Sides]]:
    found = []
    for layer, x in zip(model.layers, states.hidden_states, strict=False):
        part = layer.self_attn
        x = x / (x.square().mean(-1, keepdim=True) + model.config.rms_norm_eps).sqrt()
        x = x * layer.input_layernorm.weight
        q, k = heads(part.q_proj(x), 6), heads(part.k_proj(x), 2)
        if hasattr(part, "q_norm"):
            eps = model.config.rms_norm_eps
            q = q / (q.square().mean(-1, keepdim=True) + eps).sqrt() * part.q_norm.weight
            k = k / (k.square().mean(-1, keepdim=True) + eps).sqrt() * part.k_norm.weight
        k = torch.stack([k[:, head // 3] for head in range(6)], 1)
        found.append((Sides(rotated(q), rotated(k), 10**-0.5), Sides(q, k, 10**-0.5)))
    return found


def whisper(model: Any, batch: dict[str, Tensor], states: Any) -> list[tuple[Sides, None]]:
    found: list[tuple[Sides, None]] = []

    def sides(part: Any, x: Tensor, y: Tensor, count: int) -> Sides:
        q, k = part.q_proj, part.k_proj
        query, key = heads(x @ q.weight.T + q.bias, count), heads(y @ k.weight.T, count)
        return Sides(query, key, (24 // count) ** -0.5)

    for layer, x in zip(model.encoder.layers, states.encoder_hidden_states, strict=False):
        x = layer.self_attn_layer_norm(x)
        found.append((sides(layer.self_attn, x, x, 4), None))
    memory = states.encoder_last_hidden_state
    for layer, x in zip(model.decoder.layers, states.decoder_hidden_states, strict=False):
        normed = layer.self_attn_layer_norm(x)
        own = sides(layer.self_attn, normed, normed, 3)
        value = heads(layer.self_attn.v_proj(normed), 3)
        mixed = attended(own, value, causal(batch["decoder_attention_mask"]))
        y = layer.encoder_attn_layer_norm(x + layer.self_attn.out_proj(mixed))
        found += [(own, None), (sides(layer.encoder_attn, y, memory, 3), None)]
    return found


def torch_sides(part: nn.MultiheadAttention, x: Tensor, y: Tensor) -> Sides:
    W, b, count = part.in_proj_weight, part.in_proj_bias, part.num_heads
    query, key = x @ W[:24].T + b[:24], y @ W[24:48].T + b[24:48]
    return Sides(heads(query, count), heads(key, count), (24 // count) ** -0.5)


def torch_encoder(model: Any, batch: dict[str, Tensor], _: Any) -> list[tuple[Sides, None]]:
    return torch_layers(model.layers, batch)[0]


def torch_layers(layers: Any, batch: dict[str, Tensor]) -> tuple[list[tuple[Sides, None]], Tensor]:
    x, found = batch["src"], []
    for layer in layers:
        found.append((torch_sides(layer.self_attn, x, x), None))
        x = layer(x, src_key_padding_mask=batch["src_key_padding_mask"])
    return found, x


def torch_pair(model: Any, batch: dict[str, Tensor], _: Any) -> list[tuple[Sides, None]]:
    hidden, others = batch["tgt_key_padding_mask"], batch["memory_key_padding_mask"]
    found, memory = torch_layers(model.encoder.layers, batch)
    memory, x = model.encoder.norm(memory), batch["tgt"]
    for layer in model.decoder.layers:
        own = torch_sides(layer.self_attn, x, x)
        W, b = layer.self_attn.in_proj_weight[48:], layer.self_attn.in_proj_bias[48:]
        mixed = attended(own, heads(x @ W.T + b, 2), ~hidden[:, None, None, :])
        y = layer.norm1(x + layer.self_attn.out_proj(mixed))
        found += [(own, None), (torch_sides(layer.multihead_attn, y, memory), None)]
        x = layer(x, memory, tgt_key_padding_mask=hidden, memory_key_padding_mask=others)
    return found


def attnrate(model: Any, batch: dict[str, Tensor], _: Any) -> list[tuple[Sides, None]]:
    h, found = model.f_hat(batch["x"]), []
    for part in [*model.inner, model]:
        x = functional.layer_norm(h, (10,), part.norm.weight, part.norm.bias)
        sides = Sides(heads(x @ part.W_Q.weight.T, 2), heads(x @ part.W_K.weight.T, 2), 3**-0.5)
        found.append((sides, None))
        if part is not model:
            h = part(h)
    return found


ORACLES: dict[str, Callable[..., Any]] = {
    "bert": bert,
    "bert-pair": bert_pair,
    "mpnet": mpnet,
    "vit": vit,
    "gpt2": gpt2,
    "gpt2-cross": gpt2,
    "llama": rotary,
    "mistral": rotary,
    "qwen2": rotary,
    "qwen3": rotary,
    "whisper": whisper,
    "torch-encoder": torch_encoder,
    "torch-pair": torch_pair,
    "attnrate": attnrate,
    "attnrate-causal": attnrate,
}
CASES = [
    (name, implementation)
    for name in ORACLES
    for implementation in (
        (None,) if name == "mpnet" or name.startswith(("torch", "attnrate")) else ("sdpa", "eager")
    )
]


def tokens(site: Site, batch: dict[str, Tensor], sides: Sides) -> tuple[Tensor, Tensor]:
    """Which queries and keys are no padding, from the batch alone."""
    masks: tuple[str | None, str | None] = (None, None)
    if "input_ids" in batch:
        masks = ("attention_mask",) * 2
    if "decoder_input_ids" in batch and site.name.startswith("decoder"):
        masks = ("decoder_attention_mask",) * 2
        if site.kind == "cross":
            masks = (masks[0], "attention_mask" if "input_ids" in batch else None)
    if "encoder_attention_mask" in batch and site.kind == "cross":
        masks = (masks[0], "encoder_attention_mask")
    if "src" in batch:
        masks = ("src_key_padding_mask",) * 2
        if site.name.startswith("decoder"):
            masks = ("tgt_key_padding_mask",) * 2
        if site.kind == "cross":
            masks = ("tgt_key_padding_mask", "memory_key_padding_mask")
    query, key = (
        torch.ones(x.shape[0], x.shape[2], dtype=torch.bool)
        if mask is None
        else batch[mask] == int(not mask.endswith("padding_mask"))
        for mask, x in zip(masks, (sides.query, sides.key), strict=True)
    )
    return query, key


def full(logits: Tensor, gauge: bool, m_h: int) -> Tensor:
    """σ of (heads, T, S) logits over √(T S), m_h of them."""
    if gauge:
        logits = logits - logits.mean(-1, keepdim=True)
    sigma = torch.linalg.svdvals(logits / (logits.shape[-2] * logits.shape[-1]) ** 0.5)
    return functional.pad(sigma, (0, m_h))[..., :m_h]


def seen(made: Any) -> list[tuple[Site, Call]]:
    found: list[tuple[Site, Call]] = []
    watcher = Watcher(made.model)
    with torch.no_grad(), watcher.open(3, lambda site, call: found.append((site, call))):
        made()
    assert not watcher.unseen()
    return found


@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_every_head_has_the_spectrum_of_its_logits(
    name: str, implementation: str | None, tiny: Callable[[str], Any]
) -> None:
    made = tiny(name)
    if implementation is not None:
        made.model.set_attn_implementation(implementation)
    exact = made.to(torch.float64)
    with torch.no_grad():
        states = exact(output_hidden_states=True) if hasattr(made.model, "config") else None
        oracle = ORACLES[name](exact.model, exact.batch, states)
    for (site, call), (logits, plain) in zip(seen(made), oracle, strict=True):
        kept = tokens(site, made.batch, logits)
        assert (plain is not None) == site.rotary == (call.plain is not None)
        check((call.query, call.key), logits, call.scale, kept)
        if call.plain is not None:
            check(call.plain, plain, call.scale, kept)


def check(
    made: tuple[Tensor, Tensor], sides: Sides, scale: float, kept: tuple[Tensor, Tensor]
) -> None:
    """Every input's spectrum and the pooled one, with and without the gauge."""
    queries = [x[:, keep] for x, keep in zip(sides.query, kept[0], strict=True)]
    keys = [x[:, keep] for x, keep in zip(sides.key, kept[1], strict=True)]
    pairs = [*zip(queries, keys, strict=True), (torch.cat(queries, 1), torch.cat(keys, 1))]
    query, key = Gram.of(made[0], kept[0]), Gram.of(made[1], kept[1])
    for gauge in (False, True):
        each = spectra(query, key, scale)[0 if gauge else 1]
        pooled = spectra(query.pooled(), key.pooled(), scale)[0 if gauge else 1]
        for sigma, (q, k) in zip([*each, pooled], pairs, strict=True):
            truth = full(sides.scale * q @ k.mT, gauge, sigma.shape[-1])
            assert truth[..., 0].min() > 0.01  # no head of these models is idle
            assert ((sigma - truth).abs() <= 1e-5 * truth[..., :1]).all()
