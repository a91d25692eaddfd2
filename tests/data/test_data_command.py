"""attnrate data: prints where things are, and says what is wrong."""

import gzip
import hashlib
import json
import os

import numpy as np
import pytest
import warm_commands

from attnrate.data.series import RULES as SERIES_RULES
from attnrate.data.series_table import SERIES
from attnrate.data.translation import RULES, SPLITS


@pytest.fixture
def attnrate(tmp_path):
    """The command with a cache of its own, a pip that finds nothing, and no hub."""
    alone = {"ATTNRATE_CACHE": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    alone["PIP_FIND_LINKS"] = str(tmp_path)

    def run(*words, new=False, **more):
        return warm_commands.attnrate("data", *words, settings=alone | more, new=new)

    return run


def test_what_there_is_is_listed_without_a_name(attnrate, tmp_path):
    (tmp_path / "attnrate-cache" / "weights" / "minilm").mkdir(parents=True)
    assert "minilm" in attnrate("weights", new=True).stdout
    listed = json.loads(attnrate("weights", "--json").stdout)["weights"]
    cached = {row["name"]: row["cached"] for row in listed}
    assert cached["minilm"]
    assert not cached["mpnet"]
    assert all(row["licence"] for row in listed)


def test_the_folder_is_printed(attnrate, tmp_path):
    folder = tmp_path / "attnrate-cache" / "weights" / "minilm"
    folder.mkdir(parents=True)
    assert attnrate("weights", "minilm").stdout == f"{folder}\n"
    assert json.loads(attnrate("weights", "minilm", "--json").stdout)["folder"] == str(folder)


def test_the_text_is_printed(attnrate, tmp_path):
    folder = tmp_path / "attnrate-cache" / "text" / "enwik8-3"
    folder.mkdir(parents=True)
    assert attnrate("text", "--megabytes", "3", new=True).stdout == f"{folder / 'text.txt'}\n"
    assert "licence" in json.loads(attnrate("text", "--megabytes", "3", "--json").stdout)


def test_all_series_are_listed_without_a_name_a_line_each(attnrate, tmp_path):
    folder = tmp_path / "attnrate-cache" / "series" / f"rules-{SERIES_RULES}"
    folder.mkdir(parents=True)
    (folder / "glucose.csv").write_text("time,glucose,current\n")
    lines = attnrate("series", new=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*SERIES]
    assert "glucose          52,281 x 3 " in lines[7]
    listed = json.loads(attnrate("series", "--json").stdout)["series"]
    assert {row["name"] for row in listed if row["cached"]} == {"glucose"}
    assert all(row["licence"] and row["source"] for row in listed)


def test_a_series_is_told_with_what_was_changed_and_a_command_to_try(attnrate, tmp_path):
    file = tmp_path / "attnrate-cache" / "series" / f"rules-{SERIES_RULES}" / "glucose.csv"
    file.parent.mkdir(parents=True)
    file.write_text("time,glucose,current\n2010-03-24T09:51:00,258,\n2010-03-24T09:56:00,260,3\n")
    lines = attnrate("series", "glucose").stdout.splitlines()
    assert lines[0] == str(file)
    assert lines[1:3] == ["2 rows x 3 columns: time, glucose, current", "missing: current 1"]
    assert "changed: the sensor's current is missing where the original says nil" in lines
    assert any(line.startswith("licence: public domain") for line in lines)
    assert lines[-1] == f"try: attnrate choose {file} --target glucose --horizon 12 --resample 5min"
    told = json.loads(attnrate("series", "glucose", "--json").stdout)
    assert (told["file"], told["missing"], told["rows"]) == (str(file), {"current": 1}, 2)
    assert told["column_names"] == ["time", "glucose", "current"]


@pytest.mark.slow
def test_cifar10_is_told_by_class(attnrate, tmp_path):
    folder = tmp_path / "attnrate-cache" / "cifar10"
    folder.mkdir(parents=True)
    for split, count in (("train", 50_000), ("test", 10_000)):
        images = np.full((count, 32, 32, 3), (125, 123, 113), np.uint8)
        # the published means: 125.3, 123.0, 113.9
        images[: 3 * count // 10, ..., 0] += 1
        images[: 9 * count // 10, ..., 2] += 1
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", np.arange(count) % 10)
    told = json.loads(attnrate("cifar10", "--json", new=True).stdout)
    assert told["images"] == {"train": 50_000, "test": 10_000}
    assert told["class_counts"]["test"]["ship"] == 1000
    assert told["channel_means"] == [125.3, 123.0, 113.9]
    shown = attnrate("cifar10").stdout
    assert "truck" in shown
    assert shown.endswith(f"{folder}\n")
    photos = tmp_path / "photos"
    assert attnrate("cifar10", "--photos", photos, "--count", "3").stdout == f"{photos}\n"
    assert len(list(photos.iterdir())) == 3
    assert "--count is for --photos: got 3" in attnrate("cifar10", "--count", "3").stderr


def test_translation_is_told_by_split_with_samples(attnrate, tmp_path):
    folder = tmp_path / "attnrate-cache" / "translation" / f"pairs-{RULES}"
    folder.mkdir(parents=True)
    text = "".join(f"This is line {k}\tDies ist Zeile {k}\n" for k in range(10)).encode()
    for split in ("train", "validation", "test"):
        (folder / f"{split}.tsv.gz").write_bytes(gzip.compress(text))
    package = {"name": "pidgin-data", "version": "1", "sha256": "0", "messages": 12, "pairs": 10}
    sha256 = dict.fromkeys(("train", "validation", "test"), hashlib.sha256(text).hexdigest())
    manifest = {"rules": RULES, "sha256": sha256, "packages": [package], "left_out": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    told = json.loads(attnrate("translation", "--json", new=True).stdout)
    assert told["counts"] == dict.fromkeys(("train", "validation", "test"), 10)
    assert told["messages"] == 12
    assert told["samples"][1] == ["This is line 2", "Dies ist Zeile 2"]
    assert not told["documented_test_set"]
    shown = attnrate("translation")
    assert "pidgin-data" in shown.stdout
    assert "Dies ist Zeile 8" in shown.stdout
    assert "differs from the documented one" in shown.stderr


def test_names_of_packages_are_printed_without_any_data(attnrate, tmp_path):
    names = attnrate("translation", "--names").stdout.split()
    assert names == [name for split in SPLITS.values() for name in split]
    assert json.loads(attnrate("translation", "--names", "--json").stdout)["packages"] == names
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "said"), [("cifar10", "Node.js"), ("translation", "apt-get")])
def test_without_a_client_the_way_out_is_told(attnrate, name, said):
    done = attnrate(name, PATH="")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("weights", "nothing"), 2, "Choose one of minilm"),
        (("text", "--megabytes", "0"), 2, "megabytes must be"),
        (("weights", "minilm"), 1, "put it into"),
        (("series", "glucos"), 2, "Did you mean 'glucose'? Known: appliances, "),
        (("series", "glucose"), 1, "Or get bokeh_sampledata-"),
    ],
)
def test_wrong_requests_and_failures_are_told_apart(attnrate, words, code, said):
    done = attnrate(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
