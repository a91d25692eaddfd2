"""Small random models of every family, with inputs of several lengths where there is padding."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

Tensor = torch.Tensor
LENGTHS = (11, 7, 4)
SHAPE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
TEXT = {**SHAPE, "intermediate_size": 20, "vocab_size": 50, "pad_token_id": 0}
PATCHES = {**SHAPE, "intermediate_size": 20, "image_size": 12, "patch_size": 4, "num_channels": 2}
ROTARY = TEXT | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}


@dataclass(frozen=True)
class Tiny:
    """A model and a batch for it; call it to run the one on the other."""

    model: nn.Module
    batch: dict[str, Tensor]

    def __call__(self, **more: Any) -> Any:
        return self.model(**self.batch, **more)

    def output(self) -> Tensor:
        """Its main output as one tensor."""
        result = self()
        return result if isinstance(result, Tensor) else result[0]

    def to(self, dtype: torch.dtype) -> "Tiny":
        """A copy in another precision."""
        batch = {
            name: value.to(dtype) if value.is_floating_point() else value
            for name, value in self.batch.items()
        }
        return Tiny(copy.deepcopy(self.model).to(dtype), batch)


def numbers(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def kept(lengths: tuple[int, ...] = LENGTHS) -> Tensor:
    """1 for tokens, 0 for the padding after them."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def words(lengths: tuple[int, ...] = LENGTHS, prefix: str = "") -> dict[str, Tensor]:
    """Token numbers and their mask."""
    ids = torch.randint(
        1, 50, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(2)
    )
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": kept(lengths)}


def _made(name: str, settings: dict[str, Any], model: str = "Model") -> nn.Module:
    import transformers

    config = getattr(transformers, f"{name}Config")(**settings)
    made: nn.Module = getattr(transformers, name + model)(config)
    return made


def _text(name: str, model: str = "Model", **settings: Any) -> Tiny:
    return Tiny(_made(name, TEXT | settings, model), words())


def _rotary(name: str, **settings: Any) -> Tiny:
    return Tiny(_made(name, ROTARY | settings), words())


def _image(name: str, **more: Any) -> Tiny:
    batch = {"pixel_values": numbers(3, 2, 12, 12)} | more
    return Tiny(_made(name, PATCHES), batch)


def _gpt2(**settings: Any) -> Tiny:
    import transformers

    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16, "vocab_size": 50}
    model = transformers.GPT2Model(transformers.GPT2Config(**sizes | settings))
    batch = words()
    if settings.get("add_cross_attention"):
        batch |= {
            "encoder_hidden_states": numbers(3, 8, 24),
            "encoder_attention_mask": kept((8, 3, 5)),
        }
    return Tiny(model, batch)


def _whisper() -> Tiny:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=50,
        num_mel_bins=5,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=3,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        max_source_positions=9,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    batch = {"input_features": 3 * numbers(3, 5, 18)} | words(prefix="decoder_")
    return Tiny(transformers.WhisperModel(config), batch)


def _bert_pair() -> Tiny:
    import transformers

    one = transformers.BertConfig(**TEXT)
    other = transformers.BertConfig(**TEXT, is_decoder=True, add_cross_attention=True)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(one, other)
    return Tiny(
        transformers.EncoderDecoderModel(config), words((8, 3, 5)) | words(prefix="decoder_")
    )


def _torch_pair() -> Tiny:
    model = nn.Transformer(24, 2, 2, 2, dim_feedforward=20, batch_first=True)
    hidden = {
        "src_key_padding_mask": kept((8, 3, 5)) == 0,
        "tgt_key_padding_mask": kept() == 0,
        "memory_key_padding_mask": kept((8, 3, 5)) == 0,
    }
    return Tiny(model, {"src": numbers(3, 8, 24), "tgt": numbers(3, 11, 24, seed=3)} | hidden)


def _torch_encoder() -> Tiny:
    layer = nn.TransformerEncoderLayer(24, 4, dim_feedforward=20, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    return Tiny(model, {"src": numbers(3, 11, 24), "src_key_padding_mask": kept() == 0})


def _own(**settings: Any) -> Tiny:
    from attnrate.models import Transformer

    sizes = {"n": 10, "m_h": 3, "m_v": 4, "width": 8, "depth": 2, "heads": 2, "layers": 3}
    model = Transformer(2, 3, **sizes | settings, residual=True, layer_norm=True, scale=True)
    return Tiny(model, {"x": 3 * numbers(3, 7, 2)})


FAMILIES: dict[str, Callable[[], Tiny]] = {
    "bert": lambda: _text("Bert"),
    "bert-pair": _bert_pair,
    "mpnet": lambda: _text("MPNet", bos_token_id=1),
    "vit": lambda: _image("ViT"),
    "gpt2": _gpt2,
    "gpt2-cross": lambda: _gpt2(add_cross_attention=True, scale_attn_by_inverse_layer_idx=True),
    "llama": lambda: _rotary("Llama", attention_bias=True),
    "mistral": lambda: _rotary("Mistral", sliding_window=4),
    "qwen2": lambda: _rotary(
        "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1
    ),
    "qwen3": lambda: _rotary("Qwen3"),
    "whisper": _whisper,
    "torch-encoder": _torch_encoder,
    "torch-pair": _torch_pair,
    "attnrate": _own,
    "attnrate-causal": lambda: _own(causal=True),
    "roberta": lambda: _text("Roberta"),
    "roberta-prelayernorm": lambda: _text("RobertaPreLayerNorm"),
    "xlm-roberta": lambda: _text("XLMRoberta"),
    "xlm-roberta-xl": lambda: _text("XLMRobertaXL"),
    "camembert": lambda: _text("Camembert"),
    "electra": lambda: _text("Electra", embedding_size=12),
    "ernie": lambda: _text("Ernie"),
    "data2vec-text": lambda: _text("Data2VecText"),
    "bert-generation": lambda: _text("BertGeneration", "Encoder"),
    "deit": lambda: _image("DeiT"),
    "dinov2": lambda: _image("Dinov2"),
    "dinov2-registers": lambda: _image("Dinov2WithRegisters"),
    "ijepa": lambda: _image("IJepa"),
    "mae": lambda: _image("ViTMAE", noise=numbers(3, 9)),
    "msn": lambda: _image("ViTMSN"),
}


@pytest.fixture
def tiny() -> Iterator[Callable[[str], Tiny]]:
    """A family's name to its small model, in evaluation mode, whose logits are of size one."""

    def make(name: str) -> Tiny:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            made = FAMILIES[name]()
            for parameter in made.model.parameters():
                # Spread enough that no head is near zero, no softmax near one token.
                near = 1.0 if parameter.dim() == 1 and (parameter == 1).all() else 0.0
                nn.init.normal_(parameter, near, 0.35)
        made.model.eval()
        return made

    return make
