"""Where the attention layers of a checkpoint are: the tensors of each, and what its settings say.

Layers are found by the names of their tensors. Settings are those of config.json, which can have
one table for each part of the model (text, vision, audio, encoder, decoder).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from attnrate.errors import InputError
from attnrate.spectra.capture import PROJECTIONS
from attnrate.spectra.weight_files import WeightFiles

Kind: TypeAlias = Literal["separate", "fused", "crossed", "by head", "latent"]

_PAIRS = (
    *((query, key) for query, key, _ in PROJECTIONS),
    ("query_proj", "key_proj"),  # DeBERTa 2 and 3
    ("linear_q", "linear_k"),  # Conformers
    ("to_q", "to_k"),  # diffusers
    ("project_q", "project_k"),  # CPM-Ant
    *(("Wq", "Wk"), ("wq", "wk")),  # CTRL; Llama and Mistral as their authors publish them
)
#: The name of the keys by that of the queries; the last is torch.nn.MultiheadAttention with kdim
KEYS_OF = {f"{query}.weight": f"{key}.weight" for query, key in _PAIRS}
KEYS_OF["q_proj_weight"] = "k_proj_weight"
#: One tensor for queries, keys and values
FUSED = (
    *("query_key_value.weight", "qkv_proj.weight", "qkv.weight", "Wqkv.weight", "wqkv.weight"),
    *("c_attn.weight", "in_proj_weight", "att_proj.weight", "W_pack.weight"),
)
_BY_HEAD = {"rel_attn.q": "rel_attn.k"}  # XLNet: arrays (d, heads, m_h)
#: Multi-head latent attention: keys from a narrow vector, and queries from one or directly
LATENT_KEYS = ("kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight", "kv_b_proj.weight")
LATENT_QUERIES = ("q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight")
_DEBERTA, _DEBERTA_SIGN = "in_proj.weight", "q_bias"  # in_proj alone is mostly a state space's
_NAME = re.compile(
    r"((?:.*\.)?)({})".format(
        "|".join(map(re.escape, (*KEYS_OF, *FUSED, *_BY_HEAD, LATENT_KEYS[0], _DEBERTA)))
    ),
    re.DOTALL,
)
_PACKED = re.compile(r"(.*\.weight)_packed|(.*\.)qweight", re.DOTALL)
#: Tensors beside queries and keys that show a recurrence: no softmax compares the two
_RECURRENT = ("A_log", "forget_gate.A_log", "igate_preact.weight")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads")
_HEADS_OF_A_SIDE = (
    *("{side}_attention_heads", "{side}_num_attention_heads", "num_{side}_attention_heads"),
)
_HEAD_SIZES = ("head_dim", "kv_channels", "d_kv")
_MORE_HEAD_SIZES = ("global_head_dim", "swa_head_dim")  # of some layers
#: Settings that change the number of heads in ways that the names of layers do not show
_UNCLEAR = ("num_attention_heads_per_stage", "head_ratio")
#: Words in the names of layers, by the table of config.json that they belong to
_WORDS = {
    "vision": ("vision", "visual", "image", "video", "vit"),
    "audio": ("audio", "speech", "sound"),
    "text": ("text", "language", "llm", "lm"),
    "llm": ("llm", "language"),
    "backbone": ("backbone", "pixel_level_module"),
}
_TEXT = ("text", "llm")
_NO_PARTS = ("attn_config", "ffn_config")  # of MPT and DBRX: settings of every layer
#: What lies between the parts of a model and has heads of its own
_BETWEEN = re.compile(r"(?:^|[._])(?:multi_modal|project(?:or|ion)\.|resampler|connector|adapter)")


class UnknownSizesError(InputError):
    """The number of heads of a layer is not known, or is not that of its tensors."""


@dataclass(frozen=True)
class Place:
    """An attention layer of a checkpoint and the names of its tensors.

    Attributes:
        layer: The name of the layer.
        kind: "separate" for one tensor of queries and one of keys, "fused" for one tensor of
            queries, keys and values, "crossed" for queries and a tensor of keys and values,
            "by head" for arrays with an axis of heads, "latent" for multi-head latent attention.
        tensors: The names of the tensors, queries first.

    """

    layer: str
    kind: Kind
    tensors: tuple[str, ...]


def find_places(files: WeightFiles) -> tuple[list[Place], dict[str, str]]:
    """The attention layers of a checkpoint in the order in which they run.

    Returns:
        The layers, and the names of tensors that look like attention and are left out, each with
        the reason.

    """
    found: dict[str, Place] = {}
    left = dict(files.unread)
    for name in files.names:
        match = _NAME.fullmatch(name)
        if match is not None:
            layer, end = match.groups()
            reason = _no_softmax(layer, end, files)
            place = None if reason else _place(layer, end, files.names)
            if place is not None:
                found[layer] = place
            elif reason:
                left[name] = reason
            elif end in KEYS_OF and layer + LATENT_KEYS[0] not in files.names:
                left[name] = "no keys are beside these queries"
        elif _is_packed(name):
            left[name] = "quantised"
    if not found:
        _refuse(files, left)
    return [found[layer] for layer in sorted(found, key=_order)], left


def _place(layer: str, end: str, names: frozenset[str]) -> Place | None:
    """The place of a layer, from the name of one of its tensors; None for a tensor of no layer."""
    shown = layer.rstrip(".") or "attention"
    if end in _BY_HEAD and layer + _BY_HEAD[end] in names:
        return Place(f"{layer}rel_attn", "by head", (layer + end, layer + _BY_HEAD[end]))
    if end in KEYS_OF and layer + KEYS_OF[end] in names:
        return Place(shown, "separate", (layer + end, layer + KEYS_OF[end]))
    if end == LATENT_KEYS[0]:
        queries = LATENT_QUERIES if layer + LATENT_QUERIES[0] in names else ("q_proj.weight",)
        tensors = tuple(layer + each for each in (*queries, *LATENT_KEYS))
        return Place(shown, "latent", tensors) if names.issuperset(tensors) else None
    if end in FUSED or (end == _DEBERTA and layer + _DEBERTA_SIGN in names):
        crossed = f"{layer}q_attn.weight"  # the queries of GPT-2's cross attention
        if end == "c_attn.weight" and crossed in names:
            return Place(shown, "crossed", (crossed, layer + end))
        return Place(shown, "fused", (layer + end,))
    return None


def _no_softmax(layer: str, end: str, files: WeightFiles) -> str:
    """Why the tensors of a layer are not those of softmax attention over tokens; "" if they are."""
    if end != _DEBERTA and any(layer + sign in files.names for sign in _RECURRENT):
        return "a recurrence, not softmax attention"
    if end == "qkv_proj.weight" and files.settings.get("model_type") == "minimax":
        return "lightning attention, which has no softmax"
    if "channel_attn." in layer:
        return "attention over channels, not over tokens"
    if "global_pointer." in layer:
        return "scores of pairs, not softmax attention"
    if end == LATENT_KEYS[0] and _place(layer, end, files.names) is None:
        return "multi-head latent attention without the usual tensors"
    return ""


def _is_packed(name: str) -> bool:
    match = _PACKED.fullmatch(name)
    if match is None:
        return False
    plain = match[1] or f"{match[2]}weight"
    return _NAME.fullmatch(plain) is not None


def _refuse(files: WeightFiles, left: dict[str, str]) -> None:
    if left:
        raise InputError(
            f"no attention can be read from the tensors: {listed(left)}; among them",
            sorted(left)[:5],
            f"{files.quantised()}Profile the model on inputs instead, or save it in float first.",
        )
    raise InputError(
        "no attention of a known family is among the tensors",
        sorted(files.names)[:20],
        f"Known are the names {', '.join((*KEYS_OF, *FUSED, LATENT_KEYS[0]))}.",
    )


def listed(left: dict[str, str]) -> str:
    """The reasons for which tensors are left out, each with the names of up to five of them."""
    words = []
    for reason in sorted(set(left.values())):
        names = sorted(name for name, why in left.items() if why == reason)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        words.append(f"{', '.join(names[:5])}{more} ({reason})")
    return "; ".join(words)


def _order(layer: str) -> tuple[object, ...]:
    """A sorting key: layers by number, decoders after encoders, a layer without a name last."""
    parts = re.split(r"(\d+)", re.sub("encoder_attn|cross_attn", "~cross", layer))
    numbered = [part.zfill(9) if part.isdigit() else part for part in parts]
    return layer == "", "decoder" in layer or layer.startswith("dec."), numbered


@dataclass(frozen=True)
class LayerSettings:
    """What config.json says of the part of a model that a layer belongs to.

    Attributes:
        layer: The name of the layer.
        own: The settings of the part.
        family: The model_type of the part or of the model; "" where there is none.

    """

    layer: str
    own: dict[str, Any]
    family: str

    def heads(self) -> int:
        """The number of query heads; an InputError where config.json does not say it."""
        sides = {"decoder": "decoder", "predictor": "pred"}
        side = next((sides[word] for word in sides if word in self.layer), "encoder")
        found = self.whole((*(key.format(side=side) for key in _HEADS_OF_A_SIDE), *_HEADS))
        if found and not self.own.keys() & {*_UNCLEAR}:
            return found[0]
        raise UnknownSizesError(
            "config.json does not say how many heads a layer has",
            self.layer,
            "Say it: heads=12.",
        )

    def head_size(self) -> int | None:
        """The head size, where config.json says it."""
        return next(iter(self.whole(_HEAD_SIZES)), None)

    def head_sizes(self) -> set[int]:
        """All head sizes that config.json names; some models have a second one in some layers."""
        return {*self.whole(("head_dim", *_MORE_HEAD_SIZES))}

    def whole(self, keys: Iterable[str]) -> list[int]:
        """The settings of these names that are whole numbers above zero."""
        values = (self._of_this_layer(self.own.get(key)) for key in keys)
        return [value for value in values if type(value) is int and value > 0]

    def _of_this_layer(self, value: object) -> object:
        """A setting, or of a list of them that of the layer's stage or block."""
        if not isinstance(value, list):
            return value
        number = re.search(r"\d+", self.layer)
        at = len(value) if number is None else int(number.group()[:9])
        return value[at] if at < len(value) else None


def settings_of(layer: str, settings: dict[str, Any]) -> LayerSettings:
    """What config.json says of the part of a model to which a layer belongs.

    The part is named by a word in the layer's name; without one it is the text. Nothing is known of
    what lies between parts. A part does not inherit its heads from the whole: those of a vision
    tower are not those of the language model. Only the text, as the main part, may.
    """
    inner = {
        key.removesuffix("_config"): value
        for key, value in settings.items()
        if isinstance(value, dict)
        and key not in _NO_PARTS
        and (key in ("encoder", "decoder") or "model_type" in value)
    }
    between = _BETWEEN.search(layer)
    places = [
        (match.start(), -len(word), part)
        for part in inner
        for word in _WORDS.get(part, (part,))
        if (match := re.search(rf"(?:^|[._]){re.escape(word)}", layer))
        and (between is None or match.start() >= between.start())
    ]
    part = min(places)[2] if places else next((each for each in _TEXT if each in inner), None)
    family = settings.get("model_type")
    known = family if isinstance(family, str) else ""
    if part is None:
        return LayerSettings(layer, settings | _of_number(layer, settings), known)
    if between is not None and not places:
        return LayerSettings(layer, {}, known)
    below = settings_of(layer, inner[part])
    alone = part not in _TEXT or any(key in below.own for key in _HEADS)
    return LayerSettings(
        layer, below.own if alone else {**settings, **below.own}, below.family or known
    )


def _of_number(layer: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What config.json says of one layer by its number, where it does."""
    tables, number = settings.get("per_layer_config"), re.search(r"\d+", layer)
    if not isinstance(tables, dict) or number is None:
        return {}
    for key, table in tables.items():
        if str(key).lstrip("0") == number.group().lstrip("0") and isinstance(table, dict):
            return table
    return {}
