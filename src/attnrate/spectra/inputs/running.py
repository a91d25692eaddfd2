"""Reading a file of running text as inputs of a language model: cut into pieces of one length."""

import codecs
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from attnrate.errors import InputError
from attnrate.settings import Count, by, checked
from attnrate.spectra.inputs.batched import Batch, Batches
from attnrate.spectra.inputs.checks import require_file, require_known, require_length, spread
from attnrate.spectra.inputs.files import is_packed, opened, require_prose
from attnrate.spectra.inputs.stacking import filler_of, length_of, require_inputs_of, stacked
from attnrate.spectra.load import LoadedModel

_LONGEST_WORD = 100  # characters
_BYTES_PER_TOKEN = 8  # more than most text needs; where it is not enough, the whole file is read


@checked
def read_text(
    loaded: LoadedModel,
    path: Annotated[str | os.PathLike[str], by(require_file)],
    length: Annotated[int | None, by(require_length)] = None,
    batch: Count = 8,
    limit: Count | None = None,
    short: Literal["drop", "pad"] = "drop",
    tokens: Count | None = None,
) -> Batches:
    """Read a file of running text and cut it into inputs of a language model.

    The text is tokenised by the model's own tokenizer, with the special tokens that the model is
    used to, and cut into pieces of one length. A file whose rows are texts of their own is read by
    `read_table`. The decoder of a model with an encoder reads each piece too, one token later.

    Args:
        loaded: A model opened by `load_model`, for its tokenizer.
        path: A text file in UTF-8, compressed if its name ends in .gz.
        length: The number of tokens in a piece, special ones counted. By default 512, or the
            largest number that the model takes if that is smaller.
        batch: The number of pieces in a batch.
        limit: The largest number of pieces; all by default. They are spread evenly over the file,
            because neighbouring pieces are alike.
        short: What becomes of the last piece, which is usually shorter: "drop" leaves it out unless
            it is the only one, "pad" fills it up under an attention mask.
        tokens: The number of tokens to read, special ones counted: as many pieces as hold them.
            With `limit`, whichever ends first.

    Returns:
        Batches with input_ids and attention_mask, as `profile` takes them.

    Raises:
        InputError: The file has no text or is a table, the model has no fast tokenizer, or the
            pieces are longer than the model's positions.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=8)).save_pretrained("tiny-bert")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose", "is"]
        >>> _ = Path("tiny-bert/vocab.txt").write_text("\\n".join(words))
        >>> _ = Path("notes.txt").write_text("a rose is a rose is a rose")
        >>> loaded = ar.load_model("tiny-bert")
        >>> batches = ar.read_text(loaded, "notes.txt", length=6)
        >>> batches
        2 inputs in 1 batch, 12 tokens
        >>> next(iter(batches))["input_ids"].tolist()
        [[2, 5, 6, 7, 5, 3], [2, 6, 7, 5, 6, 3]]

    """
    file = Path(path)
    require_prose(file)
    length = length_of(length, loaded.longest)
    require_inputs_of(loaded.model, ["input_ids"])
    tokenizer = loaded.tokenizer()
    if not tokenizer.is_fast:
        raise InputError(
            "the model's tokenizer cannot cut text",
            type(tokenizer).__name__,
            "Pass texts to ar.read_texts, or token ids in an .npz file.",
        )
    most = [count for count in (limit, tokens and -(-tokens // length)) if count is not None]
    pieces = _pieces(tokenizer, file, length, min(most, default=None))
    if len(pieces) > 1 and short == "drop" and len(pieces[-1]) < length:
        pieces = pieces[:-1]
    require_known(np.concatenate(pieces), "input_ids", loaded.model)
    filler = filler_of(tokenizer)

    def make(start: int, end: int) -> Batch:
        rows = [{"input_ids": piece} for piece in pieces[start:end]]
        return stacked(loaded.model, rows, filler)

    return Batches(len(pieces), batch, make, sum(map(len, pieces)))


def _pieces(tokenizer: Any, file: Path, length: int, most: int | None) -> list[np.ndarray]:
    """The text as pieces of token ids: all, or `most` of them spread evenly over the file."""
    window = length * _BYTES_PER_TOKEN
    size = file.stat().st_size
    if most is not None and size > most * window and not is_packed(file):
        pieces = [_window(tokenizer, file, start, window, length) for start in spread(size, most)]
        if min(map(len, pieces)) == length:
            return pieces
    pieces = _cut(tokenizer, _text(file), length)
    return [pieces[number] for number in spread(len(pieces), most)]


def _window(tokenizer: Any, file: Path, start: int, window: int, length: int) -> np.ndarray:
    """A piece of tokens from byte `start` on.

    More text than `window` bytes is read where these give fewer than `length` tokens.
    """
    for width in (window, 8 * window):
        piece = _cut(tokenizer, _text(file, start, width), length)[0]
        if len(piece) == length:
            break
    return piece


def _cut(tokenizer: Any, text: str, length: int) -> list[np.ndarray]:
    cut = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True)
    return [np.array(piece, dtype=np.int64) for piece in cut["input_ids"]]


def _text(file: Path, start: int = 0, count: int = -1) -> str:
    """`count` bytes of a file from byte `start` on, as text from the first whole word.

    By default the whole file.
    """
    with opened(file) as unpacked:
        unpacked.seek(start)
        raw = unpacked.read(count)
    skipped = 0
    while start and skipped < min(3, len(raw)) and raw[skipped] & 0b1100_0000 == 0b1000_0000:
        skipped += 1  # the rest of a character that begins before `start`
    try:
        # a character that is cut in two at the end is left out
        text = codecs.getincrementaldecoder("utf-8")().decode(raw[skipped:], final=count < 0)
    except UnicodeDecodeError as problem:
        raise InputError(
            f"the file is no text in UTF-8 (byte {start + skipped + problem.start})",
            str(file),
            "Save it as UTF-8, or pass an .npz file with --inputs.",
        ) from None
    if start:
        # on to the next word, where the script has spaces between words
        gap = re.search(r"\s", text[:_LONGEST_WORD])
        text = text[gap.end() :].lstrip() if gap else text
    if count < 0 and not text.strip():
        raise InputError("the file has no text", str(file), "Put some text into it.")
    return text
