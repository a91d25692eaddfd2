"""Small models whose attention is no uniform average, for tests of what is cut out of weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor
SHAPE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
TEXT = {**SHAPE, "intermediate_size": 20, "vocab_size": 50, "pad_token_id": 0}
PATCHES = {**SHAPE, "intermediate_size": 20, "image_size": 12, "patch_size": 4, "num_channels": 2}
LENGTHS = (11, 7, 4, 9)


@dataclass(frozen=True)
class Small:
    """A model in evaluation mode and a batch for it."""

    model: nn.Module
    batch: dict[str, Tensor]

    def output(self, model: nn.Module | None = None) -> Tensor:
        """The main output of this model, or of another one for the batch."""
        with torch.no_grad():
            made = (self.model if model is None else model)(**self.batch)
        return made if isinstance(made, Tensor) else made[0]

    @property
    def seen(self) -> Tensor:
        """Which places of the output are no padding."""
        kept = self.batch.get("attention_mask")
        shape = self.output().shape[:2]
        return torch.ones(shape).bool() if kept is None else kept.bool()


def words(prefix: str = "", lengths: tuple[int, ...] = LENGTHS) -> dict[str, Tensor]:
    """Token numbers with padding, and their mask."""
    drawn = torch.Generator().manual_seed(2)
    ids = torch.randint(3, 50, (len(lengths), max(lengths)), generator=drawn)
    kept = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": kept}


def pixels() -> dict[str, Tensor]:
    """Four images."""
    drawn = torch.Generator().manual_seed(3)
    return {"pixel_values": torch.randn(4, 2, 12, 12, generator=drawn)}


def _of(name: str, batch: dict[str, Tensor], **settings: Any) -> Small:
    import transformers

    config = getattr(transformers, f"{name}Config")(**settings)
    model: nn.Module = getattr(transformers, f"{name}Model")(config)
    return Small(model, batch)


def _own_vit() -> Small:
    from attnrate.models.vit import ViT

    model = ViT(image=8, patch=2, width=16, layers=2, heads=2, m_h=6, m_v=5, m_ff=20, classes=4)
    return Small(model, {"images": torch.randn(4, 3, 8, 8, generator=torch.Generator())})


def _own_seq2seq() -> Small:
    from attnrate.models.seq2seq import Seq2Seq

    model = Seq2Seq(vocabulary=50, width=16, layers=2, heads=2, m_h=6, m_ff=20)
    pad = model.settings.pad
    ids = words()
    source = ids["input_ids"].masked_fill(ids["attention_mask"] == 0, pad)
    return Small(model, {"source": source, "target": source.flip(0)[:, :7].clamp(min=3)})


class Plain(nn.Module):
    """Attention of a class that belongs to no family."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (3, 8)).transpose(1, 2) for p in (self.q, self.k, self.v))
        made = nn.functional.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.o(made.transpose(1, 2).flatten(2))
        return out


MAKERS: dict[str, Callable[[], Small]] = {
    "bert": lambda: _of("Bert", words(), **TEXT),
    "mpnet": lambda: _of("MPNet", words(), bos_token_id=1, **TEXT),
    "vit": lambda: _of("ViT", pixels(), **PATCHES),
    "roberta": lambda: _of("Roberta", words(), **TEXT),
    "gpt2": lambda: _of(
        "GPT2", words(), n_embd=24, n_layer=2, n_head=3, n_positions=16, vocab_size=50
    ),
    "t5": lambda: _of(
        "T5",
        words() | words("decoder_"),
        d_model=24,
        d_kv=7,
        d_ff=20,
        num_layers=2,
        num_heads=3,
        vocab_size=50,
    ),
    "neox": lambda: _of("GPTNeoX", words(), **TEXT, rotary_pct=0.5),
    "qwen3": lambda: _of("Qwen3", words(), **TEXT, num_key_value_heads=1, head_dim=8),
    "qwen2": lambda: _of("Qwen2", words(), **TEXT, num_key_value_heads=1),
    "albert": lambda: _of("Albert", words(), **TEXT, embedding_size=12),
    "own-vit": _own_vit,
    "own-seq2seq": _own_seq2seq,
    "plain": lambda: Small(
        nn.Sequential(Plain()),
        {"input": torch.randn(4, 11, 24, generator=torch.Generator().manual_seed(4))},
    ),
    "torch": lambda: Small(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 20, batch_first=True), 2),
        {"src": torch.randn(4, 11, 24, generator=torch.Generator())},
    ),
}


def small(name: str) -> Small:
    """A small model by its family's name, with weights that make heads attend to few tokens."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = MAKERS[name]()
        for parameter in made.model.parameters():
            near = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            nn.init.normal_(parameter, near, 0.35)
    return Small(made.model.eval(), made.batch)
