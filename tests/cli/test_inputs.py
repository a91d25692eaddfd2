"""The options of inputs of `attnrate profile`: which go together, and what they read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warm_commands import attnrate
from word_models import TEMPLATE, WORDS, word_bert

from attnrate.cli.inputs import GivenInputs
from attnrate.errors import InputError
from attnrate.spectra.inputs.batched import Batches
from attnrate.spectra.load import LoadedModel

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return word_bert(tmp_path_factory.mktemp("bert"), TEMPLATE)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    made = [{"body": f"{WORDS[number % 30]} w1 w2", "id": number} for number in range(100)]
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


def given(**options: Any) -> GivenInputs:
    nothing = dict.fromkeys(
        ("text", "images", "sound", "inputs", "column", "length", "limit", "tokens")
    )
    return GivenInputs(**{**nothing, "batch": 8, **options})


def read(loaded: LoadedModel, **options: Any) -> Batches:
    asked = given(**options)
    asked.require_fitting()
    found = asked.read(loaded)
    assert isinstance(found, Batches)
    return found


def test_without_limits_64_inputs_are_taken(bert: LoadedModel, rows: Path) -> None:
    assert read(bert, text=rows, column="body").inputs == 64
    assert read(bert, text=rows, column="body", limit=70).inputs == 70


def test_a_budget_of_tokens_takes_the_place_of_64(bert: LoadedModel, rows: Path) -> None:
    found = read(bert, text=rows, column="body", tokens="0.4k")
    assert (found.inputs, found.tokens) == (80, 400)  # five tokens each
    assert read(bert, text=rows, column="body", tokens="400", limit=9).inputs == 9
    assert read(bert, text=rows, column="body", tokens="10", limit=9).inputs == 2


def test_running_text_is_cut_into_pieces_and_tables_are_not(
    bert: LoadedModel, tmp_path: Path
) -> None:
    for name in ("a.txt", "a.csv"):
        path = tmp_path / name
        path.write_text("text\n" + " ".join(WORDS * 4) + "\n")
        assert read(bert, text=path, length=10).inputs == (15 if name == "a.txt" else 1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "needs inputs of one kind: got 'none'.*--sound DIR"),
        ({"text": "T", "sound": "D"}, r"needs inputs of one kind: got \['--text', '--sound'\]"),
        ({"images": "D", "column": "text"}, "--column is for --text"),
        ({"sound": "D", "tokens": "5k"}, "--tokens is for --text"),
        ({"inputs": "T", "length": 5}, "--length is for --text"),
        ({"text": "T", "tokens": "many"}, "tokens must be a whole number"),
        ({"text": "T", "column": "text"}, r"--column is for tables, and a\.txt is none"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_a_model_is_opened(
    tmp_path: Path, options: dict[str, Any], match: str
) -> None:
    (tmp_path / "a.txt").write_text("w1")
    places = {"T": tmp_path / "a.txt", "D": tmp_path}
    paths = {
        name: places.get(value, Path(str(value)))
        for name, value in options.items()
        if name in ("text", "images", "sound", "inputs")
    }
    with pytest.raises(InputError, match=match):
        given(**options | paths).require_fitting()


@pytest.mark.slow
def test_a_table_is_profiled_by_the_command(bert: LoadedModel, rows: Path) -> None:
    done = attnrate("profile", bert.folder, "--text", rows, "--column", "body", "--tokens", "0.1k")
    assert done.returncode == 0, done.stderr
    assert "20 inputs of 5 tokens" in done.stdout
    wrong = attnrate("profile", bert.folder, "--text", rows)
    assert wrong.returncode == 2
    assert "['body', 'id']. Name the one that holds the texts: --column NAME." in wrong.stderr
    wrong = attnrate("profile", bert.folder, "--text", rows, "--tokens", "lots")
    assert wrong.returncode == 2
    assert "--tokens must be a whole number" in wrong.stderr
    assert "Write --tokens 200k" in wrong.stderr


def test_arrays_images_and_sound_take_a_batch_and_a_limit(
    bert: LoadedModel, tmp_path: Path
) -> None:
    path = tmp_path / "ids.npz"
    np.savez(path, input_ids=np.ones((100, 4), dtype=np.int64))
    found = read(bert, inputs=path, batch=3)
    assert (found.inputs, found.size) == (64, 3)
    assert read(bert, inputs=path, limit=5).inputs == 5
