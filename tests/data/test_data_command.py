"""attnrate data: prints where things are, and says what is wrong."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def attnrate(tmp_path):
    """The command with a cache of its own, and a pip that finds nothing."""
    alone = {"ATTNRATE_CACHE": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    environment = {**os.environ, **alone, "PIP_FIND_LINKS": str(tmp_path), "NO_COLOR": "1"}

    def run(*words):
        command = [sys.executable, "-m", "attnrate.cli", "data", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return run


def test_what_there_is_is_listed_without_a_name(attnrate, tmp_path):
    (tmp_path / "weights" / "minilm").mkdir(parents=True)
    assert "minilm" in attnrate("weights").stdout
    listed = json.loads(attnrate("weights", "--json").stdout)["weights"]
    cached = {row["name"]: row["cached"] for row in listed}
    assert cached["minilm"]
    assert not cached["mpnet"]
    assert all(row["licence"] for row in listed)


def test_the_folder_is_printed(attnrate, tmp_path):
    folder = tmp_path / "weights" / "minilm"
    folder.mkdir(parents=True)
    assert attnrate("weights", "minilm").stdout == f"{folder}\n"
    assert json.loads(attnrate("weights", "minilm", "--json").stdout)["folder"] == str(folder)


def test_the_text_is_printed(attnrate, tmp_path):
    folder = tmp_path / "text" / "enwik8-3"
    folder.mkdir(parents=True)
    assert attnrate("text", "--megabytes", "3").stdout == f"{folder / 'text.txt'}\n"
    assert "licence" in json.loads(attnrate("text", "--megabytes", "3", "--json").stdout)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("weights", "nothing"), 2, "Choose one of minilm"),
        (("text", "--megabytes", "0"), 2, "megabytes must be"),
        (("weights", "minilm"), 1, "put it into"),
    ],
)
def test_wrong_requests_and_failures_are_told_apart(attnrate, words, code, said):
    done = attnrate(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
