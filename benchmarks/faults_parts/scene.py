"""The inputs of the cases: tiny models, inputs and specs, made once and copied for each case."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

#: Settings of fits that take a moment
FIT = (
    *("target.kind=spectral", "target.alpha=1", "target.rank=2", "target.length=4"),
    *("model.kind=coupling", "model.m_h=1"),
    *("recipe.name=paper", "recipe.steps=2", "recipe.batch=2"),
)
SPEC = """seed = 0
[target]
kind = "spectral"
rank = 2
length = 4
[model]
kind = "coupling"
[recipe]
name = "paper"
steps = {steps}
batch = 4
[grid]
"target.alpha" = [1.0, 2.0]
"model.m_h" = [1, 2]
seed = [{seeds}]
"""
#: Right calls in a folder that `work_place` has made
RIGHT = (
    ("fit", *FIT),
    ("bound", "u*v", "--m-ff", "8"),
    ("profile", "bert", "--inputs", "ids.npz", "--limit", "2", "--out", "page"),
    ("profile", "bert", "--text", "text.txt", "--limit", "2", "--length", "4"),
    ("profile", "vit", "--images", "photos", "--limit", "2"),
)
PRECIOUS = b"years of work\n"
_OWN = ("notes.txt", "table.csv", "plot.png", "data.sqlite")


def spec(steps: int = 2, seeds: int = 2) -> str:
    """A sweep of 4 x `seeds` tiny fits."""
    return SPEC.format(steps=steps, seeds=", ".join(map(str, range(seeds))))


def tiny_bert(folder: Path) -> Path:
    """A BERT with random weights and a tokenizer, as save_pretrained writes it."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    transformers.utils.logging.disable_progress_bar()
    config = transformers.BertConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        vocab_size=20,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    words = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *"abcdefghij"])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]"
    )
    fast.save_pretrained(folder)
    return folder


def tiny_shards(source: Path, folder: Path) -> Path:
    """The model of `tiny_bert` in two files and an index."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(source, folder)
    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(whole)
    halves = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, held in halves.items():
        save_file({name: whole[name] for name in held}, folder / file, metadata={"format": "pt"})
    index = {name: file for file, held in halves.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def tiny_vit(folder: Path) -> Path:
    """A model as `attnrate train` keeps it."""
    from attnrate.models.vit import ViT
    from attnrate.training import checkpoint
    from attnrate.training.checkpoint import keep_model

    sizes = {"image": 8, "patch": 4, "width": 8, "layers": 2, "heads": 2, "m_h": 4, "m_ff": 8}
    torch.manual_seed(0)
    model = ViT("cpu", **sizes)
    settings = {"model": {"class": "ViT", **asdict(model.settings)}}
    folder.mkdir()
    keep_model(folder, checkpoint.snapshot(1, model, [], {"settings": settings}))
    return folder


def ids(path: Path) -> Path:
    """Token numbers for the tiny BERT."""
    numbers = np.random.default_rng(0).integers(1, 12, (4, 8))
    np.savez(path, input_ids=numbers, attention_mask=np.ones_like(numbers))
    return path


def photos(folder: Path, side: int = 8) -> Path:
    """A few small images."""
    from PIL import Image

    folder.mkdir()
    drawn = np.random.default_rng(0).integers(0, 255, (3, side, side, 3)).astype(np.uint8)
    for number, pixels in enumerate(drawn):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def table(path: Path, rows: int = 400) -> None:
    """Hourly rows of two columns, the second of which is a filter of the first with noise."""
    drawn = np.random.default_rng(0)
    x, noise = drawn.normal(size=(2, rows))
    y = np.convolve(x, [1.0, 0.5])[:rows] + 0.1 * noise
    hours = np.datetime64("2024-01-01T00") + np.arange(rows)
    lines = [f"{hour}:00,{a:.6f},{b:.6f}" for hour, a, b in zip(hours, x, y, strict=True)]
    path.write_text("\n".join(["time,x,y", *lines]) + "\n")


def make(place: Path) -> Path:
    """Everything that cases read, in one folder."""
    place.mkdir(parents=True)
    tiny_bert(place / "bert")
    tiny_shards(place / "bert", place / "shards")
    tiny_vit(place / "vit")
    ids(place / "ids.npz")
    photos(place / "photos")
    (place / "text.txt").write_text("a b c d e f g h i j " * 60)
    (place / "spec.toml").write_text(spec())
    table(place / "data.csv")
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def work_place(folder: Path, scene: Path) -> Path:
    """Make a new folder for one case, with inputs, earlier outputs and files of the user."""
    folder.mkdir(parents=True)
    shutil.copy(scene / "spec.toml", folder)
    shutil.copy(scene / "ids.npz", folder)
    shutil.copy(scene / "text.txt", folder)
    shutil.copy(scene / "data.csv", folder)
    for name in ("bert", "shards", "vit", "photos"):
        (folder / name).symlink_to(scene / name)
    own = folder / "thesis"
    own.mkdir()
    for name in _OWN:
        (own / name).write_bytes(PRECIOUS)
    for name in _OWN[1:]:
        (folder / f"link-{name}").symlink_to(own / name)
        os.link(own / name, folder / f"hard-{name}")
    (folder / "empty").mkdir()
    return folder


def precious_lost(folder: Path) -> list[str]:
    """The files of the user that have changed or are gone."""
    every = [folder / "thesis" / name for name in _OWN]
    return [path.name for path in every if not _intact(path)]


def _intact(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == PRECIOUS
