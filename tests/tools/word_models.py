"""Tiny models with a tokenizer of whole words: the word w7 is the token 5 + 7."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from attnrate.spectra.load import LoadedModel, load_model

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{number}" for number in range(30)]
VOCABULARY = len(SPECIAL) + len(WORDS)
#: Writes "w0 [content] w1 [content]" between the tokens that begin and end a text
TEMPLATE = (
    "[CLS] {% for one in messages %}w{{ loop.index0 }} {{ one['content'] }} {% endfor %}[SEP]"
)
LONGEST = 16


def save_tokenizer(folder: Path, template: str | None = None, **names: str | None) -> Any:
    """Write a tokenizer into a model's folder; `names` change its special tokens."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=False)
    ) | dict(names)
    given = {name: word for name, word in named.items() if word is not None}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **given)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return tokenizer


def word_bert(folder: Path, template: str | None = None, **names: str | None) -> LoadedModel:
    """A BERT with one layer for up to 16 tokens, with its tokenizer."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=LONGEST,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    save_tokenizer(folder, template, **names)
    return load_model(folder)


def words_of(batches: Iterable[Mapping[str, torch.Tensor]]) -> list[str]:
    """The words that the batches hold, in order, without special tokens."""
    ids = [batch["input_ids"][batch["attention_mask"] > 0] for batch in batches]
    return [WORDS[token - 5] for token in torch.cat(ids).tolist() if token >= 5]
