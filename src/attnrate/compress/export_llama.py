"""A cut model as files of stock Llama, which plain transformers open with no attnrate installed.

Stock Llama has one head size for queries, keys and values and one table of frequencies for all
layers and heads. A model all of whose key heads keep the same pairs fits into it:

- head_dim = r, the size of the cut heads, which is also that of the cut values;
- the frequencies ω_i of the kept pairs are those of rope_type "longrope", whose tables are
  1 / (factor_i · base^(2i/r)), with short_factor = long_factor, attention_factor 1 and as original
  length the longest one, so that nothing else of longrope applies;
- W_Q is multiplied by scale · √r, because stock Llama divides logits by √r;
- an output bias needs `attention_bias`, which adds biases of queries, keys and values too: they
  are zero unless the model had them.

The files are opened in a fresh process, and its logits are held against those of the model, before
the folder gets its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import nn

from attnrate.compress.modules.llama import ThinLlamaAttention, thinned, with_layers
from attnrate.compress.modules.normed import ThinNormedAttention, normed_parts
from attnrate.compress.modules.rotary_layers import attention_layers, has_projections
from attnrate.compress.written import copy_tokenizer, limit_of, run_fresh, write_checked
from attnrate.errors import InputError, require_none
from attnrate.spectra.batches import at_rest

Tensor = torch.Tensor
_OWN = 'Save it in the format "attnrate".'
_TRIED = 16  # tokens on which stock Llama is held against a whole model
_OPEN = """
import sys, torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
folder, given, into = sys.argv[1:]
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
ids = load_file(given)["ids"]
with torch.no_grad():
    made = model(ids, use_cache=True)
cache = sum(x.nbytes for l in made.past_key_values.layers for x in (l.keys, l.values))
assert "attnrate" not in sys.modules
count = sum(x.numel() for x in model.parameters())
facts = {"cache": torch.tensor(cache), "parameters": torch.tensor(count)}
save_file({"logits": made.logits.contiguous(), **facts}, into)
"""


@dataclass(frozen=True)
class LlamaFiles:
    """Files of stock Llama that were opened again and held against the model.

    Attributes:
        folder: Where they are.
        difference: The size of the difference of logits over that of the logits.
        parameters: The number of parameters of the model that was opened.
        cache: The bytes that its cache takes per token, measured.

    """

    folder: Path
    difference: float
    parameters: int
    cache: float


def require_llama(model: nn.Module) -> None:
    """Raise an InputError where stock Llama has no place for a model, cut or still whole.

    A whole model is tried as well: its weights are put into stock Llama, which must give its
    logits.
    """
    given: Any = model
    kind = type(model).__name__
    if any(isinstance(x, ThinNormedAttention) or normed_parts(x) for x in model.modules()):
        raise InputError(
            'format="llama" has no norms of queries and keys, and no place for what projects them '
            "behind these, as in",
            kind,
            _OWN,
        )
    cut = any(isinstance(x, ThinLlamaAttention) for x in model.modules())
    rotary = cut or any(has_projections(x) for x in model.modules())
    if not rotary or getattr(given, "lm_head", None) is None:
        raise InputError(
            'format="llama" is for rotary decoders with a language head, not for',
            kind,
            f"{_OWN[:-1]}, or open it with its language head (load_model(…, head=True)).",
        )
    if cut:
        _require_plain(given, _thin_layers(model))
        return
    whole = {name: thinned(part) for name, part in attention_layers(model).items()}
    _require_plain(given, whole)
    device = next(model.parameters()).device
    stock: Any = stock_llama(with_layers(model, whole)).to(device)
    ids = torch.arange(min(_TRIED, given.config.vocab_size), device=device)[None]
    with at_rest(model), at_rest(stock):
        wanted, made = (x(input_ids=ids).logits.float() for x in (given, stock))
    far = float((made - wanted).norm() / wanted.norm().clamp(min=1e-30))
    if not far <= limit_of(model):
        raise InputError(
            'format="llama" is for models that compute what stock Llama does; this one\'s weights '
            f"in stock Llama give other logits, by {far:.1e} of their size",
            kind,
            _OWN,
        )


def export_llama(
    model: nn.Module, folder: Path, ids: Int[Tensor, "inputs T"], original: Path | None = None
) -> LlamaFiles:
    """Write a cut model as files of stock Llama, open them in a fresh process, and compare.

    Args:
        model: A model of transformers with a language head, all of whose attention layers are
            `ThinLlamaAttention` with the same pairs and values of the size of the keys.
        folder: The folder to make; there must be nothing yet.
        ids: Token ids on which logits are compared.
        original: The folder of the model before the cut, whose tokenizer is copied; None for none.

    Returns:
        The files and what was measured of them.

    Raises:
        InputError: Stock Llama cannot hold the model, or the folder exists.
        ExportError: The files do not hold the model; they are kept in a folder beside it whose name
            ends in ".differs".

    """
    if folder.exists():
        raise InputError("the folder of an export must be new", str(folder), "Pass another path.")
    stock: Any = stock_llama(model)
    found: list[LlamaFiles] = []

    def write(fresh: Path) -> None:
        stock.save_pretrained(fresh)
        copy_tokenizer(original, fresh)

    def difference(fresh: Path) -> float:
        found.append(opened_again(model, fresh, ids))
        return found[-1].difference

    write_checked(model, folder, write, difference)
    return replace(found[-1], folder=folder)


def stock_llama(model: nn.Module) -> nn.Module:
    """A cut model as transformers' own Llama, in this process; an InputError where it cannot be."""
    from transformers import LlamaForCausalLM
    from transformers.initialization import no_init_weights

    given: Any = model
    layers = _thin_layers(model)
    first, frequencies = _one_table(given, layers)
    r, biased = first.head_dim, any(any(x.shape.biases) for x in layers.values())
    config = _config(given.config, first, frequencies, biased)
    with no_init_weights():
        stock = LlamaForCausalLM(config)
    tensors = {n: x for n, x in model.state_dict().items() if not n.endswith(".self_attn.pairs")}
    for name, layer in layers.items():
        for kind in ("weight", "bias") if biased else ("weight",):
            for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
                own: nn.Linear = getattr(layer, part)
                x = getattr(own, kind)
                x = own.weight.new_zeros(own.out_features) if x is None else x.detach()
                factor = layer.scaling * r**0.5 if part == "q_proj" else 1.0
                tensors[f"{name}.{part}.{kind}"] = x * factor
    found = stock.load_state_dict(tensors, strict=False, assign=True)
    require_none(
        "stock Llama has no place for tensors of the model, or lacks some",
        [*found.unexpected_keys, *found.missing_keys][:5],
        "Models built as Llama, Mistral or Qwen2 are fit; others keep attnrate's own format.",
    )
    if given.generation_config is not None:
        stock.generation_config = given.generation_config
    made: nn.Module = stock
    return made.eval()


def opened_again(model: nn.Module, folder: Path, ids: Int[Tensor, "inputs T"]) -> LlamaFiles:
    """Open files with plain transformers in a fresh process; hold them against the model."""
    given: Any = model
    device = next(model.parameters()).device
    with at_rest(model), torch.no_grad():
        ours = given(ids.to(device)).logits.float().cpu()
    with TemporaryDirectory() as place:
        ids_file, logits_file = Path(place) / "ids", Path(place) / "logits"
        save_file({"ids": ids.cpu().contiguous()}, ids_file)
        run_fresh(_OPEN, (folder, ids_file, logits_file), alone=True)
        found = load_file(logits_file)
    wrong = (found["logits"].float() - ours).norm() / ours.norm().clamp(min=1e-30)
    cache = float(found["cache"]) / ids.numel()
    return LlamaFiles(folder, float(wrong), int(found["parameters"]), cache)


def factors_of(frequencies: Float[Tensor, " pairs"], base: float) -> list[float]:
    """The factors of "longrope" whose table 1 / (factor · base^(2i/r)) is nearest to frequencies.

    The table is computed in float32 as transformers compute it; of the numbers next to each factor
    the one is taken that comes nearest.
    """
    r = 2 * len(frequencies)
    powers = base ** (torch.arange(0, r, 2, dtype=torch.int64).float() / r)
    wanted = frequencies.detach().cpu().float()
    factor = (1.0 / (wanted.double() * powers.double())).float()
    around = [factor]
    for end in (torch.inf, -torch.inf):
        near = factor
        for _ in range(2):
            near = torch.nextafter(near, torch.full_like(near, end))
            around.append(near)
    tried = torch.stack(around)
    best = (1.0 / (tried * powers) - wanted).abs().argmin(0)
    return [float(x) for x in tried.gather(0, best[None])[0]]


def _thin_layers(model: nn.Module) -> dict[str, ThinLlamaAttention]:
    return {n: x for n, x in model.named_modules() if isinstance(x, ThinLlamaAttention)}


def _require_plain(model: Any, layers: Mapping[str, ThinLlamaAttention]) -> None:
    """Raise an InputError where layers do what those of stock Llama do not."""
    shapes = {name: layer.shape for name, layer in layers.items()}
    windows = [name for name, x in shapes.items() if x.window is not None]
    require_none("stock Llama has no sliding window; layers that have one", windows[:3], _OWN)
    bounded = [name for name, x in shapes.items() if x.softcap is not None]
    require_none("stock Llama does not bound logits; layers that do", bounded[:3], _OWN)
    free = [name for name, x in shapes.items() if not x.causal]
    require_none("stock Llama sees no later tokens; layers that do", free[:3], _OWN)
    rotary = model.get_submodule(model.base_model_prefix).rotary_emb
    if getattr(rotary, "rope_type", "default") in ("dynamic", "longrope") or (
        float(rotary.attention_scaling) != 1.0
    ):
        raise InputError(
            "stock Llama takes a table of frequencies that does not change with the length",
            rotary.rope_type,
            _OWN,
        )


def _one_table(
    model: Any, layers: dict[str, ThinLlamaAttention]
) -> tuple[ThinLlamaAttention, Tensor]:
    """The first layer and the frequencies of all of them, if stock Llama can hold them."""
    base = model.get_submodule(model.base_model_prefix) if layers else model
    if not layers or len(layers) != len(getattr(base, "layers", ())):
        raise InputError(
            "stock Llama needs all attention layers of a model with a language head cut; layers "
            "that are cut",
            len(layers),
        )
    first = next(iter(layers.values()))
    other = {name: layer for name, layer in layers.items() if layer.shape.m_v != layer.head_dim}
    require_none(
        "stock Llama has one size for keys and values; layers where they differ",
        list(other)[:3],
        "Cut the values to the size of the keys, or keep attnrate's own format.",
    )
    table = first.pairs[0]
    other = {
        name: layer
        for name, layer in layers.items()
        if layer.pairs.shape[1] != len(table) or bool((layer.pairs != table).any())
    }
    require_none(
        "stock Llama has one table of frequencies; layers with other pairs than the first",
        list(other)[:3],
        'Cut with shared="model", or keep attnrate\'s own format.',
    )
    _require_plain(model, layers)
    rotary = base.rotary_emb
    return first, rotary.inv_freq[table.to(rotary.inv_freq.device)]


def _config(given: Any, layer: ThinLlamaAttention, frequencies: Tensor, biased: bool) -> Any:
    """The configuration of stock Llama for a cut model."""
    from transformers import LlamaConfig

    shape, longest = layer.shape, given.max_position_embeddings
    if given.hidden_size % shape.heads:
        raise InputError(
            f"stock Llama needs a width that is a multiple of its {shape.heads} heads; the width",
            given.hidden_size,
            _OWN,
        )
    base = float(given.rope_parameters["rope_theta"])
    factors = factors_of(frequencies, base)
    same = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "hidden_act"),
        *("initializer_range", "rms_norm_eps", "tie_word_embeddings", "attention_dropout"),
        *("pad_token_id", "bos_token_id", "eos_token_id"),
    )
    return LlamaConfig(
        **{name: getattr(given, name) for name in same if hasattr(given, name)},
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        head_dim=layer.head_dim,
        max_position_embeddings=longest,
        attention_bias=biased,
        mlp_bias=bool(getattr(given, "mlp_bias", False)),
        dtype=layer.q_proj.weight.dtype,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": base,
            "short_factor": factors,
            "long_factor": factors,
            "factor": 1.0,
            "attention_factor": 1.0,
            "original_max_position_embeddings": longest,
        },
    )
