"""A byte-pair vocabulary that English and German share, learned from the training pairs alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import cache_folder, require_installed
from attnrate.data.translation import Translation
from attnrate.errors import InputError, require_whole

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, BEGIN, END = 0, 1, 2
_SPECIAL = ["<pad>", "<begin>", "<end>"]
# the bytes and the special tokens
LEAST_SIZE = 256 + len(_SPECIAL)
MOST_SIZE = 100_000


@dataclass(frozen=True)
class Vocabulary:
    """Turns text into token ids and back without loss: unknown characters are spelt in bytes.

    Attributes:
        size: The number of tokens.
        file: The file that it was read from.
        tokenizer: The tokenizer of the package tokenizers.

    """

    size: int
    file: Path
    tokenizer: "Tokenizer"

    def encode(self, text: object) -> list[int]:
        """The token ids of a text; an InputError for anything else."""
        if not isinstance(text, str):
            raise InputError("only a text can be encoded", text, "Pass a str.")
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of many texts at once, which is faster than one text after another."""
        found = self.tokenizer.encode_batch([*texts], add_special_tokens=False)
        return [one.ids for one in found]

    def decode(self, ids: object) -> str:
        """The text of token ids; PAD, BEGIN and END give no text."""
        try:
            numbers = [int(number) for number in ids]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            numbers = [-1]
        if any(not 0 <= number < self.size for number in numbers):
            raise InputError(
                "only a list of token ids can be decoded", ids, f"Ids are 0 to {self.size - 1}."
            )
        text: str = self.tokenizer.decode(numbers, skip_special_tokens=True)
        return text


def vocabulary(data: Translation, size: object = 8000) -> Vocabulary:
    """The vocabulary of `size` tokens, learned from the training pairs and kept in the cache."""
    wanted = require_whole("size", size, LEAST_SIZE, MOST_SIZE)
    require_installed("tokenizers", "make a vocabulary", f"{wanted} tokens")
    digest = hashlib.sha256(f"1 {data.manifest['sha256']['train']} {wanted}".encode()).hexdigest()
    place = cache_folder() / "translation" / f"bpe-{wanted}-{digest[:12]}.json"
    tokenizer = opened_or_made(
        place,
        _opened,
        lambda made: _trained(data, wanted).save(str(made)),
        "a vocabulary",
        10_000_000,
    )
    # "<pad>" in a text stays five characters
    tokenizer.encode_special_tokens = True
    return Vocabulary(tokenizer.get_vocab_size(), place, tokenizer)


def _opened(place: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(place))
    except Exception as problem:  # the library raises no other
        raise ValueError(f"no vocabulary ({problem})") from None


def _trained(data: Translation, size: int) -> "Tokenizer":
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((side for pair in data.train for side in pair), trainer)
    return tokenizer
