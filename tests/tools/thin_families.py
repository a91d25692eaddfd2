"""Small models of families that have thin layers, in float64, with inputs of several lengths.

`projected` is the oracle of a cut: the original model whose whole projections are multiplied by the
matrices of the cut, so that nothing in it is thin.
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import nn

from attnrate.compress.calibration import Calibration, calibrate
from attnrate.compress.content import content
from attnrate.compress.fold import ThinLayer
from attnrate.compress.values import value_cut

Tensor = torch.Tensor
Batch = dict[str, Tensor]

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = {
    **SPECIAL,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "vocab_size": 50,
}
TWO = {
    **SPECIAL,
    "d_model": 24,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 3 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 20 for side in ("encoder", "decoder")},
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    "max_position_embeddings": 40,
    "vocab_size": 50,
}
SPEECH = {
    **TWO,
    "num_mel_bins": 6,
    "max_source_positions": 12,
    "max_target_positions": 30,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
DECODER = {**SPECIAL, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 40, "vocab_size": 50}
POSITIONS = {
    **SPECIAL,
    "d_model": 24,
    "d_kv": 6,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "vocab_size": 50,
    "decoder_start_token_id": 0,
}
WRITER = {"is_decoder": True, "add_cross_attention": True}

#: Class of transformers, its settings, the kind of inputs
MODELS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "gpt2": ("GPT2LMHeadModel", DECODER, "text"),
    "gpt2-untied": ("GPT2LMHeadModel", DECODER | {"tie_word_embeddings": False}, "text"),
    "gpt2-cross": ("GPT2LMHeadModel", DECODER | {"add_cross_attention": True}, "read"),
    "gpt2-float32": ("GPT2LMHeadModel", DECODER | {"reorder_and_upcast_attn": True}, "text"),
    "bert": ("BertModel", TEXT, "text"),
    "bert-cross": ("BertLMHeadModel", TEXT | WRITER, "read"),
    "bert_generation": ("BertGenerationEncoder", TEXT, "text"),
    "camembert": ("CamembertModel", TEXT, "text"),
    "electra": ("ElectraModel", TEXT, "text"),
    "ernie": ("ErnieModel", TEXT, "text"),
    "roberta": ("RobertaModel", TEXT, "text"),
    "roberta-writer": ("RobertaForCausalLM", TEXT | {"is_decoder": True}, "text"),
    "roberta_prelayernorm": ("RobertaPreLayerNormModel", TEXT, "text"),
    "roc_bert": ("RoCBertModel", TEXT | {"enable_pronunciation": False}, "text"),
    "xlm_roberta": ("XLMRobertaModel", TEXT, "text"),
    "xlm_roberta_xl": ("XLMRobertaXLModel", TEXT, "text"),
    "xmod": ("XmodModel", TEXT | {"default_language": "en_XX"}, "text"),
    "distilbert": (
        "DistilBertModel",
        {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "vocab_size": 50},
        "text",
    ),
    "bart": ("BartForConditionalGeneration", TWO, "both"),
    "biogpt": ("BioGptForCausalLM", TEXT, "text"),
    "blenderbot": ("BlenderbotForConditionalGeneration", TWO, "both"),
    "blenderbot_small": ("BlenderbotSmallForConditionalGeneration", TWO, "both"),
    "m2m_100": ("M2M100ForConditionalGeneration", TWO, "both"),
    "marian": ("MarianMTModel", TWO | {"decoder_start_token_id": 0}, "both"),
    "mbart": ("MBartForConditionalGeneration", TWO, "both"),
    "pegasus": ("PegasusForConditionalGeneration", TWO, "both"),
    "plbart": ("PLBartForConditionalGeneration", TWO, "both"),
    "whisper": ("WhisperForConditionalGeneration", SPEECH, "speech"),
    "t5": ("T5ForConditionalGeneration", POSITIONS, "both"),
    "t5-encoder": ("T5EncoderModel", POSITIONS, "text"),
    "mt5": ("MT5ForConditionalGeneration", POSITIONS, "both"),
}
LENGTHS, OTHERS = (7, 11, 4, 9), (6, 5, 8, 3)


def made(name: str) -> Any:
    """A small model by its name, with weights that make heads attend to few tokens."""
    import transformers

    kind, settings, _ = MODELS[name]
    model: Any = getattr(transformers, kind)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = model(model.config_class(**settings)).double().eval()
        for parameter in model.parameters():
            near = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            nn.init.normal_(parameter, near, 0.35)
    return model


def given(name: str, times: int = 1) -> Batch:
    """Four inputs for a model, or several times as many."""
    kind = MODELS[name][2]
    found: list[Batch] = []
    for seed in range(times):
        drawn = torch.Generator().manual_seed(seed)
        batch = words("decoder_", OTHERS, drawn) if kind in ("both", "speech") else {}
        if kind != "speech":
            batch |= words("", LENGTHS, drawn)
        else:
            batch["input_features"] = torch.randn(4, 6, 24, generator=drawn, dtype=torch.float64)
        if kind == "read":
            batch["encoder_hidden_states"] = torch.randn(
                4, 8, 24, generator=drawn, dtype=torch.float64
            )
            kept = torch.arange(8) < torch.tensor(OTHERS)[:, None]
            batch["encoder_attention_mask"] = kept.long()
        found.append(batch)
    return {key: torch.cat([batch[key] for batch in found]) for key in found[0]}


def words(prefix: str, lengths: tuple[int, ...], drawn: torch.Generator) -> Batch:
    """Token numbers with padding, and their mask."""
    ids = torch.randint(3, 50, (len(lengths), max(lengths)), generator=drawn)
    kept = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {f"{prefix}input_ids": ids * kept, f"{prefix}attention_mask": kept}


def output(model: Any, batch: Batch) -> Tensor:
    """The main output where tokens are no padding."""
    with torch.no_grad():
        first: Tensor = model(**batch, use_cache=False)[0] if writes(model) else model(**batch)[0]
    kept = batch.get("decoder_attention_mask", batch.get("attention_mask"))
    return first if kept is None else first[kept.bool()]


def writes(model: Any) -> bool:
    """Whether a model writes token by token."""
    return bool(model.can_generate())


@cache
def known(name: str) -> tuple[Any, Batch, Calibration]:
    """A small model, its inputs, and what a cut needs to know; the model must stay as it is."""
    model, batch = made(name), given(name)
    return model, batch, calibrate(model, [batch])


def text(model: Any, batch: Batch, **more: Any) -> Tensor:
    """What a model writes to these inputs, each token being the likeliest."""
    names = ("input_ids", "attention_mask", "input_features")
    read = {key: batch[key] for key in batch if key in names or key.startswith("encoder_")}
    options = {"max_new_tokens": 6, "do_sample": False, "disable_compile": True, **more}
    made: Tensor = model.generate(**read, **options)
    return made


def thin_layers(
    found: Calibration, size: int | None, value_size: int | None
) -> dict[str, ThinLayer]:
    """The cut of all layers by closed forms."""
    layers = {}
    for name, own in found.found.projections.items():
        moments = found.moments[name]
        layers[name] = ThinLayer(
            own,
            None if size is None else content(moments, "logits", size),
            None if value_size is None else value_cut(moments, own.output.weight, value_size),
        )
    return layers


def projected(model: nn.Module, layers: Mapping[str, ThinLayer]) -> Any:
    """A copy of a model of the whole size that should give what its thin copy gives."""
    whole = copy.deepcopy(model)
    for layer in layers.values():
        own = layer.projections
        if layer.content is not None:
            change(whole, own.query, layer.content.projection().mT)
        if layer.values is not None:
            V, U = layer.values.V, layer.values.U
            change(whole, own.value, (V @ U.mT).mT)
            part: Any = whole.get_submodule(own.output.path)
            with torch.no_grad():
                if part.bias is None:
                    part.bias = nn.Parameter(layer.values.shift.clone())
                else:
                    part.bias += layer.values.shift
    return whole


def change(model: nn.Module, own: Any, by: Tensor) -> None:
    """Multiply the rows of a part that belong to each head by a matrix of that head."""
    part: Any = model.get_submodule(own.path)
    with torch.no_grad():
        for rows, matrix in zip(own.features, by, strict=True):
            if type(part).__name__ == "Conv1D":
                part.weight[:, rows] = part.weight[:, rows] @ matrix.mT
            else:
                part.weight[rows] = matrix @ part.weight[rows]
            if part.bias is not None:
                part.bias[rows] = matrix @ part.bias[rows]


def forward_of(family: str, name: str) -> str:
    """How transformers writes the forward of a class, without remarks and types."""
    there = import_module(f"transformers.models.{family}.modeling_{family}")
    source = textwrap.dedent(inspect.getsource(getattr(there, name).forward))
    function: Any = ast.parse(source).body[0]
    if ast.get_docstring(function):
        del function.body[0]
    function.returns = None
    for part in [*function.args.args, function.args.kwarg]:
        part.annotation = None
    return ast.unparse(function)
