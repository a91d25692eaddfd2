"""The page of the commands has every option, and is what the commands say of themselves."""

from pathlib import Path

from attnrate.cli.reference import commands, page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), (
        "write it anew: python -m attnrate.cli.reference > docs/reference/commands.md"
    )


def test_every_option_of_every_command_is_in_its_section() -> None:
    text = page()
    for name, command in commands():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, name
        for param in command.params:
            written = param.opts[0] if param.param_type_name == "option" else param.metavar
            assert f"- `{written}" in section, f"{name} {written}"


def test_a_default_is_said_once() -> None:
    for line in page().splitlines():
        assert line.lower().count("default:") <= 1, line
