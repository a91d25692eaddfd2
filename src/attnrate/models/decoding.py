"""What every model that translates offers, and how it translates: greedily or with a beam."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import torch
from jaxtyping import Float, Int
from pydantic import ConfigDict, SkipValidation, with_config
from torch import nn
from typing_extensions import TypedDict

from attnrate.errors import InputError, require_whole
from attnrate.models.base import Counted
from attnrate.models.presets import Share
from attnrate.settings import Count, Natural, Number, by, checked

Tensor = torch.Tensor


@dataclass(frozen=True)
class Specials:
    """The numbers of the tokens that are no words."""

    pad: int = 0
    begin: int = 1
    end: int = 2


@dataclass(frozen=True)
class TextSettings:
    """The sizes of a model that translates.

    Attributes:
        vocabulary: The size of the vocabulary.
        width: The number of features of a token.
        layers: The number of layers for the source and for the target each.
        dropout: The share of features that training leaves out, from 0 to below 1.
        moved: Table 1's altered relation: this many tokens at the beginning of a source come last,
            before anything reads them. The target's order stays, because it is read causally.
        longest: The largest number of tokens of a sentence.
        pad: The number of the token that fills up sentences.
        begin: The number of the token that begins a target.
        end: The number of the token that ends a sentence.

    """

    vocabulary: Count = 8000
    width: Count = 256
    layers: Count = 3
    dropout: Share = 0.1
    moved: Natural = 0
    longest: Count = 256
    pad: Natural = 0
    begin: Natural = 1
    end: Natural = 2

    def __post_init__(self) -> None:
        special = {"pad": self.pad, "begin": self.begin, "end": self.end}
        for name, number in special.items():
            require_whole(name, number, 0, self.vocabulary - 1)
        if len({*special.values()}) < 3:
            what = "pad, begin and end must be three token numbers"
            raise InputError(what, [*special.values()])


@with_config(ConfigDict(extra="allow"))
class TextChanges(TypedDict, total=False):
    """Settings of a model that translates by name; `TextSettings` says what each means."""

    vocabulary: SkipValidation[int]
    width: SkipValidation[int]
    layers: SkipValidation[int]
    dropout: SkipValidation[float]
    moved: SkipValidation[int]
    longest: SkipValidation[int]
    pad: SkipValidation[int]
    begin: SkipValidation[int]
    end: SkipValidation[int]


#: What a decoder keeps from step to step: tensors, and tuples of them
DecoderState: TypeAlias = tuple[Tensor | tuple[Tensor | tuple[Tensor, ...], ...], ...]


class Translator(Counted):
    """A map of a source and the beginning of its translation to the next token.

    Sources end with `end`, targets begin with `begin`; padding comes after both. A translator of
    your own defines `states`, `read_out`, `begin` and `step`; `translate` then works with it.

    Attributes:
        specials: The numbers of the tokens `pad`, `begin` and `end`.
        longest: The largest number of tokens of a sentence.

    Examples:
        >>> isinstance(ar.Seq2Seq(vocabulary=12, width=8, layers=1), ar.Translator)
        True

    """

    specials: Specials
    longest: int

    @abstractmethod
    def states(
        self, source: Int[Tensor, "batch S"], target: Int[Tensor, "batch T"]
    ) -> Float[Tensor, "batch T width"]:
        """Compute what is known at each place of the target from the source and the target so far.

        Args:
            source: Token numbers of the sources.
            target: Token numbers of the targets, from their beginning.

        Returns:
            The states, which `read_out` turns into logits.

        """

    @abstractmethod
    def read_out(self, states: Float[Tensor, "*some width"]) -> Float[Tensor, "*some vocabulary"]:
        """Compute the logits of the next token.

        Args:
            states: What `states` or `step` gave.

        Returns:
            One logit for each token of the vocabulary.

        """

    @abstractmethod
    def begin(self, source: Int[Tensor, "batch S"]) -> DecoderState:
        """Prepare decoding.

        Args:
            source: Token numbers of the sources.

        Returns:
            What the first `step` needs: a tuple of tensors and of tuples of tensors, each with one
            row for each source.

        """

    @abstractmethod
    def step(
        self, state: DecoderState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch width"], DecoderState]:
        """Go one token on.

        Args:
            state: What `begin` or the step before gave.
            tokens: The number of the next token of each sentence.

        Returns:
            The states after these tokens, and what the next step needs.

        """

    def forward(
        self, source: Int[Tensor, "batch S"], target: Int[Tensor, "batch T"]
    ) -> Float[Tensor, "batch T vocabulary"]:
        """Compute the logits of the token after each one of the target, all at once."""
        return self.read_out(self.states(source, target))


class WordTranslator(Translator):
    """A Translator by its settings, with one matrix for both embeddings and the read-out."""

    def __init__(self, settings: TextSettings) -> None:
        super().__init__()
        self.settings = settings
        self.specials = Specials(settings.pad, settings.begin, settings.end)
        self.longest = settings.longest
        self.embed = nn.Embedding(settings.vocabulary, settings.width)
        nn.init.normal_(self.embed.weight, 0.0, settings.width**-0.5)
        self.drop = nn.Dropout(settings.dropout)

    def read_out(self, states: Float[Tensor, "*some width"]) -> Float[Tensor, "*some vocabulary"]:
        """The logits of the next token, by the embedding's own matrix."""
        return nn.functional.linear(states, self.embed.weight)

    def embedded(self, tokens: Int[Tensor, "batch S"]) -> Float[Tensor, "batch S width"]:
        """The tokens as vectors with entries of about one."""
        result: Tensor = self.embed(tokens) * self.settings.width**0.5
        return result

    def in_order(
        self, source: Int[Tensor, "batch S"]
    ) -> tuple[Int[Tensor, "batch S"], Int[Tensor, " batch"]]:
        """The source in the order in which the model reads it, and each row's last place."""
        last, moved = last_places(source, self.settings), self.settings.moved
        return moved_to_end(source, last, moved) if moved else source, last


def last_places(tokens: Int[Tensor, "batch S"], settings: TextSettings) -> Int[Tensor, " batch"]:
    """The place of each row's last token; InputError for rows that the model cannot read."""
    most, vocabulary = settings.longest, settings.vocabulary
    if tokens.shape[1] > most:
        raise InputError(
            f"sentences may have {most} tokens at most", tokens.shape[1], "Cut them, or leave out."
        )
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocabulary:
        raise InputError(
            f"token numbers must lie in 0 ... {vocabulary - 1}", low if low < 0 else high
        )
    kept = tokens != settings.pad
    last = kept.sum(1) - 1
    # padding within a sentence would be read as its end
    if not bool(kept.any(1).all()) or bool((kept[:, 1:] & ~kept[:, :-1]).any()):
        raise InputError(
            "every sentence must have a token, and padding only after its last one",
            tokens.tolist(),
            f"The number of padding is {settings.pad}.",
        )
    return last


def moved_to_end(
    tokens: Int[Tensor, "batch S"], last: Int[Tensor, " batch"], count: int
) -> Int[Tensor, "batch S"]:
    """Put sentences of any length into Table 1's order: their first `count` tokens come last.

    A sentence of `count` tokens or fewer stays as it is.
    """
    places = torch.arange(tokens.shape[1], device=tokens.device)[None]
    length = last[:, None] + 1
    turned = torch.where(places < length, (places + count) % length, places)
    return tokens.gather(1, torch.where(length > count, turned, places))


def _require_translator(name: str, model: object) -> Translator:
    if not isinstance(model, Translator):
        raise InputError(f"the {name} does not translate", type(model).__name__)
    return model


@checked
@torch.no_grad()
def translate(
    model: Annotated[Translator, by(_require_translator)],
    source: Int[Tensor, "batch S"],
    beams: Count = 1,
    longest: Count | None = None,
    penalty: Number = 0.6,
) -> list[list[int]]:
    """Translate sources, greedily or by beam search.

    The `beams` best beginnings go on at each step. A translation y is judged by
    log p(y) / ((5 + |y|) / 6)^penalty (Wu et al. 2016), and a sentence is done with `beams`
    translations.

    Args:
        model: A model that translates, such as `Seq2Seq`.
        source: Token numbers of the sources, each with its end, then padding.
        beams: The number of beginnings that are kept; 1 is greedy. Default: 1.
        longest: The largest number of tokens of a translation. Default: 10 more than twice the
            source. No translation is longer than the model can read.
        penalty: The exponent of the length; a larger one favours longer translations. Default: 0.6.

    Returns:
        The token numbers of the best translation of each source, without begin and end.

    Examples:
        >>> import torch
        >>> model = ar.Seq2Seq(vocabulary=12, width=16, layers=1, m_h=4, m_ff=32)
        >>> len(ar.translate(model, torch.tensor([[5, 6, 2], [7, 2, 0]]), beams=2))
        2

    """
    most = 2 * source.shape[1] + 10 if longest is None else longest
    most = min(most, model.longest)
    mode = model.training
    model.eval()
    try:
        return _searched(model, source, beams, most, penalty)
    finally:
        model.train(mode)


def _searched(
    model: Translator, source: Int[Tensor, "batch S"], beams: int, most: int, penalty: float
) -> list[list[int]]:
    count, special = len(source), model.specials
    rows = torch.arange(count, device=source.device).repeat_interleave(beams)
    state = _picked(model.begin(source), rows)
    # all beams of a sentence begin alike, so only one of them goes on at first
    scores = torch.full((count, beams), -torch.inf, device=source.device)
    scores[:, 0] = 0.0
    tokens = torch.full((count * beams, 1), special.begin, device=source.device)
    best: list[tuple[float, list[int]]] = [(-torch.inf, []) for _ in range(count)]
    found = [0] * count
    for length in range(1, most + 1):
        hidden, state = model.step(state, tokens[:, -1])
        logits = model.read_out(hidden).float()
        logits[:, [special.pad, special.begin]] = -torch.inf
        chances = logits.log_softmax(-1).view(count, beams, -1)
        vocabulary = chances.shape[-1]
        total = (scores[..., None] + chances).flatten(1)
        # at most `beams` of them end, so that as many are left to go on
        top, place = total.topk(min(2 * beams, total.shape[1]))
        word = place % vocabulary
        row = place // vocabulary + beams * torch.arange(count, device=source.device)[:, None]
        ends = word == special.end
        divisor = ((5 + length) / 6) ** penalty
        for sentence, rank in ends[:, :beams].nonzero().tolist():
            score = float(top[sentence, rank]) / divisor
            if found[sentence] < beams and score > -torch.inf:
                found[sentence] += 1
                if score > best[sentence][0]:
                    best[sentence] = score, tokens[row[sentence, rank], 1:].tolist()
        if min(found) >= beams:
            break
        on = ends.long().argsort(dim=1, stable=True)[:, :beams]
        scores = top.gather(1, on).masked_fill(ends.gather(1, on), -torch.inf)
        kept = row.gather(1, on).flatten()
        tokens = torch.cat([tokens[kept], word.gather(1, on).view(-1, 1)], 1)
        # a single beam goes on as itself
        state = state if beams == 1 else _picked(state, kept)
    first = tokens.view(count, beams, -1)[:, 0, 1:].tolist()
    return [words if n else begun for n, (_, words), begun in zip(found, best, first, strict=True)]


def _picked(state: Any, rows: Int[Tensor, " rows"]) -> Any:
    if isinstance(state, Tensor):
        return state[rows]
    return tuple(_picked(part, rows) for part in state)
