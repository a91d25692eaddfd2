"""Argument lists thrown at the command line: right ones of every command, spoiled at random."""

import os
import random
import shutil
import string
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults_parts import scene
from faults_parts.calls import call, edges, warm
from faults_parts.tally import Seen, judged

_RHO = ("u*v", "exp(-(u-v)**2)", "1+2*sin(2*pi*u)*sin(2*pi*(u+v))", "min(u,v)", "abs(u-v)")
#: Right requests of every command: what stands first, and options with values that are right
RIGHT: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "pod": (
        ("RHO",),
        {
            "--rtol": ("1e-6", "1e-10"),
            "--max-rank": ("3", "64"),
            "--gauge": ("softmax",),
            "--plot": ("spectrum.png", "spectrum.svg"),
        },
    ),
    "bound": (
        (),
        {"--alpha": ("1", "2.5"), "--rank": ("2", "6"), "--m-h": ("1,2",), "--length": ("4",)},
    ),
    "bound RHO": (("RHO",), {"--m-h": ("1", "1,2"), "--m-ff": ("8",), "--norm": ("l1", "mse")}),
    "fit": (scene.FIT, {"--threads": ("1",)}),
    "bracket": (scene.FIT, {"--threads": ("1",)}),
    "sweep": (
        ("spec.toml",),
        {"--store": ("new.sqlite",), "--workers": ("1",), "--export": ("t.csv", "t.parquet")},
    ),
    "reproduce": (("fig1", "table2"), {"--preset": ("quick",), "--out": ("repro",)}),
    "report": (("empty",), {"--against": ("empty",)}),
    "profile": (
        ("bert",),
        {"--inputs": ("ids.npz",), "--limit": ("2",), "--cut-inputs": ("0",), "--out": ("page",)},
    ),
    "profile text": (
        ("bert",),
        {
            "--text": ("text.txt",),
            "--limit": ("2",),
            "--cut-inputs": ("0", "1"),
            "--length": ("4",),
        },
    ),
    "profile images": (
        ("vit",),
        {"--images": ("photos",), "--limit": ("2",), "--cut-inputs": ("0",)},
    ),
    "profile weights": (("bert", "--weights-only"), {"--heads": ("2",)}),
    "choose": (
        ("data.csv", "--target", "y", "--stage", "ladder"),
        {
            "--horizon": ("0", "1"),
            "--window": ("4", "8"),
            "--time": ("time",),
            "--ignore": ("x",),
            "--resample": ("1h", "2h"),
            "--seeds": ("1",),
            "--folds": ("2",),
            "--out": ("answer",),
        },
    ),
    "train": (
        ("cifar10",),
        {"--limit": ("128",), "--epochs": ("1",), "--m-h": ("4",), "--out": ("model",)},
    ),
    "data weights": (("minilm",), {}),
    "data text": ((), {"--megabytes": ("1",)}),
    "data cifar10": ((), {"--photos": ("photographs",), "--count": ("2",)}),
    "data translation": ((), {}),
}
#: How often each is tried beside the others; opening a model takes a hundred times a refusal
_WEIGHTS = {"profile": 0.6, "profile text": 0.4, "profile images": 0.3, "reproduce": 0.5}
_NUMBERS = (
    *("nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "-1", "0", "-0", "1.5", "0x10", "1_000"),
    *("9" * 20, "9" * 400, "9" * 5000, "-" + "9" * 30, str(2**31), str(2**63), str(2**64), "1e9"),
    *("1000000000", "100000", "10000000000000", "0.5", "1e-300", "1e300", "2", "7", "64", "-1e3"),
    *("١٢", "²", "−1", "½", "", " 1", "1 ", "1,2", "0,0", "--5", "true", "None", "1e", "5e-324"),
)
_TEXTS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\0",
        "a\0b",
        "\x1b[31m",
        "\x7f",
        "\udcff",
        "a\udc80b",
        "\ud800",
    ),
    *(
        "é",
        "e\u0301",
        "ß",
        "日本語",
        "🤖",
        "\u202e",
        "\ufeff",
        "²",
        "١٢",
        "½",
        "None",
        "null",
        "[]",
    ),
    *(
        "{}",
        "[1,2]",
        '"',
        "'",
        "`id`",
        "$(id)",
        "%s",
        "{0}",
        "[red]",
        "[/red]",
        "[link=x]",
        "a" * 5000,
    ),
    *(
        "-",
        "--",
        "---",
        "-x",
        "--json",
        "--help",
        "--version",
        "--nope",
        "=",
        "a=b",
        "--out=",
        "-1e3",
    ),
    *("(" * 200, "[" * 2000, "1," * 2000, "u" + "+u" * 3000, "__import__('os')", "u.real", "1/0"),
    *(
        "lambda: 0",
        "u**u**u",
        "10**10**10",
        "exp(exp(exp(9*u)))",
        "1/(u-u)",
        "sin(",
        "u;v",
        "w",
        "u",
    ),
    *(
        "v",
        "0",
        "1e308*u*v*1e308",
        "nan",
        "log(u)",
        "sqrt(-u)",
        "abs(u-v)**0.1",
        "u<v",
        "sin(1/(u+v))",
    ),
    *(
        "ray",
        "ray://nowhere:1",
        "local",
        "softmax",
        "none",
        "paper",
        "quick",
        "cuda",
        "cuda:99",
        "meta",
    ),
    *(
        "0,1",
        "0,0",
        "-1,5",
        "--5",
        "1,,2",
        ",",
        "0x1",
        "encoder",
        "propositions",
        "cifar10",
        "minilm",
    ),
    *(
        "translation",
        "mps",
        "cpu",
        "bfloat16",
        "float32",
        "fig1",
        "mse",
        "l1",
        "9" * 5000,
        "0,²",
        "1.5",
    ),
)
_PATHS = (
    *(
        "",
        ".",
        "..",
        "/",
        "//",
        "~",
        "~nobody/x",
        "../..",
        "thesis",
        "thesis/notes.txt",
        "empty",
        "a\0",
    ),
    *("/proc/self/mem", "/proc/version", "missing", "missing/deeper/file.csv", "x.csv", "x.png"),
    *("link-table.csv", "hard-table.csv", "link-plot.png", "hard-plot.png", "\udcff.csv", "\udcff"),
    *("link-data.sqlite", "hard-data.sqlite", "bert/config.json", "bert/model.safetensors", "vit"),
    *(
        "a" * 300,
        "a" * 5000,
        "x/" * 200,
        "a" * 250 + ".csv",
        "a" * 250 + ".png",
        "a" * 300 + ".png",
    ),
    *(
        "bert",
        "shards",
        "photos",
        "ids.npz",
        "text.txt",
        "spec.toml",
        "spec.toml/x",
        "é\n.png",
        "-",
    ),
    *("x.svg", "x.pdf", "x.parquet", "x.sqlite", "thesis/new.sqlite", "empty/deep/er", "link-x/y"),
)
_SETTINGS = (
    *("a.b.c=1", "target=1", "target.=1", ".=1", "=1", "seed=nan", "seed=-1", "seed=1.5", "grid=1"),
    *("target.kind=", "target.rank=0", "target.rank=1e9", "target.rank=0x" + "f" * 5000),
    *("target.rank=100000000000", "target.length=1000000000", "model.m_h=1000000000"),
    *("model.m_h=-1", "model.m_h=true", "model.kind=gru", "model.kind=nope", "model.n=9999999999"),
    *("recipe.lr=nan", "recipe.lr=inf", "recipe.lr=1e400", "recipe.steps=1e9", "recipe.clip=-1"),
    *(
        "recipe.lr=1e300",
        "recipe.lr=1e-300",
        "recipe.lr=0x" + "f" * 400,
        "recipe.batch=1000000000000",
    ),
    *(
        "recipe.name=warm",
        "recipe.name=strong",
        "recipe.name=nope",
        "recipe.starts=2",
        "recipe.gain=2",
    ),
    *(
        "seed=" + "9" * 30,
        "target.alpha=[[[[1]]]]",
        "target.x=" + "[" * 3000,
        "a" + ".a" * 3000 + "=1",
    ),
    *("target.permute=swap_ends", "target.mix={theta=1}", "target.kind=linear", "target.kernel=[]"),
    *(
        "target.kind=nearest_point",
        "target.kind=gravity",
        "target.kind=selection",
        "target.alpha=0.6",
    ),
    *("x=2026-01-01", "target.alpha='''", "target.alpha=1\n[evil]\na=1", "grid.seed=[0,1]"),
    *("target.alpha=1e300", "target.alpha=-1", "target.alpha=0x" + "f" * 400, "target.rank=3.0"),
    *(
        "model.kind=transformer",
        "model.heads=0",
        "model.heads=3",
        "model.layers=2",
        "model.width=0",
    ),
    *(
        "model.x=\udcff",
        "model.kind=\udcff",
        "target.kind=\0",
        "\udcff.x=1",
        "target.mix={theta=1e400}",
    ),
    *("target.permute=[0,0,1,2]", "target.permute=[3,2,1,0]", "target.permute=-1", "model.m_h=[]"),
)
_DEVICES = ("/dev/null", "/dev/full", "/dev/tty", "/dev/null/x", "/dev", "/dev/stdin")
_SECONDS = 10.0


@dataclass(frozen=True)
class Command:
    """A command as its own parser knows it: options, each with the kind of its value.

    `settings` tells whether it takes words NAME=VALUE.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    settings: bool


def commands() -> tuple[Command, ...]:
    """Every command with its options, asked of the program itself."""
    import typer

    from attnrate.cli.commands import app

    return tuple(_walk(typer.main.get_command(app), ""))


def _walk(group: Any, name: str) -> Iterator[Command]:
    inner = getattr(group, "commands", None)
    if inner is None:
        options = [
            (word, "flag" if getattr(each, "is_flag", False) else _kind(each))
            for each in group.params
            for word in each.opts
            if word[0] == "-"
        ]
        settings = any("NAME=VALUE" in (each.metavar or "") for each in group.params)
        yield Command(name, (*options, ("--help", "flag")), settings)
        return
    for word, one in inner.items():
        yield from _walk(one, f"{name} {word}".strip())


def _kind(parameter: Any) -> str:
    """What a parameter takes; typer has it as click's type, and from 0.2x on as an annotation."""
    told = getattr(parameter, "type", None)
    text = str(told or parameter.type_descriptor.annotation).lower()
    return next((kind for kind in ("int", "float", "path") if kind in text), "text")


def words_of(number: int, seed: int, known: tuple[Command, ...], devices: bool) -> list[str]:
    """The argument list of that number: a right one, spoiled up to three times."""
    draw = random.Random(f"{seed}/arguments/{number}")
    titles = sorted(RIGHT)
    (title,) = draw.choices(titles, [_WEIGHTS.get(each, 1.0) for each in titles])
    first, options = RIGHT[title]
    command = next(c for c in known if f"{title} ".startswith(f"{c.name} "))
    words = [draw.choice(_RHO) if word == "RHO" else word for word in first]
    for option, values in options.items():
        if draw.random() < 0.9:
            words += [option, draw.choice(values)]
    if draw.random() < 0.3:
        words.append("--json")
    for _ in range(draw.choice((0, 1, 1, 1, 1, 2, 2, 3))):
        words = _spoiled(words, command, draw, devices)
    before = [] if draw.random() > 0.01 else [draw.choice(_TEXTS)]
    return [*before, *command.name.split(), *words]


def _hostile(kind: str, draw: random.Random, devices: bool) -> str:
    """A value for an option of that kind; now and then of another kind."""
    if draw.random() < 0.1:
        return draw.choice(_NUMBERS + _TEXTS + _PATHS + _SETTINGS)
    if kind in ("int", "float"):
        return draw.choice(_NUMBERS)
    if kind == "path":
        return draw.choice(_PATHS + (_DEVICES if devices else ()))
    return draw.choice(_TEXTS)


def _spoiled(words: list[str], command: Command, draw: random.Random, devices: bool) -> list[str]:
    where = draw.randrange(len(words) + 1)
    at = min(where, len(words) - 1)
    option, kind = draw.choice(command.options)
    chance = draw.random()
    if chance < 0.45:  # an option of the command's own, with a value of the right kind
        if kind == "flag":
            return [*words, option]
        value = _hostile(kind, draw, devices)
        if option in words[:-1]:
            place = words.index(option) + 1
            return [*words[:place], value, *words[place + 1 :]]
        if draw.random() < 0.5:
            return [*words, f"{option}={value}"]
        more = [_hostile(kind, draw, devices)] if option in ("--u", "--v") else []
        return [*words, option, value, *more]
    if chance < 0.65 and command.settings:  # a setting, instead of the one of the same name
        new = draw.choice(_SETTINGS)
        name = new.partition("=")[0]
        return [*(word for word in words if word.partition("=")[0] != name), new]
    if chance < 0.75 or not words:  # the argument that stands first
        pool = _TEXTS + _PATHS + (_DEVICES if devices else ())
        return [draw.choice(pool), *words[1:]]
    return _reordered(words, where, at, option, draw)


def _reordered(
    words: list[str], where: int, at: int, option: str, draw: random.Random
) -> list[str]:
    kind = draw.randrange(7)
    if kind == 0:  # one word less: a value or an option is missing
        return words[:at] + words[at + 1 :]
    if kind == 1:  # the same again
        return [*words, *words[max(0, at - 1) : at + 1]]
    if kind == 2:  # something that nothing asks for
        return [*words[:where], draw.choice(_TEXTS + _NUMBERS), *words[where:]]
    if kind == 3:  # an option where a value should stand, or nothing behind it
        return [*words[:where], option, *words[where:]]
    if kind == 4:  # the characters of a word
        letters = [*words[at], draw.choice(string.printable)]
        draw.shuffle(letters)
        return [*words[:at], "".join(letters), *words[at + 1 :]]
    if kind == 5:
        return draw.sample(words, len(words))
    return [*words[:at], "--", *words[at:]]


def run_cases(place: Path, seed: int, first: int, count: int, devices: bool) -> Iterator[Seen]:
    """Call the lists from number `first` on, each in a folder of its own below `place`."""
    known = commands()
    os.chdir(scene.work_place(place / f"warm-{first}", place.parent / "scene"))
    warm(scene.RIGHT)
    os.chdir(place)
    with edges():
        for number in range(first, count):
            words = words_of(number, seed, known, devices)
            folder = scene.work_place(place / f"case-{number}", place.parent / "scene")
            os.chdir(folder)
            start = time.perf_counter()
            done = call(words, _SECONDS)
            seconds = time.perf_counter() - start
            os.chdir(place)
            faults = list(judged(done.code, done.err) if not done.overtime else ("over time",))
            lost = scene.precious_lost(folder)
            if lost:
                faults.append("overwritten")
            shutil.rmtree(folder, ignore_errors=True)
            names = [c.name for c in known if words[: c.name.count(" ") + 1] == c.name.split()]
            group = names[0] if names else "other"
            yield Seen(
                *("arguments", group, number, repr(words), done.code, tuple(faults)),
                said=done.err[-3000:] if faults else "",
                seconds=seconds,
            )
