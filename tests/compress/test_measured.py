"""What is measured of a cut as users see it: tables, sentences, settings, and what fails."""

import json
import math
from pathlib import Path

import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import small
from torch import nn

import attnrate as ar
from attnrate.compress import measured, saved
from attnrate.spectra.batches import NotEnoughMemoryError

IDS = tokens(10, 64)
WAYS = ["whole", "cut", "int8 keys", "4-bit keys", "cut + int8 keys", "cut + 4-bit keys"]
BOTH = [
    *(*WAYS[:4], "int8 keys and values", "4-bit keys and values"),
    *(*WAYS[4:], "cut + int8 keys and values", "cut + 4-bit keys and values"),
]


@pytest.fixture(scope="module")
def llama() -> ar.Compressed:
    """A decoder whose keys and values were cut and repaired."""
    model = tiny_llama(torch.float32)
    size = {"size": 8, "values": True, "repair": 4}
    return ar.compress(model, {"input_ids": IDS}, timing=1e-3, metric=vocabulary, **size)


def vocabulary(model: nn.Module) -> float:
    """Some number of a model."""
    made: torch.Tensor = model(IDS[:2]).logits
    return float(made.square().mean())


def perplexity(model: nn.Module) -> float:
    """The perplexity on the two inputs held out, word by word."""
    total = 0.0
    with torch.no_grad():
        for ids in IDS[-2:]:
            chances = model(ids[None]).logits[0].double().softmax(-1)
            total -= sum(math.log(chances[t, ids[t + 1]]) for t in range(63))
    return math.exp(total / (2 * 63))


def test_perplexities_are_those_of_the_models(llama: ar.Compressed) -> None:
    rows = llama.quality.set_index("measure")
    assert [*rows.index] == ["perplexity", "metric"]
    whole = tiny_llama(torch.float32)
    assert rows.before["perplexity"] == pytest.approx(perplexity(whole), rel=1e-4)
    assert rows.after["perplexity"] == pytest.approx(perplexity(llama.model), rel=1e-4)
    assert rows.cut["perplexity"] not in (rows.before["perplexity"], rows.after["perplexity"])
    with torch.no_grad():
        assert rows.before["metric"] == pytest.approx(vocabulary(whole), rel=1e-5)
        assert rows.after["metric"] == pytest.approx(vocabulary(llama.model), rel=1e-5)
    unrepaired = ar.compress(whole, {"input_ids": IDS}, size=8, values=True, timing=0)
    assert rows.cut["perplexity"] == pytest.approx(perplexity(unrepaired.model), rel=1e-4)
    first = llama.report.iloc[0]
    assert first.perplexity == rows.after["perplexity"]
    assert first.perplexity_before == rows.before["perplexity"]
    assert first.token_seconds > 0


def test_rivals_have_their_bytes_and_changes(llama: ar.Compressed) -> None:
    rows = llama.rivals.set_index("way")
    assert [*rows.index] == BOTH
    # 2 layers x 2 key heads; numbers of 4 bytes, or 1 or 1/2 and 4 bytes for 32 tokens
    heads, key = 4, {8: 1 + 4 / 32, 4: 1 / 2 + 4 / 32}
    # values: 1 or 1/2, and 4 bytes for each token and head
    wanted = [heads * 4 * (12 + 12), heads * 4 * (8 + 8)]
    for m in (12, 8):
        wanted += [heads * (m * key[bits] + 4 * m) for bits in (8, 4)]
        wanted += [heads * (m * key[bits] + m * bits / 8 + 4) for bits in (8, 4)]
    assert rows.bytes.tolist() == wanted
    assert rows.bytes.iloc[:2].tolist() == [llama.bytes_before, llama.bytes]
    halves = [heads * 2 * 24, heads * 2 * 16, heads * (12 * key[8] + 24)]
    assert rows.bytes_16.iloc[:3].tolist() == halves
    assert rows.change["whole"] == 0
    assert rows.change["cut"] == pytest.approx(llama.change, rel=1e-3)
    assert 0 < rows.change["int8 keys"] < rows.change["4-bit keys"] < rows.change["cut"]
    assert rows.change["int8 keys"] < rows.change["int8 keys and values"] < rows.change["cut"]
    assert rows.perplexity["cut"] == llama.quality.after[0]


def test_all_of_it_is_said(llama: ar.Compressed) -> None:
    said = str(llama).splitlines()
    rows = llama.rivals
    assert any(line.startswith("Perplexity: ") and "after repair" in line for line in said)
    assert any(line.startswith("The metric: ") for line in said)
    assert sum("times as long" in line for line in said) == 2
    start = next(n for n, line in enumerate(said) if line.startswith("Ways to a smaller cache"))
    table = said[start : start + 11]
    assert [line[: len("cut + 4-bit keys and values")].strip() for line in table[1:]] == BOTH
    assert len({len(line) for line in table}) == 1
    assert f"{rows.bytes[1]:,.0f}" in table[2]
    assert llama.measured.notes == ()


def test_the_folder_keeps_the_figures(
    llama: ar.Compressed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "difference", lambda *_: 0.0)
    folder = llama.save(tmp_path / "thin")
    kept = json.loads((folder / "compressed.json").read_text())["report"]
    assert kept["change"] == llama.change
    assert kept["quality"] == llama.quality.to_dict("records")
    assert [row["way"] for row in kept["rivals"]] == BOTH
    assert [row["work"] for row in kept["times"]] == ["batch", "token"]


def test_a_decoder_without_its_head_has_rivals_and_no_perplexity() -> None:
    model = tiny_llama(torch.float32).model
    done = ar.compress(model, {"input_ids": IDS[:, :20]}, size=8, timing=0)
    assert [*done.rivals.way] == WAYS
    assert done.rivals.perplexity.isna().all()
    assert len(done.quality) == 0
    without, short = done.measured.notes
    assert "without its language head" in without
    assert short == (
        "Of 2 inputs held out, 2 have fewer than 64 tokens. There 8 tokens share a scale of "
        "quantised keys instead of 32, which takes more bytes."
    )


def test_one_short_text_leaves_the_groups_of_the_others() -> None:
    ids, mask = tokens(10, 128), torch.ones(10, 128, dtype=torch.long)
    mask[-1, 6:] = 0
    batch = {"input_ids": ids, "attention_mask": mask}
    done = ar.compress(tiny_llama(torch.float32), batch, size=8, timing=0)
    rows = done.rivals.set_index("way")
    # 128 tokens in groups of 32, and 6 whole
    keys = (128 * 12 * (1 + 4 / 32) + 6 * 12 * 4) / 134
    assert rows.bytes["int8 keys"] == pytest.approx(4 * (keys + 4 * 12))
    first, second = done.measured.notes
    assert first.startswith("Of 2 inputs held out, 1 has fewer than 64 tokens.")
    assert second == "1 of these has fewer than 8 tokens, none of whose keys are quantised."


def test_too_little_memory_for_times_keeps_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise NotEnoughMemoryError("there is not enough memory for a batch of 8 inputs.")

    monkeypatch.setattr(measured, "time_batch", full)
    monkeypatch.setattr(measured, "time_token", full)
    done = ar.compress(tiny_llama(torch.float32), {"input_ids": IDS}, size=8, timing=1e-3)
    assert done.measured.times == ()
    assert [note.split(" could")[0] for note in done.measured.notes] == [
        "Times",
        "The time per token",
    ]


def test_an_encoder_has_embeddings_neighbours_and_no_rivals() -> None:
    one = small("bert")
    inputs = {key: torch.cat([value] * 12) for key, value in one.batch.items()}
    done = ar.compress(one.model, inputs, size=4, timing=1e-3, repair=2)
    assert [*done.quality.measure] == ["embedding_change", "embedding_cosine", "neighbours"]
    change, cosine, near = done.quality.itertuples()
    assert 0 < change.after < 1
    assert 0 < cosine.after < 1
    assert 0 <= near.after <= 1
    assert (change.before, cosine.before, near.before) == (0, 1, 1)
    assert len(done.rivals) == 0
    assert [*done.times.work] == ["batch"]
    none, neighbours = done.measured.notes
    assert none == "Keys in 8 or 4 bits are no rivals here: the model keeps no keys in a cache."
    assert neighbours.startswith("With 9 inputs held out, the nearest 4 neighbours are compared")
    assert "by chance 50.0 % would be the same" in str(done)


def test_inputs_that_no_decoder_of_words_takes_have_no_rivals_and_say_so() -> None:
    inputs = {"input_ids": IDS, "position_ids": torch.arange(64).expand(10, -1)}
    done = ar.compress(tiny_llama(torch.float32), inputs, size=8, timing=0)
    assert len(done.rivals) == 0
    assert "they are the rivals of decoders without an encoder, on inputs of token ids" in str(done)


def test_what_fails_after_the_cut_is_said_and_the_cut_is_kept() -> None:
    model = tiny_llama(torch.float32)
    called: list[nn.Module] = []

    def metric(given: nn.Module) -> float:
        called.append(given)
        if given is not model:
            raise RuntimeError("only the model that I know")
        return 1.0

    done = ar.compress(model, {"input_ids": IDS}, size=8, timing=0, metric=metric)
    assert called == [model, done.model]
    (note,) = done.measured.notes
    assert note.startswith("The metric could not be measured")
    assert "raised RuntimeError for the model after its cut (only the model that I know)" in note
    assert [*done.quality.measure] == ["perplexity"]
