"""Queries and keys of a layer's heads, taken out of the tensors that a checkpoint keeps them in.

Queries, keys and values of H heads of size m_h that share G heads of keys are often one tensor of
(H + 2G) m_h rows, in one of these layouts:

- stacked: all queries, then all keys, then all values;
- interleaved: for each head of keys in turn the queries of its H / G heads, its key, its value;
- codegen: four blocks, each of the queries, the values and the keys of H / 4 heads.

With one head of keys, stacked and interleaved are the same. Which layout a tensor has is known from
its name or from the family in config.json. It cannot be seen in the numbers.

Multi-head latent attention (DeepSeek) makes the keys of token x from a narrow vector c = A x:

    k_h = (B_h D c / |c|, R x),    q_h = (q'_h, q''_h) likewise from a narrow vector or from x,

where D is diagonal (the gain of a norm, whose scale |c| is the root of the mean square of c), and
only R x, which all heads share, and q''_h are rotated. So the logits of a head are a sum of two
products, with a ratio that depends on the token:

- without rotation: q'_hᵀ B_h D A x / |c|, of at most qk_nope_head_dim dimensions;
- rotary: q''_hᵀ R x, of at most qk_rope_head_dim dimensions.

Both are given apart, each with m_h of its own. The gains belong to W_Q and W_K; the scales |c|, one
positive number for each token, do not.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

import torch
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.spectra.places import LayerSettings, Place, UnknownSizesError
from attnrate.spectra.weight_files import WeightFiles

Tensor = torch.Tensor
Layout: TypeAlias = Literal["separate", "stacked", "interleaved", "codegen", "latent"]
Part: TypeAlias = Literal["", "without rotation", "rotary"]

#: The layouts that can be asked for
LAYOUTS: tuple[Literal["stacked", "interleaved"], ...] = ("stacked", "interleaved")
#: The layout of a fused tensor whose name says it
_BY_NAME: dict[str, Layout] = {
    "qkv": "stacked",  # timm, SAM, BLIP, the image encoders of Qwen and GLM; GGUF
    "Wqkv": "stacked",  # ModernBERT, MPT, DBRX, Nomic, Jina
    "in_proj_weight": "stacked",  # torch.nn.MultiheadAttention
    "att_proj": "stacked",  # Bark, the first OLMo
    "W_pack": "stacked",  # Baichuan
    "in_proj": "interleaved",  # the first DeBERTa
    "c_attn": "stacked",  # GPT-2, nanoGPT, the first Qwen; not GPT-BigCode
}
#: The layout of fused tensors by model_type; for all other tensors it has to be known from the name
_BY_FAMILY: dict[str, Layout] = {
    **dict.fromkeys(("gpt_neox", "gpt_neox_japanese", "bloom", "persimmon"), "interleaved"),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel", "gpt_bigcode"), "interleaved"),
    "internlm2": "interleaved",
    **dict.fromkeys(("phi3", "phi3_v", "phi4_multimodal", "gte", "new"), "stacked"),
    "codegen": "codegen",
}
_CODEGEN_BLOCKS = 4
#: Families whose queries come with a gate of their size, head by head
_GATED = ("qwen3_next", "qwen3_5", "qwen4_exp")


@dataclass(frozen=True)
class Projections:
    """The weights of the queries and keys of a layer's heads, or of a part of them.

    Attributes:
        layout: How they lie in the tensors.
        query: W_Q of each head. Its rows can be given in another orthonormal basis of the tokens.
        key: W_K of each head of keys.
        part: Of multi-head latent attention, which summand of the logits they make.

    """

    layout: Layout
    query: Float[Tensor, "heads m_h d"]
    key: Float[Tensor, "groups m_h e"]
    part: Part = ""


def projections_of(
    files: WeightFiles, place: Place, said: LayerSettings, heads: int | None, layout: Layout | None
) -> list[Projections]:
    """Read the tensors of a layer and take the queries and keys out of them.

    Args:
        files: The checkpoint.
        place: The layer and the names of its tensors.
        said: What config.json says of the layer.
        heads: The number of query heads; None for that of config.json.
        layout: The layout of fused tensors; None where name or family say it.

    Returns:
        The weights of all heads; two of them for multi-head latent attention.

    """
    if place.kind == "by head":
        return [_by_head(files, place, heads)]
    count = said.heads() if heads is None else heads
    if place.kind == "latent":
        return _latent(files, place, count)
    if place.kind == "fused":
        return [_fused(files.read(place.tensors[0]), place, said, count, layout)]
    first, second = (files.read(name) for name in place.tensors)
    if place.kind == "crossed":
        return [_crossed(place, first, second, count)]
    return [_separate(place, first, second, said, count)]


def _separate(
    place: Place, query: Tensor, key: Tensor, said: LayerSettings, heads: int
) -> Projections:
    m_h, rest = divmod(query.shape[0], heads)
    sizes = said.head_sizes() or {m_h}
    gated = m_h % 2 == 0 and m_h // 2 in sizes and said.family.startswith(_GATED)
    if gated:
        m_h //= 2
    groups = key.shape[0] // m_h if m_h else 0
    if rest or m_h not in sizes or groups == 0 or key.shape[0] % m_h or heads % groups:
        size = said.head_size() or m_h
        _refuse(place, heads, size, {"queries": tuple(query.shape), "keys": tuple(key.shape)})
    # behind a gated head's queries comes its gate
    by_head = query.view(heads, -1, query.shape[1])[:, :m_h]
    return Projections("separate", by_head, key.view(groups, m_h, -1))


def _crossed(place: Place, query: Tensor, both: Tensor, heads: int) -> Projections:
    """Cross attention of GPT-2: transposes, of queries, and of keys with values behind them."""
    rows = query.shape[1]
    if rows % heads or both.shape[1] != 2 * rows:
        shapes = {"queries": tuple(query.shape), "keys and values": tuple(both.shape)}
        _refuse(place, heads, rows // heads, shapes)
    W_Q, W_K = (one.reshape(heads, rows // heads, -1) for one in (query.mT, both.mT[:rows]))
    return Projections("stacked", W_Q, W_K)


def _by_head(files: WeightFiles, place: Place, heads: int | None) -> Projections:
    """Arrays (d, heads, m_h) of queries and of keys."""
    query, key = (files.read(name, axes=3).permute(1, 2, 0) for name in place.tensors)
    if query.shape[:2] != key.shape[:2] or heads not in (None, len(query)):
        shapes = {"queries": tuple(query.shape), "keys": tuple(key.shape)}
        _refuse(place, heads or len(query), query.shape[1], shapes)
    return Projections("separate", query, key)


def _fused(
    fused: Tensor, place: Place, said: LayerSettings, heads: int, layout: Layout | None
) -> Projections:
    (name,) = place.tensors
    if name.endswith("c_attn.weight") and fused.shape[1] == 3 * fused.shape[0]:
        fused = fused.mT  # GPT-2 keeps the transpose
    rows, width = fused.shape
    m_h = said.head_size() or width // heads
    all_heads = rows // m_h if m_h else 0
    groups, odd = divmod(all_heads - heads, 2)
    if all_heads * m_h != rows or odd or groups < 1 or heads % groups:
        _refuse(place, heads, m_h, {"queries, keys and values": (rows, width)})
    chosen = layout or _layout(name, said, groups)
    if chosen == "codegen":
        if heads % _CODEGEN_BLOCKS or groups != heads:
            _refuse(place, heads, m_h, {"queries, keys and values": (rows, width)})
        query, _, key = fused.view(_CODEGEN_BLOCKS, 3, -1, m_h, width).unbind(1)
    elif chosen == "interleaved":
        by_group = fused.view(groups, heads // groups + 2, m_h, width)
        query, key = by_group[:, :-2], by_group[:, -2]
    else:
        by_one = fused.view(all_heads, m_h, width)
        query, key = by_one[:heads], by_one[heads : heads + groups]
    return Projections(chosen, query.reshape(heads, m_h, width), key.reshape(groups, m_h, width))


def _layout(name: str, said: LayerSettings, groups: int) -> Layout:
    """The layout of a fused tensor, from its family or its name; an InputError where neither tells.

    A name that goes with one layout only is enough, except for c_attn of GPT-BigCode.
    """
    end = name.removesuffix(".weight").rpartition(".")[2]
    known = _BY_NAME.get(end)
    if known is None or (end == "c_attn" and said.family == "gpt_bigcode"):
        known = _BY_FAMILY.get(said.family, known)
    if known is None and said.family == "chatglm":
        known = "stacked" if said.own.get("multi_query_attention") else "interleaved"
    if known is None and groups == 1:
        known = "stacked"  # the same as interleaved
    if known is None:
        family = repr(said.family) if said.family else "none"
        raise InputError(
            "how queries, keys and values lie in {value} depends on the family of the model, and "
            f"config.json names none that is known here (model_type: {family})",
            name,
            "Pass layout as 'interleaved' if they go head by head (GPT-NeoX, BLOOM, Falcon), as "
            "'stacked' if all queries come first, then all keys (Phi-3).",
        )
    return known


def _latent(files: WeightFiles, place: Place, heads: int) -> list[Projections]:
    *queries, down_name, gain_name, up_name = place.tensors
    down, gain, up = files.read(down_name), files.read(gain_name, axes=1), files.read(up_name)
    rank = up.shape[1]
    m_rotary = down.shape[0] - rank
    query = _latent_queries(files, place, tuple(queries))
    m_both, rest = divmod(query.shape[0], heads)
    m_plain = m_both - m_rotary
    per_head, odd = divmod(up.shape[0], heads)  # keys, then values
    if rest or odd or m_rotary < 0 or m_plain < 1 or per_head < m_plain:
        _refuse(place, heads, m_both, {"queries": tuple(query.shape), "keys": tuple(up.shape)})
    by_head = query.view(heads, m_both, -1)
    keys = up.view(heads, per_head, rank)[:, :m_plain]
    plain = _narrowed(place, keys, gain, down[:rank])
    found = [Projections("latent", by_head[:, :m_plain], plain, "without rotation")]
    if m_rotary:
        rotary = down[None, rank:]
        found.append(Projections("latent", by_head[:, m_plain:], rotary, "rotary"))
    return found


def _latent_queries(files: WeightFiles, place: Place, names: tuple[str, ...]) -> Tensor:
    """W_Q of all heads; for queries from a narrow vector in a basis of that vector's directions."""
    if len(names) == 1:
        return files.read(names[0])
    down, gain, up = names
    return _narrowed(place, files.read(up), files.read(gain, axes=1), files.read(down))


def _narrowed(place: Place, up: Tensor, gain: Tensor, down: Tensor) -> Tensor:
    """B Rᵀ, which has the singular values of B D A, for (D A)ᵀ = P R (QR) with the gains D."""
    if not up.shape[-1] == len(gain) == len(down):
        raise InputError(
            f"tensors of {place.layer} do not fit each other",
            {"from": tuple(down.shape), "norm": tuple(gain.shape), "to": tuple(up.shape)},
            "Copy the checkpoint once more.",
        )
    triangle: Tensor = torch.linalg.qr((gain[:, None] * down).mT, mode="r").R
    return up @ triangle.mT


def _refuse(place: Place, heads: int, m_h: int, shapes: dict[str, tuple[int, ...]]) -> NoReturn:
    raise UnknownSizesError(
        f"the weights of {place.layer} do not fit {heads} heads of size {m_h}",
        shapes,
        "Check config.json, or say how many heads there are: heads=12.",
    )
