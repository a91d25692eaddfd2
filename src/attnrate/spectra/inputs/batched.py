"""Batches of inputs that are made when their turn comes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch

from attnrate.shown import Shown
from attnrate.spectra.measures import counted

Batch: TypeAlias = dict[str, torch.Tensor]


@dataclass(frozen=True, repr=False)
class Batches(Shown):
    """Batches of inputs that can be gone through any number of times.

    A batch is made when its turn comes, so that images and arrays do not fill the memory.

    Attributes:
        inputs: The number of inputs in all batches together.
        size: The number of inputs in a batch; the last may have fewer.
        make: Makes the batch of the inputs from a first number to before a last one.
        tokens: The number of tokens in all inputs together, without padding; None for inputs that
            are no text.

    Examples:
        >>> import numpy as np, torch
        >>> np.savez("inputs.npz", x=np.zeros((5, 16, 2), dtype=np.float32))
        >>> batches = ar.read_arrays(ar.Transformer(2, 1), "inputs.npz", batch=2)
        >>> batches
        5 inputs in 3 batches
        >>> [len(batch["x"]) for batch in batches]
        [2, 2, 1]

    """

    inputs: int
    size: int
    make: Callable[[int, int], Batch]
    tokens: int | None = None

    def __str__(self) -> str:
        said = f"{counted(self.inputs, 'input')} in {len(self)} batch{'es' * (len(self) > 1)}"
        return said if self.tokens is None else f"{said}, {self.tokens:,} tokens"

    def __len__(self) -> int:
        return -(-self.inputs // self.size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, self.inputs, self.size):
            yield self.make(start, min(start + self.size, self.inputs))


@dataclass(frozen=True, repr=False)
class BatchStream(Shown):
    """Batches of inputs that are read as they come: only the end shows how many there are.

    A file can be gone through again, which reads it again; a generator cannot.

    Attributes:
        size: The number of inputs in a batch; the last may have fewer.
        make: Begins to read, and gives the batches one after another.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=8)).save_pretrained("tiny-bert")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose", "is"]
        >>> _ = Path("tiny-bert/vocab.txt").write_text("\\n".join(words))
        >>> stream = ar.read_texts(ar.load_model("tiny-bert"), (word for word in ("a", "rose")))
        >>> stream
        batches of 8 inputs, read as they come
        >>> [batch["input_ids"].tolist() for batch in stream]
        [[[2, 5, 3], [2, 6, 3]]]

    """

    size: int
    make: Callable[[], Iterator[Batch]]

    def __str__(self) -> str:
        return f"batches of {counted(self.size, 'input')}, read as they come"

    def __iter__(self) -> Iterator[Batch]:
        return self.make()
