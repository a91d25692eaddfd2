"""Attention as people outside of transformers write it, and its queries and keys by hand.

Each module is written as in the code that it is named after. `sides` makes queries and keys again
from what goes into a module, with its weights alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

Tensor = torch.Tensor
WIDTH, HEADS, SIZE = 24, 3, 8
Side = tuple[Tensor, Tensor, float]
"""Queries and keys (inputs, heads, tokens, m) and the factor of the logits."""


def heads(x: Tensor, count: int = HEADS) -> Tensor:
    """(inputs, tokens, width) as (inputs, heads, tokens, m)."""
    return torch.stack(x.chunk(count, -1), 1)


def own_sides(weight: Tensor, bias: Tensor | None, x: Tensor) -> Side:
    """Queries and keys from one tensor of weights of queries, keys and values."""
    q, k, _ = functional.linear(x, weight, bias).chunk(3, -1)
    return heads(q), heads(k), SIZE**-0.5


class TimmAttention(nn.Module):
    """timm.layers.Attention, fused and not."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.scale = HEADS, SIZE, SIZE**-0.5
        self.fused_attn = fused
        self.qkv = nn.Linear(WIDTH, WIDTH * 3)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        self.attn_drop, self.proj = nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        else:
            q = q * self.scale
            attn = q @ k.transpose(-2, -1)
            attn = attn.softmax(dim=-1)
            attn = self.attn_drop(attn)
            x = attn @ v
        mixed: Tensor = self.proj(x.transpose(1, 2).reshape(B, N, C))
        return mixed

    def sides(self, x: Tensor) -> Side:
        return own_sides(self.qkv.weight, self.qkv.bias, x)


class TimmBlock(nn.Module):
    """timm.models.vision_transformer.Block."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH), TimmAttention(fused)
        self.norm2, self.mlp = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + functional.gelu(self.mlp(self.norm2(x)))


class CausalSelfAttention(nn.Module):
    """The attention of nanoGPT, with torch's function and without."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attn_dropout = nn.Dropout(0.1)
        self.n_head, self.n_embd, self.flash = HEADS, WIDTH, flash
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = functional.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v
        made: Tensor = self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return made

    def sides(self, x: Tensor) -> Side:
        return own_sides(self.c_attn.weight, self.c_attn.bias, x)


class NanoBlock(nn.Module):
    """A block of nanoGPT."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), CausalSelfAttention(flash)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.ln_1(x))


class NanoGPT(nn.Module):
    """A decoder of two blocks over token numbers."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.wte = nn.Embedding(50, WIDTH)
        self.h = nn.ModuleList([NanoBlock(flash), NanoBlock(flash)])

    def forward(self, idx: Tensor) -> Tensor:
        x: Tensor = self.wte(idx)
        for block in self.h:
            x = block(x)
        return x


class CrossAttention(nn.Module):
    """The attention of diffusers: `way` is "baddbmm", "bmm" or "sdpa"."""

    def __init__(self, way: str, other: int | None = None) -> None:
        super().__init__()
        self.heads, self.scale, self.way = HEADS, SIZE**-0.5, way
        self.to_q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.to_k = nn.Linear(other or WIDTH, WIDTH, bias=False)
        self.to_v = nn.Linear(other or WIDTH, WIDTH, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1)])

    def head_to_batch_dim(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        x = x.reshape(batch, tokens, self.heads, width // self.heads).permute(0, 2, 1, 3)
        return x.reshape(batch * self.heads, tokens, width // self.heads)

    def batch_to_head_dim(self, x: Tensor) -> Tensor:
        batch, tokens, size = x.shape
        x = x.reshape(batch // self.heads, self.heads, tokens, size).permute(0, 2, 1, 3)
        return x.reshape(batch // self.heads, tokens, size * self.heads)

    def get_attention_scores(self, query: Tensor, key: Tensor) -> Tensor:
        if self.way == "bmm":
            return (torch.bmm(query, key.transpose(1, 2)) * self.scale).softmax(dim=-1)
        # torch.empty in diffusers: with beta=0 these numbers are never looked at
        empty = torch.full((query.shape[0], query.shape[1], key.shape[1]), 7.0, dtype=query.dtype)
        empty[0, 0, 0] = torch.nan
        scores = torch.baddbmm(empty, query, key.transpose(-1, -2), beta=0, alpha=self.scale)
        return scores.softmax(dim=-1).to(query.dtype)

    def forward(self, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None) -> Tensor:
        batch = hidden_states.shape[0]
        other = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = self.to_q(hidden_states), self.to_k(other), self.to_v(other)
        if self.way == "sdpa":
            query, key, value = (
                x.view(batch, -1, self.heads, SIZE).transpose(1, 2) for x in (query, key, value)
            )
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False
            )
            mixed = mixed.transpose(1, 2).reshape(batch, -1, WIDTH)
        else:
            query, key, value = (self.head_to_batch_dim(x) for x in (query, key, value))
            mixed = torch.bmm(self.get_attention_scores(query, key), value)
            mixed = self.batch_to_head_dim(mixed)
        made: Tensor = self.to_out[1](self.to_out[0](mixed))
        return made

    def sides(self, x: Tensor, other: Tensor | None = None) -> Side:
        y = x if other is None else other
        return heads(x @ self.to_q.weight.T), heads(y @ self.to_k.weight.T), SIZE**-0.5


class BasicTransformerBlock(nn.Module):
    """A block of a diffusion model: attention to itself, then to a text."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(WIDTH), CrossAttention(way)
        self.norm2, self.attn2 = nn.LayerNorm(WIDTH), CrossAttention(way, 10)

    def forward(self, x: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x))
        return x + self.attn2(self.norm2(x), encoder_hidden_states=encoder_hidden_states)


class LucidAttention(nn.Module):
    """Attention by einsum, as in the vit-pytorch of lucidrains, without einops."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.scale = HEADS, SIZE**-0.5
        self.norm, self.attend = nn.LayerNorm(WIDTH), nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(WIDTH, WIDTH * 3, bias=False)
        self.to_out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        b, n, _ = x.shape
        q, k, v = (
            t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3)
            for t in self.to_qkv(x).chunk(3, dim=-1)
        )
        dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = self.attend(dots)
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        made: Tensor = self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, -1))
        return made

    def sides(self, x: Tensor) -> Side:
        return own_sides(self.to_qkv.weight, None, self.norm(x))


class FlexAttention(nn.Module):
    """Attention by torch's flex_attention, causal, with ALiBi."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)

        def alibi(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return score - 0.3 * (h + 1) * (t - s).abs()

        block = create_block_mask(lambda b, h, t, s: s <= t, None, None, T, T, device="cpu")
        mixed = flex_attention(q, k, v, score_mod=alibi, block_mask=block)
        made: Tensor = self.out(mixed.transpose(1, 2).reshape(B, T, WIDTH))
        return made

    def sides(self, x: Tensor) -> Side:
        return own_sides(self.qkv.weight, self.qkv.bias, x)


class Decoder(nn.Module):
    """torch.nn.TransformerDecoder of two layers, causal."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 20, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)

    def forward(self, tgt: Tensor, memory: Tensor) -> Tensor:
        future = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], dtype=tgt.dtype)
        made: Tensor = self.decoder(tgt, memory, tgt_mask=future, tgt_is_causal=True)
        return made


def torch_sides(part: nn.MultiheadAttention, query: Tensor, key: Tensor) -> Side:
    """Queries and keys of torch's own attention."""
    W, b = part.in_proj_weight, part.in_proj_bias
    q, k = query @ W[:WIDTH].T + b[:WIDTH], key @ W[WIDTH : 2 * WIDTH].T + b[WIDTH : 2 * WIDTH]
    return heads(q), heads(k), SIZE**-0.5


@dataclass(frozen=True)
class Other:
    """A model that is none of transformers, and its inputs."""

    model: nn.Module
    batch: dict[str, Tensor]
    kinds: tuple[str, ...]

    def __call__(self) -> Tensor:
        made: Tensor = self.model(**self.batch)
        return made


def numbers(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _tokens() -> dict[str, Tensor]:
    return {"idx": torch.randint(0, 50, (4, 11), generator=torch.Generator().manual_seed(3))}


def _named(name: str) -> Other:
    x, own = {"input": numbers(4, 11, WIDTH)}, ("self", "self")
    kind, _, way = name.partition("-")
    if kind == "timm":
        return Other(nn.Sequential(*(TimmBlock(way == "sdpa") for _ in own)), x, own)
    if kind == "nanogpt":
        return Other(NanoGPT(way == "sdpa"), _tokens(), own)
    if kind == "diffusers":
        batch = {"x": numbers(4, 11, WIDTH), "encoder_hidden_states": numbers(4, 5, 10)}
        return Other(BasicTransformerBlock(way), batch, ("self", "cross"))
    if kind == "lucidrains":
        return Other(nn.Sequential(LucidAttention(), LucidAttention()), x, own)
    if kind == "flex":
        return Other(nn.Sequential(FlexAttention(), FlexAttention()), x, own)
    batch = {"tgt": numbers(4, 11, WIDTH), "memory": numbers(4, 5, WIDTH)}
    return Other(Decoder(), batch, ("self", "cross") * 2)


OTHERS = (
    *("timm-sdpa", "timm-plain", "nanogpt-sdpa", "nanogpt-plain", "torch-decoder"),
    *("diffusers-sdpa", "diffusers-bmm", "diffusers-baddbmm", "lucidrains", "flex"),
)


def other(name: str) -> Other:
    """A model by its name in OTHERS, in evaluation mode, with logits of size one."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = _named(name)
        for parameter in made.model.parameters():
            near = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            nn.init.normal_(parameter, near, 0.35)
    made.model.eval()
    return made


def sides_of(made: Other) -> list[Side]:
    """Queries and keys of all layers of a model, from what goes into its attention modules."""
    found: list[Side] = []

    def note(part: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if isinstance(part, nn.MultiheadAttention):
            given = [*args, *(kwargs[word] for word in ("query", "key") if word in kwargs)]
            found.append(torch_sides(part, given[0], given[1]))
        else:
            found.append(part.sides(*args, *kwargs.values()))

    hooks = [
        part.register_forward_pre_hook(note, with_kwargs=True)
        for part in made.model.modules()
        if hasattr(part, "sides") or isinstance(part, nn.MultiheadAttention)
    ]
    with torch.no_grad():
        made()
    for hook in hooks:
        hook.remove()
    return found
