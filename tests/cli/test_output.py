"""What commands share: tables that are never cut, messages, one way to be interrupted."""

import re
from typing import Any

import pytest
import typer
from warm_commands import attnrate

from attnrate.cli.commands import app
from attnrate.cli.output import print_table
from attnrate.cli.stopping import Stopped

SETTINGS = ("target.kind=spectral", "target.alpha=1", "target.rank=2", "model.kind=transformer")
BOUND = ("bound", "--alpha", "1", "--rank", "2", "--length", "4", "--m-h", "1,2", "--compile")


def test_a_table_that_fits_is_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_table(("m_h", "as proved"), [("1", "0.125"), ("2", "[red]0.5")], "a title")
    shown = capsys.readouterr().out
    assert "a title" in shown
    assert re.search(r"│ 1 +│ +0\.125 │", shown)
    assert "[red]0.5" in shown  # what a user wrote is no markup


def test_a_table_that_is_too_wide_is_a_list_of_its_cells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("m_h", "as proved"), [("1", "0.123456789"), ("2", "0.5")])
    assert capsys.readouterr().out.splitlines() == [
        "", "m_h        1", "as proved  0.123456789", "", "m_h        2", "as proved  0.5"
    ]  # fmt: skip


@pytest.mark.parametrize("columns", ["40", "60", "80"])
@pytest.mark.parametrize("words", [BOUND, ("pod", "exp(u*v)"), ("data", "weights")])
def test_no_command_cuts_a_number_on_a_narrow_terminal(
    words: tuple[str, ...], columns: str
) -> None:
    wide = attnrate(*words, settings={"COLUMNS": "300"})
    narrow = attnrate(*words, settings={"COLUMNS": columns})
    assert (wide.returncode, narrow.returncode) == (0, 0)

    def cells(text: str) -> set[str]:
        return {part.strip() for line in text.splitlines() for part in line.split("│")[1:-1]}

    shown = " ".join(narrow.stdout.split())
    for cell in cells(wide.stdout):
        assert cell in shown


def test_every_command_has_help_with_an_example_and_a_meaning_for_each_parameter() -> None:
    from attnrate.cli.reference import commands

    for name, command in commands():
        assert command.help
        assert command.epilog.startswith(f"Example: {name}")
        for param in command.params:
            assert param.help, f"{name} {param.name}"
            assert param.help[0].isupper() or param.help.startswith(("softmax", "quick", "cifar10"))
            assert param.help.rstrip().endswith((".", "…", ")"))


def test_every_command_that_makes_a_result_can_print_it_as_json() -> None:
    from attnrate.cli.reference import commands

    assert [name for name, one in commands() if "as_json" not in {p.name for p in one.params}] == []


def test_every_command_that_is_interrupted_says_so_and_ends_with_130(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from attnrate.cli.reference import commands

    def stopped(**given: object) -> None:
        raise KeyboardInterrupt("stopped with 3 of 5 finished")

    for name, _ in commands():
        root = typer.main.get_command(app)
        words = name.split()[1:]
        command = root
        for word in words:
            command = command.commands[word]
        needed = required(command)
        command.callback = stopped
        with pytest.raises(SystemExit) as ended:
            root(words + needed)
        assert ended.value.code == 130, name
        assert capsys.readouterr().err == "attnrate: stopped with 3 of 5 finished\n"


def required(command: Any) -> list[str]:
    """Words for all that a command needs: an argument, or an option with its value."""
    own = [param for param in command.params if param.required]
    return [
        word
        for param in own
        for word in ([param.opts[0], "x"] if param.param_type_name == "option" else ["x"])
    ]


def test_an_interruption_without_words_says_what_was_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from attnrate.cli.reference import commands

    def stopped(**given: object) -> None:
        raise Stopped

    for name, _ in commands():
        root = typer.main.get_command(app)
        command = root
        for word in name.split()[1:]:
            command = command.commands[word]
        needed = required(command)
        command.callback = stopped
        with pytest.raises(SystemExit):
            root(name.split()[1:] + needed)
        said = capsys.readouterr().err
        assert said.startswith("attnrate: stopped; "), name
        assert any(word in said for word in ("kept", "goes on")), said


def test_the_usage_line_has_each_argument_as_it_is_written() -> None:
    for words, shown in (
        (("pod",), "pod [OPTIONS] RHO"),
        (("bound",), "bound [OPTIONS] [RHO]"),
        (("fit",), "fit [OPTIONS] NAME=VALUE…"),
        (("reproduce",), "reproduce [OPTIONS] [NAMES…]"),
        (("train",), "train [OPTIONS] TASK"),
    ):
        for option in ("--help", "-h"):
            told = attnrate(*words, option).stdout
            assert re.search(rf"Usage: .*{re.escape(shown)} *\n", told), told
            assert "<str>" not in told
            assert "<list" not in told
    assert "Commands" in attnrate("-h").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pod", "u*v", "--max-rank", "0"), "--max-rank must be a whole number of at least 1"),
        (("pod", "u*v", "--max-rank", "0"), "Pass --max-rank 1 or more."),
        (("pod", "u*v", "--gauge", "soft"), "--gauge is not known: got 'soft'."),
        (("fit", *SETTINGS, "--threads", "0"), "Pass --threads 1 or more."),
        (("bound", "--alpha", "1", "--rank", "0"), "--rank must be a whole number"),
        (("bound", "--alpha", "1", "--rank", "2", "--length", "0"), "--length must be"),
        (("bound", "--alpha", "1", "--rank", "2", "--m-h", "0"), "--m-h must be"),
        (("fit", *SETTINGS, "model.m_h=0"), "Pass model.m_h=1 or more."),  # a setting is no option
        (("train", "cifar10", "--lr", "-1"), "--lr must be"),
    ],
)
def test_messages_name_options_as_they_are_typed(words: tuple[str, ...], said: str) -> None:
    done = attnrate(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("given", [("0",), ("0,1",), ("a", "b")])
def test_an_interval_that_cannot_be_read_shows_how_it_is_written(given: tuple[str, ...]) -> None:
    done = attnrate("pod", "u*v", "--u", *given)
    assert done.returncode == 2
    shown = " ".join(done.stderr.replace("│", " ").split())
    assert "Write --u A B: two numbers with a space between them." in shown
