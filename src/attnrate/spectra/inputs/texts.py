"""Reading texts as inputs of a language model: strings, chats, rows of a dataset.

Each text is one input, cut off after a number of tokens; nothing joins two of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any, TypeAlias

import numpy as np
from torch import nn

from attnrate.errors import AttnrateError, InputError, require_callable
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, by, checked
from attnrate.spectra.batches import first_line
from attnrate.spectra.inputs.batched import Batch, Batches, BatchStream
from attnrate.spectra.inputs.checks import require_known, require_length, require_short
from attnrate.spectra.inputs.kinds import (
    Rows,
    Texts,
    Tokenizer,
    is_chat,
    require_not_single,
)
from attnrate.spectra.inputs.rows import cell_of, number_columns, numbers_of, text_column
from attnrate.spectra.inputs.stacking import (
    Numbers,
    filler_of,
    length_of,
    require_inputs_of,
    stacked,
    tokens_of,
)
from attnrate.spectra.load import LoadedModel, ModelLike, longest_of, module_of, require_model

#: Rows with their numbers
Numbered: TypeAlias = Sequence[tuple[int, object]]
_WAY_OUT = (
    "Pass strings, chats (lists of messages with role and content), or rows with a column of "
    "either."
)
_CHARACTERS_PER_TOKEN = 64  # far more than most texts need
_SPARE = 16  # tokens
_ONCE = "Pass at least one; a generator gives its texts only once, so make it anew."


def require_texts(name: str, value: object) -> Iterable[object]:
    """`value` itself, or an InputError when it cannot be texts."""
    require_not_single(name, value)
    if not isinstance(value, Iterable):
        raise InputError(f"{name} cannot be gone through", type(value).__name__, _WAY_OUT)
    return value


def require_tokenizer(name: str, value: object) -> Tokenizer | None:
    """`value` itself, or an InputError when it is neither None nor called like a tokenizer."""
    if value is None:
        return None
    found: Any = require_callable(name, value)
    return found  # type: ignore[no-any-return]


@checked
def read_texts(
    model: Annotated[ModelLike, by(require_model)],
    texts: Annotated[Texts, by(require_texts)],
    column: str | None = None,
    length: Annotated[int | None, by(require_length)] = None,
    batch: Count = 8,
    limit: Count | None = None,
    tokens: Count | None = None,
    tokenizer: Annotated[Tokenizer | None, by(require_tokenizer)] = None,
) -> Batches | BatchStream:
    """Read texts as inputs of a language model: each string, chat or row is one input.

    `profile` calls it by itself for such inputs; call it to name a column or to set limits. A text
    is tokenised by the model's own tokenizer, with the special tokens that the model is used to,
    and cut off after `length` tokens. A chat is first written out by the tokenizer's chat template.
    In a batch, shorter inputs are filled up on the right under an attention mask, with the padding
    token, or the token that ends a text where there is none. The decoder of a model with an encoder
    reads each text too, one token later.

    Args:
        model: A model opened by `load_model`. A torch module will do for rows of token ids, or
            with `tokenizer`.
        texts: Strings, chats, or rows, such as those of a dataset of the package `datasets`,
            streaming too. Rows with columns named like the model's arguments (input_ids) are taken
            as they are, without labels and other columns.
        column: The column of the rows that holds a string or a chat; by default "text", or
            "messages".
        length: The number of tokens after which an input is cut off, special ones counted. By
            default 512, or the largest number that the model takes if that is smaller; rows of
            token ids are cut only on request.
        batch: The number of inputs in a batch.
        limit: The largest number of inputs, taken from the beginning; all by default.
        tokens: The number of tokens after which no further input is read, padding not counted; the
            last input is taken whole. With `limit`, whichever ends first.
        tokenizer: A tokenizer of transformers, for a model that comes without one.

    Returns:
        `Batches` where the texts have a length, `limit` or `tokens`: they are then read at once.
        Otherwise a `BatchStream`, which reads them as they come.

    Raises:
        InputError: A text is empty or no string, there is no such column, or the model has no
            tokenizer, or its tokenizer no chat template.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=8)).save_pretrained("tiny-bert")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose", "is"]
        >>> _ = Path("tiny-bert/vocab.txt").write_text("\\n".join(words))
        >>> loaded = ar.load_model("tiny-bert")
        >>> batches = ar.read_texts(loaded, ["a rose", "a rose is a rose"])
        >>> batches
        2 inputs in 1 batch, 11 tokens
        >>> next(iter(batches))["input_ids"].tolist()
        [[2, 5, 6, 3, 0, 0, 0], [2, 5, 6, 7, 5, 6, 3]]
        >>> rows = [{"title": "a", "body": "a rose is"}, {"title": "is", "body": "a rose"}]
        >>> ar.read_texts(loaded, rows, column="body", limit=1)
        1 input in 1 batch, 5 tokens

    """
    plan = _Planner(model, column, length, tokenizer)
    if isinstance(texts, Rows) and texts.column_names is not None:
        names = plan.columns(texts.column_names)
        texts = texts.select_columns(names)
    if limit is None and tokens is None and not isinstance(texts, Sized):
        return BatchStream(batch, lambda: _stream(plan, texts, batch))
    with Progress("reading texts", after=QUIET) as line:
        read: list[Numbers] = []
        given: int | None = 0
        reader, rows = plan.begun(texts)
        for one in _limited(reader, rows, batch, limit, tokens):
            read.append(one)
            count = tokens_of(one)
            given = None if given is None or count is None else given + count
            line.at(f"reading texts: {len(read):,}")

    def make(start: int, end: int) -> Batch:
        return stacked(reader.model, read[start:end], reader.filler)

    return Batches(len(read), batch, make, given)


def _stream(plan: "_Planner", texts: Iterable[object], batch: int) -> Iterator[Batch]:
    """The batches of texts whose number is not known."""
    reader, rows = plan.begun(texts)
    found = _limited(reader, rows, batch, None, None)
    while some := list(islice(found, batch)):
        yield stacked(reader.model, some, reader.filler)


def _limited(
    reader: "_Reader", rows: Iterable[object], batch: int, limit: int | None, tokens: int | None
) -> Iterator[Numbers]:
    """The numbers of the inputs, up to a number of inputs or of tokens."""
    numbered = enumerate(islice(rows, limit))
    given = 0
    while some := list(islice(numbered, batch)):
        for one in reader.read(some):
            yield one
            if tokens is None:
                continue
            count = tokens_of(one)
            if count is None:
                raise InputError(
                    "tokens counts token ids, which these rows do not have",
                    [*one],
                    "Pass limit=, the largest number of inputs, instead.",
                )
            given += count
            if given >= tokens:
                return


def _unbroken(texts: Iterable[object]) -> Iterator[object]:
    """The texts one after another; an InputError says where their source broke off."""
    rest, done = iter(texts), 0
    while True:
        try:
            text = next(rest)
        except StopIteration:
            return
        except (AttnrateError, MemoryError):
            raise
        except Exception as problem:
            said = f"{type(problem).__name__}: {first_line(problem)}"
            way_out = f" ar.read_texts with limit={done} takes what came before." if done else ""
            raise InputError(
                f"the texts broke off after {{value}} of them ({said})",
                done,
                f"Repair their source.{way_out}",
            ) from problem
        yield text
        done += 1


@dataclass(frozen=True)
class _Planner:
    """What the user asked for; the first row, or the names of columns, decide how rows are read."""

    given: ModelLike
    column: str | None
    length: int | None
    tokenizer: Tokenizer | None

    @property
    def model(self) -> nn.Module:
        return module_of(self.given)

    def columns(self, names: Sequence[str]) -> list[str]:
        """Which of the columns are read; an InputError where none can be."""
        column = text_column(names, self.column, self.model)
        return number_columns(names, self.model) if column is None else [column]

    def begun(self, texts: Iterable[object]) -> tuple["_Reader", Iterator[object]]:
        """How rows are read, and the rows from the first on."""
        rows = _unbroken(texts)
        nothing = object()
        first = next(rows, nothing)
        if first is nothing:
            raise InputError("there are no texts", 0, _ONCE)
        return self._reader(first), chain([first], rows)

    def _reader(self, first: object) -> "_Reader":
        if not isinstance(first, Mapping):
            if self.column is not None:
                what = "the texts have no columns, so that {value} is none of them"
                raise InputError(what, self.column, "Leave column out.")
            return self._of_texts(None)
        names = [str(name) for name in first]
        column = text_column(names, self.column, self.model)
        if column is not None:
            return self._of_texts(column)
        longest = longest_of(self.model)
        if self.length is not None:
            require_short("length", self.length, longest)
        chosen = number_columns(names, self.model)
        return _OfNumbers(self.model, filler_of(self.tokenizer), chosen, self.length, longest)

    def _of_texts(self, column: str | None) -> "_Reader":
        tokenizer = self.tokenizer
        if tokenizer is None and not isinstance(self.given, LoadedModel):
            raise InputError(
                "texts need the model's own tokenizer, which a torch module does not bring",
                type(self.model).__name__,
                "Open the model by ar.load_model; or pass ar.read_texts(model, texts, "
                "tokenizer=...); or pass batches of token ids.",
            )
        require_inputs_of(self.model, ["input_ids"])
        longest = longest_of(self.model)
        if isinstance(self.given, LoadedModel):
            longest = self.given.longest
            tokenizer = tokenizer or self.given.tokenizer()
        assert tokenizer is not None
        length = length_of(self.length, longest)
        return _OfTexts(self.model, filler_of(tokenizer), column, length, tokenizer)


@dataclass(frozen=True)
class _OfNumbers:
    """Reads rows whose columns hold numbers."""

    model: nn.Module
    filler: int
    names: Sequence[str]
    length: int | None
    longest: int | None

    def read(self, rows: Numbered) -> list[Numbers]:
        """The numbers of each row."""
        limits = self.model, self.length, self.longest
        return [numbers_of(row, self.names, number, *limits) for number, row in rows]


@dataclass(frozen=True)
class _OfTexts:
    """Reads rows that are strings or chats, or hold them in a column."""

    model: nn.Module
    filler: int
    column: str | None
    length: int
    tokenizer: Tokenizer

    def read(self, rows: Numbered) -> list[Numbers]:
        """The token ids of each row."""
        texts = [self._text(row, number) for number, row in rows]
        pieces: dict[int, np.ndarray] = {}
        for of_chat in (False, True):
            some = {at: text for at, (text, chat) in enumerate(texts) if chat == of_chat}
            # a chat template writes the special tokens itself
            found = self._tokens([*some.values()], special=not of_chat) if some else []
            pieces |= dict(zip(some, found, strict=True))
        for at, (number, _) in enumerate(rows):
            if not pieces[at].size:
                what = f"{self._place(number)} has no token that the model knows"
                raise InputError(what, texts[at][0], "Leave it out.")
        require_known(np.concatenate([*pieces.values()]), "input_ids", self.model)
        return [{"input_ids": pieces[at]} for at in range(len(rows))]

    def _tokens(self, texts: list[str], special: bool) -> list[np.ndarray]:
        """The token ids of texts, with or without special tokens."""
        try:
            begun = [self._beginning(text, special) for text in texts]
            found = self._called(begun, special, self.length)
            return [np.asarray(ids, dtype=np.int32) for ids in found]
        except Exception as problem:  # of any kind: the tokenizer may be the user's own
            said = f"{type(problem).__name__}: {first_line(problem)}"
            raise InputError(
                f"the tokenizer cannot read the texts ({said})",
                type(self.tokenizer).__name__,
                "Pass a tokenizer of transformers, or token ids.",
            ) from problem

    def _called(self, texts: list[str], special: bool, most: int) -> Sequence[Sequence[int]]:
        options = {"add_special_tokens": special, "truncation": True}
        return self.tokenizer(texts, **options, max_length=most)["input_ids"]

    def _beginning(self, text: str, special: bool) -> str:
        """As much of a long text as surely gives the tokens that are kept of it.

        A book is not tokenised for the sake of its first page. The beginning is enough if it gives
        more tokens than are kept, so that none of these is near its end.
        """
        beginning = text[: self.length * _CHARACTERS_PER_TOKEN]
        kept_left = getattr(self.tokenizer, "truncation_side", "right") == "right"
        if 2 * len(beginning) >= len(text) or not kept_left:
            return text
        more = self.length + _SPARE
        return beginning if len(self._called([beginning], special, more)[0]) == more else text

    def _place(self, number: int) -> str:
        what = "text" if self.column is None else f"{self.column} of row"
        return f"{what} {number} (the first is 0)"

    def _text(self, row: object, number: int) -> tuple[str, bool]:
        """The text of a row, and whether it was written by the chat template."""
        cell = row if self.column is None else cell_of(row, self.column, number)
        if isinstance(cell, list | tuple) and all(isinstance(one, Mapping) for one in cell):
            return self._written(cell, number), True
        if not isinstance(cell, str):
            shown = cell if cell is None or isinstance(cell, int | float) else type(cell).__name__
            way_out = "Leave such rows out."
            if isinstance(cell, list | tuple):
                way_out = "One row is one input; a DataLoader has put several rows into one."
            raise InputError(f"{self._place(number)} is no string", shown, way_out)
        if not cell.strip():
            raise InputError(f"{self._place(number)} is empty", cell, "Leave such texts out.")
        return cell, False

    def _written(self, chat: Sequence[Mapping[str, object]], number: int) -> str:
        """A chat as the tokenizer's template writes it."""
        where = self._place(number)
        if not is_chat(chat):
            way_out = 'Write each as {"role": "user", "content": "..."}.'
            raise InputError(f"{where} has messages without a role, or none", chat, way_out)
        tokenizer: Any = self.tokenizer
        if getattr(tokenizer, "chat_template", None) is None:
            raise InputError(
                "chats need a chat template, which the tokenizer does not have",
                type(tokenizer).__name__,
                "Pass the texts of the messages as strings.",
            )
        try:
            text = tokenizer.apply_chat_template([*chat], tokenize=False)
        except Exception as problem:  # of jinja2, or whatever the template runs into
            said = f"{type(problem).__name__}: {first_line(problem)}"
            what = f"the tokenizer's chat template cannot write {where} ({said})"
            raise InputError(what, chat, "Change the chat as it says.") from problem
        if not str(text).strip():
            raise InputError(f"{where} is empty", chat, "Leave such chats out.")
        return str(text)


#: Makes numbers of rows
_Reader: TypeAlias = _OfNumbers | _OfTexts
