"""The page docs/reference/commands.md, made from the commands themselves.

`python -m attnrate.cli.reference > docs/reference/commands.md` writes it anew; a test compares it.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer

from attnrate.cli.commands import app

_INTRO = """\
# Commands

Every command of `attnrate` with its arguments and options. `attnrate COMMAND --help` prints the
same in a terminal. This page is made from the commands (`python -m attnrate.cli.reference`).

## Exit codes

| code | meaning |
|---|---|
| 0 | The command has done what was asked. |
| 1 | The work failed: a fit diverged, an experiment failed, the disk is full. |
| 2 | The request was wrong. The message names the value and what to do; nothing was run. |
| 130 | The command was stopped by Ctrl-C, TERM or HUP. The message says what was kept. |

Results go to standard output; messages and progress go to standard error. With `--json` the output
is one JSON object on one line.

## Shell completion

`attnrate --install-completion` sets up completion for your shell (bash, zsh, fish or PowerShell);
it works in the next shell that you open. `attnrate --show-completion` only prints the script. TAB
then completes commands, options and their words, and also the names of experiments
(`attnrate reproduce fi`), of models (`attnrate data weights mi`), of settings and of kinds
(`attnrate fit target.kind=sp`).

## Settings

`fit` and `bracket` take settings as words NAME=VALUE, `sweep` takes them from a TOML file. They are
the same settings: [Fits and sweeps](../fitting.md) lists the kinds of targets and models and what
can be set in each; [Recipe](fitting.md) has the settings of the training. A value is a number, a
word, `true`, `false`, or a TOML list or table: `target.permute={swap_ends=2}`.
"""
#: The end of a help text that says what happens without the option
_DEFAULT = re.compile(r"\s*\(default: (?P<default>[^()]*(?:\([^()]*\)[^()]*)*)\)\.?$")


def page() -> str:
    """The whole page as Markdown."""
    root = typer.main.get_command(app)
    context = root.make_context("attnrate", [], resilient_parsing=True)
    options = "\n".join(["## attnrate", "", "Options that stand before a command.", ""])
    parts = [_INTRO, "\n".join([options, *_entries(root, context), ""])]
    parts += [_section(name, one) for name, one in commands()]
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name: "attnrate data text"."""
    yield from _commands_of("attnrate", typer.main.get_command(app))


def _commands_of(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it."""
    context = group.make_context(name, [], resilient_parsing=True)
    for word in group.list_commands(context):
        one = group.get_command(context, word)
        if hasattr(one, "list_commands"):
            yield from _commands_of(f"{name} {word}", one)
        else:
            yield f"{name} {word}", one


def _section(name: str, command: Any) -> str:
    """The section of one command: what it does, an example, arguments and options."""
    context = command.make_context(name, [], resilient_parsing=True)
    example = (command.epilog or "").removeprefix("Example: ")
    lines = [f"## {name}", "", command.help or "", "", "```", example, "```", ""]
    return "\n".join([*lines, *_entries(command, context), ""])


def _entries(command: Any, context: Any) -> list[str]:
    """One line per argument and option, but for --help."""
    params = [one for one in command.get_params(context) if one.name != "help"]
    return [_entry(one) for one in params]


def _entry(param: Any) -> str:
    """An argument or option: how it is written, what it means, and its default."""
    is_option = param.param_type_name == "option"
    shown = param.metavar or ("" if getattr(param, "is_flag", False) else param.name.upper())
    written = f"{param.opts[0]} {shown}".strip() if is_option else shown
    text = _DEFAULT.sub("", param.help or "")
    text = text if text.endswith((".", "…")) else f"{text}."
    return f"- `{written}`: {text}{_default(param)}"


def _default(param: Any) -> str:
    """What is taken where an argument or option is not given, as a sentence."""
    said = _DEFAULT.search(param.help or "")
    if said is not None:
        return f" Default: {said['default']}."
    if param.required:
        return " Required."
    if getattr(param, "is_flag", False) or param.default is None:
        return ""
    return f" Default: {param.default}."


if __name__ == "__main__":
    print(page(), end="")
