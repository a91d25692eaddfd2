"""Shell completion as bash asks for it: the words before the cursor in, what they could become out.

The last tests run a real bash, in which `=` ends a word.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from warm_commands import attnrate

from attnrate.cli.completing import EXPERIMENTS, MODEL_KINDS, TARGET_KINDS, begin_value
from attnrate.experiments import names
from attnrate.models.base import MODELS
from attnrate.targets.form import TARGETS


def completed(*typed: str) -> list[str]:
    """What a shell offers for the last word, which is being typed."""
    asked = {
        "_ATTNRATE_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["attnrate", *typed]),
        "COMP_CWORD": str(len(typed)),
    }
    done = attnrate(settings=asked)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_commands_and_options_complete() -> None:
    assert completed("re") == ["reproduce", "report"]
    assert completed("data", "w") == ["weights"]
    assert completed("bound", "--m") == ["--m-h", "--m-ff"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("pod", "u", "--gauge", ""), ["softmax", "none"]),
        (("bound", "--norm", "m"), ["mse"]),
        (("reproduce", "--preset", "q"), ["quick"]),
        (("train", "c"), ["cifar10"]),
        (("train", "cifar10", "--precision", "b"), ["bfloat16"]),
        (("sweep", "spec.toml", "--engine", "ra"), ["ray", "ray://"]),
        (("data", "weights", "minil"), ["minilm"]),
        (("data", "series", "s"), ["solar-and-wind", "sea-temperature", "soil-moisture", "spikes"]),
        (("fit", "model.kind=tr"), ["model.kind=transformer"]),
        (("fit", "model.kind", "=", "tr"), ["transformer"]),
        (("bracket", "target.k"), ["target.kind="]),
        (("fit", "recipe.name=st"), ["recipe.name=strong"]),
        (("fit", "recipe.ste"), ["recipe.steps="]),
    ],
)
def test_words_that_are_known_complete(typed: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*typed) == offered


def test_the_words_that_help_lists_are_those_that_are_known() -> None:
    assert names() == EXPERIMENTS, "write it into completing.py, in the order of the page"
    assert tuple(TARGETS.words()) == TARGET_KINDS
    assert tuple(MODELS.words()) == MODEL_KINDS


@pytest.mark.parametrize(
    ("command", "listed"), [("reproduce", EXPERIMENTS), ("fit", TARGET_KINDS + MODEL_KINDS)]
)
def test_help_lists_every_word(command: str, listed: tuple[str, ...]) -> None:
    shown = attnrate(command, "--help", settings={"COLUMNS": "300"}).stdout
    for word in listed:
        assert word in shown


def test_names_of_experiments_complete() -> None:
    assert completed("reproduce", "fig") == [name for name in names() if name.startswith("fig")]


def test_kinds_of_targets_complete_after_an_equals_sign_that_ends_a_word() -> None:
    offered = completed("fit", "target.kind", "=")
    assert {"spectral", "linear", "selection"} <= {*offered}


@pytest.mark.parametrize(
    ("words", "place", "becomes"),
    [
        ("attnrate\nfit\ntarget.kind\n=", "3", "4"),
        ("attnrate\nfit\ntarget.kind\n=\ns", "4", "4"),
        ("attnrate\nfit\ntarget.kind", "2", "2"),
        ("attnrate", "x", "x"),
    ],
)
def test_the_word_after_an_equals_sign_is_the_one_that_is_typed(
    words: str, place: str, becomes: str
) -> None:
    environment = {"COMP_WORDS": words, "COMP_CWORD": place}
    begin_value(environment)
    assert environment == {"COMP_WORDS": words, "COMP_CWORD": becomes}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_that_is_shown_completes_in_a_real_bash(tmp_path: Path) -> None:
    command = tmp_path / "attnrate"
    command.write_text(f"#!{sys.executable}\nfrom attnrate.cli import main\nmain()\n")
    command.chmod(0o755)
    shown = attnrate(settings={"_ATTNRATE_COMPLETE": "source_bash"}).stdout
    assert "complete -o default -F _attnrate_completion attnrate" in shown
    # as readline calls it: the words as bash splits them, then the function
    asked = "COMP_WORDS=(attnrate fit model.kind = tr); COMP_CWORD=4; _attnrate_completion attnrate"
    done = subprocess.run(
        ["bash", "-c", f'{shown}\n{asked} "tr" "="\necho "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.stdout == "transformer\n", done.stderr
