"""How far a compression is: each part is named, and its share grows from 0 to 1, never falling."""

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import groupby

import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import Small, small

import attnrate as ar
from attnrate.compress.how_far import looking, one_by_one, within
from attnrate.compress.rotary_run import cut_rotary
from attnrate.compress.run import cut
from attnrate.progress import Progress

Seen = list[tuple[str, float | None]]
LLAMA = [f"model.layers.{i}.self_attn" for i in range(2)]


class Shown:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def at(self, text: str, share: float | None) -> None:
        self.seen.append((text, share))

    @property
    def parts(self) -> dict[str, list[float | None]]:
        """The shares of each part of the work, by what stands before the number, in order."""
        found: dict[str, list[float | None]] = {}
        names = [(text.partition(": ")[0], share) for text, share in self.seen]
        for name, own in groupby(names, lambda each: each[0]):
            found.setdefault(name, []).extend(share for _, share in own)
        return found


def four_batches() -> tuple[Small, list[dict[str, torch.Tensor]]]:
    given = small("bert")
    return given, [given.batch] * 4


def rises(shares: list[float | None]) -> bool:
    """Whether shares begin with 0, end with 1, and never fall."""
    known = [share for share in shares if share is not None]
    return known == sorted(known) and (known[0], known[-1]) == (0, 1) and known == shares


def test_things_are_counted_as_they_are_begun_and_end_with_the_share_one() -> None:
    shown = Shown()
    assert [*one_by_one("abc", "letter", shown.at)] == ["a", "b", "c"]
    said = ["letter 1 of 3", "letter 2 of 3", "letter 3 of 3", "letter 3 of 3"]
    assert [text for text, _ in shown.seen] == said
    assert [share for _, share in shown.seen] == [0, 1 / 3, 2 / 3, 1]
    assert [*one_by_one("", "letter", shown.at)] == []
    assert len(shown.seen) == 4


def test_a_piece_ends_exactly_where_the_next_one_begins() -> None:
    for count in (3, 7, 12, 49):
        shown = Shown()
        for number in range(count):
            piece = within(shown.at, "", number / count, (number + 1) / count)
            for _ in one_by_one(range(3), "step", piece):
                looking(shown.at, number / count, False)("look", 0.3)
        shares = [share for text, share in shown.seen if "look" not in text]
        assert rises(shares)
        looks = {share for text, share in shown.seen if "look" in text}
        assert looks == {number / count for number in range(count)}


def test_a_first_look_has_a_share_of_its_own_and_what_is_unknown_stays_so() -> None:
    shown = Shown()
    looking(shown.at, 0.5, True)("look", 0.25)
    within(shown.at, "repair: ", 0.5, 1.0)("thinking", None)
    assert shown.seen == [("repair, look", 0.25), ("repair: thinking", None)]


@pytest.mark.parametrize("at_once", [8, 1])
def test_a_cut_of_content_heads_shows_each_of_its_parts(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[cut.__module__], "_AT_ONCE", at_once)
    given, inputs = four_batches()
    shown = Shown()
    cut(given.model, inputs, 3, steps=6, together=5, at=shown.at)
    looks = ["repair, looking at inputs"] if at_once == 1 else []
    parts = ["looking at inputs", "closed forms", "comparing closed forms"]
    parts += ["comparing the best two", *looks, "repair"]
    assert [*shown.parts] == [*parts, "all layers together"]
    assert all(rises(own) for name, own in shown.parts.items() if name not in looks)
    texts = [text for text, _ in shown.seen]
    assert "looking at inputs: batch 4 of 4" in texts
    assert "closed forms: layer 2 of 2" in texts
    assert ("repair: layer 2 of 2, step 4 of 6", 0.75) in shown.seen
    assert ("all layers together: step 2 of 5", 0.2) in shown.seen
    if looks:
        # the second look is part of the repair, of which half is done
        assert shown.parts[looks[0]] == [0, 0.25, 0.5, 0.75, 1, 0.5, 0.5, 0.5, 0.5, 0.5]


def test_layers_that_stay_whole_have_no_share_of_the_repair() -> None:
    given, inputs = four_batches()
    one, two = (f"encoder.layer.{i}.attention.self" for i in range(2))
    shown = Shown()
    cut(given.model, inputs, {one: 8, two: 3}, steps=4, at=shown.at)
    repair = [each for each in shown.seen if each[0].startswith("repair: ")]
    assert repair[0] == ("repair: layer 2 of 2, step 1 of 4", 0)
    assert repair[2] == ("repair: layer 2 of 2, step 3 of 4", 0.5)


@pytest.mark.parametrize(
    ("shared", "choosing"),
    [("head", "choosing pairs"), ("model", "choosing pairs of all layers")],
)
def test_a_cut_of_rotary_heads_shows_each_of_its_parts(shared: str, choosing: str) -> None:
    shown = Shown()
    inputs = [{"input_ids": tokens(3, 14, seed=seed)} for seed in range(3)]
    sizes = dict.fromkeys(LLAMA, 8)
    cut_rotary(tiny_llama(torch.float32), inputs, sizes, {}, shared, 4, at=shown.at)
    parts = ["looking at inputs", choosing, "repair, looking at inputs", "repair"]
    assert [*shown.parts] == parts
    assert all(rises(own) for own in shown.parts.values())
    assert ("repair: layer 2 of 2, step 3 of 4", 0.75) in shown.seen


def test_a_terminal_shows_what_is_done_with_a_bar_and_nothing_if_that_is_not_wanted(
    on_a_terminal: Callable[[Callable[[], object]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("attnrate.compress.compress"), "QUIET", 0.0)
    at = Progress.at

    def drawn(self: Progress, text: str, share: float | None = None) -> None:
        at(self, text, share)
        if "step 2 " in text or "measuring" in text:
            self.mark()

    monkeypatch.setattr(Progress, "at", drawn)
    given, inputs = four_batches()
    asked = {"size": 3, "repair": 4, "together": 3, "timing": 0.01}
    written = on_a_terminal(lambda: ar.compress(given.model, inputs, **asked))
    for said in ("repair: layer 1 of 2, step 2 of 4", "all layers together: step 2 of 3"):
        assert f"{said} · time left not known yet" in written
    assert "━" in written
    assert "measuring embeddings" in written
    assert "measuring times" in written
    quiet = {**asked, "progress": False}
    assert on_a_terminal(lambda: ar.compress(given.model, inputs, **quiet)) == ""


def test_plain_lines_are_written_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"input_ids": tokens(10, 20)}
    asked = {"size": 8, "repair": 2, "timing": 0.01}
    ar.compress(tiny_llama(torch.float32), inputs, **asked)
    assert capsys.readouterr().err == ""
    ar.compress(tiny_llama(torch.float32), inputs, **asked, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compress: looking at the layers"
    assert lines[-2:] == [
        "compress: measuring the smaller model",
        "compress: measuring times",
    ]
