"""Folders of compressed models: opened again they are the same, and what is wrong is not kept."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import small
from thin_families import given, made, text, writes
from tokenizers import Tokenizer, models
from warm_commands import program

import attnrate as ar
from attnrate.compress import saved
from attnrate.compress.result import Compressed

LLAMA = {"input_ids": tokens(10, 20)}


def compressed(name: str, **more: object) -> Compressed:
    """A small model cut to heads of size 4."""
    one = small(name)
    inputs = {key: torch.cat([value] * 4) for key, value in one.batch.items()}
    return ar.compress(one.model, inputs, size=4, values=True, **more)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open folders again in this process, which needs no seconds."""

    def difference(model, folder, batch):
        from attnrate.compress.opened import open_folder
        from attnrate.compress.trial import change, outputs

        return change(outputs(model, [batch]), outputs(open_folder(folder), [batch]))

    monkeypatch.setattr(saved, "difference", difference)


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[n], theirs[n]) for n in mine)


def test_a_folder_is_opened_in_a_fresh_process_and_then_by_load_model(tmp_path: Path) -> None:
    done = compressed("bert")
    folder = done.save(tmp_path / "thin")
    opened = ar.load_model(folder)
    assert same(opened.model, done.model)
    assert opened.name == "thin"
    assert {path.name for path in folder.iterdir()} == {
        *("compressed.json", "compressed.safetensors", "config.json"),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["thin"]
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    with pytest.raises(ar.InputError, match="must be new"):
        done.save(folder)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", ["mpnet", "vit", "own-vit", "own-seq2seq"])
def test_every_family_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    done = compressed(name)
    opened = ar.load_model(done.save(tmp_path / "thin")).model
    assert same(opened, done.model)
    assert type(opened) is type(done.model)
    assert torch.equal(small(name).output(opened), small(name).output(done.model))


@pytest.mark.usefixtures("at_once")
def test_a_language_model_comes_back_with_generate_its_pairs_and_its_tied_weights(
    tmp_path: Path,
) -> None:
    model = tiny_llama(torch.float32, tie_word_embeddings=True)
    done = ar.compress(model, LLAMA, sizes=[8, 6], values=True)
    opened = ar.load_model(done.save(tmp_path / "thin")).model
    options = {"max_new_tokens": 6, "do_sample": False}
    assert torch.equal(
        *(each.generate(LLAMA["input_ids"], **options) for each in (opened, done.model))
    )
    assert opened.lm_head.weight is opened.model.embed_tokens.weight
    assert done.parameters == sum(x.numel() for x in opened.parameters())
    assert torch.equal(
        opened.model.layers[1].self_attn.pairs, done.model.model.layers[1].self_attn.pairs
    )


def of_family(name: str) -> Compressed:
    """A small model of a family cut to heads of size 4."""
    return ar.compress(made(name), given(name, 4), size=4, values=True)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "gpt2-untied", "roberta", "distilbert", "bart", "m2m_100", "marian"),
        *("whisper", "mt5"),
    ],
)
def test_families_of_transformers_come_back_with_tied_weights_and_write_the_same(
    name: str, tmp_path: Path
) -> None:
    done = of_family(name)
    opened = ar.load_model(done.save(tmp_path / "thin"), dtype="auto").model
    assert same(opened, done.model)
    assert done.parameters == sum(x.numel() for x in opened.parameters())
    if not writes(opened):
        return
    ours, theirs = (each.get_input_embeddings().weight for each in (opened, done.model))
    tied = [each.get_output_embeddings().weight for each in (opened, done.model)]
    assert (ours is tied[0]) == (theirs is tied[1]) == (name != "gpt2-untied")
    assert torch.equal(text(opened, given(name)), text(done.model, given(name)))


@pytest.mark.usefixtures("at_once")
def test_how_a_model_writes_comes_back_too(tmp_path: Path) -> None:
    done = of_family("bart")
    plain = text(done.model, given("bart"))
    done.model.generation_config.decoder_start_token_id = 7
    done.model.generation_config.suppress_tokens = plain[:, 1:].unique().tolist()
    other = text(done.model, given("bart"))
    assert not torch.equal(other, plain)
    opened = ar.load_model(done.save(tmp_path / "thin"), dtype="auto").model
    assert torch.equal(text(opened, given("bart")), other)


def test_a_model_with_two_sequences_is_opened_in_a_fresh_process(tmp_path: Path) -> None:
    done = of_family("t5")
    opened = ar.load_model(done.save(tmp_path / "thin"), dtype="auto").model
    assert same(opened, done.model)
    assert [path.name for path in tmp_path.iterdir()] == ["thin"]
    assert torch.equal(text(opened, given("t5")), text(done.model, given("t5")))


@pytest.mark.usefixtures("at_once")
def test_the_tokenizer_of_the_original_is_copied(tmp_path: Path) -> None:
    one = small("bert")
    one.model.save_pretrained(tmp_path / "whole")
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(tmp_path / "whole/tokenizer.json"))
    whole = ar.load_model(tmp_path / "whole")
    inputs = {key: torch.cat([value] * 4) for key, value in one.batch.items()}
    folder = ar.compress(whole, inputs, size=4).save(tmp_path / "thin")
    assert (folder / "tokenizer.json").read_text() == (whole.folder / "tokenizer.json").read_text()


def test_files_that_differ_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "difference", lambda *_: 0.01)
    with pytest.raises(ar.ExportError, match=r"other outputs, by 1\.0e-02.*thin\.differs"):
        compressed("own-vit").save(tmp_path / "thin")
    assert [path.name for path in tmp_path.iterdir()] == ["thin.differs"]
    with pytest.raises(ar.InputError, match=r"do not give the outputs .* by 1\.0e-02"):
        ar.load_model(tmp_path / "thin.differs")


def test_a_disk_that_fills_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved, "save_file", full)
    with pytest.raises(ar.StoreError, match="No space left on device"):
        compressed("own-vit").save(tmp_path / "thin")
    assert [*tmp_path.iterdir()] == []


_LIMITED = """
import resource, signal, sys
sys.dont_write_bytecode = True  # Python would keep the half that it could write, and read it later
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.RLIM_INFINITY))
from attnrate.cli import main
sys.argv = ["attnrate", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize("format", ["attnrate", "llama"])
def test_a_real_limit_of_file_sizes_ends_with_1_and_leaves_nothing(
    format: str, tmp_path: Path
) -> None:
    tiny_llama(torch.float32).save_pretrained(tmp_path / "whole")
    np.savez(tmp_path / "ids.npz", input_ids=LLAMA["input_ids"].numpy())
    (tmp_path / "made").mkdir()
    words = ["--inputs", str(tmp_path / "ids.npz"), "--out", str(tmp_path / "made/thin")]
    words += ["--size", "8", "--values", "--timing", "0", "--format", format]
    (tmp_path / "limited.py").write_text(_LIMITED)
    ran = program(tmp_path / "limited.py", "compress", tmp_path / "whole", *words, models=True)
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "the compressed model could not be written" in ran.stderr
    assert [*(tmp_path / "made").iterdir()] == []


@pytest.mark.usefixtures("at_once")
def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    folder = compressed("own-vit").save(tmp_path / "thin")
    said = json.loads((folder / "compressed.json").read_text())

    def with_settings(**more: object) -> Path:
        (folder / "compressed.json").write_text(json.dumps({**said, **more}))
        return folder

    with pytest.raises(ar.InputError, match="another format"):
        ar.load_model(with_settings(format=9))
    with pytest.raises(ar.InputError, match="does not say which model"):
        ar.load_model(with_settings(layers={"nowhere": {}}))
    with pytest.raises(ar.InputError, match=r"does not fit compressed\.json"):
        ar.load_model(with_settings(layers={}))
    with pytest.raises(ar.InputError, match="no model of that class"):
        ar.load_model(with_settings(library="transformers", **{"class": "pipeline"}))
    shutil.copy(folder / "compressed.json", folder / "compressed.safetensors")
    with pytest.raises(ar.InputError, match="truncated or corrupt"):
        ar.load_model(with_settings())


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match="rotary decoders with a language head"):
        compressed("own-vit").save(tmp_path / "thin", format="llama")
    done = ar.compress(tiny_llama(torch.float32), LLAMA, size=8, values=True)
    with pytest.raises(ar.InputError, match='shared="model"'):
        done.save(tmp_path / "thin", format="llama")
    with pytest.raises(ar.InputError, match="format is not known"):
        done.save(tmp_path / "thin", format="gguf")
    assert [*tmp_path.iterdir()] == []


def test_stock_llama_is_opened_with_and_without_its_head(tmp_path: Path) -> None:
    done = ar.compress(tiny_llama(torch.float32), LLAMA, size=8, values=True, shared="model")
    folder = done.save(tmp_path / "stock", format="llama")
    opened = ar.load_model(folder, head=True).model
    with torch.no_grad():
        mine, theirs = (x(LLAMA["input_ids"]).logits for x in (opened, done.model))
    assert float((mine - theirs).norm() / theirs.norm()) < 1e-5
    assert not hasattr(ar.load_model(folder).model, "lm_head")
