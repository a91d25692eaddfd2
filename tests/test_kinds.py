"""Kinds: found by their word and made from their table; the user's own by "module:name"."""

import json
import linecache
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.kinds import Kinds
from attnrate.models import GRU
from attnrate.models.base import MODELS
from attnrate.models.build import build_model, complete_model
from attnrate.own import look_in
from attnrate.settings import Count, Positive, Switch, checked
from attnrate.targets import AttentionTarget, Target, identity, linear_target, spectral_target
from attnrate.targets.build import build_target, complete_target
from attnrate.targets.form import TARGETS

MODULE = """
    import math
    from typing import Literal

    import attnrate as ar
    import torch
    from torch import nn

    SCALE = 1.0

    def product(u, v):
        return SCALE * u * v

    def ramp(slope: float, length: int = 4, form: Literal["line", "square"] = "line") -> ar.Target:
        return ar.linear_target([slope * s for s in range(length)], length)

    def coupled(slope: float) -> ar.Target:
        return ar.AttentionTarget(
            lambda x: x, lambda x: x, lambda u, v: slope * product(u, v).sum(-1), 4
        )

    class Pointwise(nn.Module):
        def __init__(self, d: int, out: int, hidden: int = 3) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(d, hidden), nn.Linear(hidden, out))

        def forward(self, x):
            return self.net(x)

    class Long(nn.Module):
        def __init__(self, d: int, out: int, length: int | None = None) -> None:
            super().__init__()
            self.length = length
            self.net = nn.Linear(d, out)

        def forward(self, x):
            return self.net(x)

    def untyped(slope):
        return ramp(slope)

    def strange(law: ar.UniformInputs):
        return ramp(1.0)

    def starred(*slopes: float):
        return ramp(1.0)

    def clash(kind: str):
        return ramp(1.0)

    def nothing(slope: float = 1.0):
        return None

    def refuses(slope: float):
        raise ar.InputError("slope is unlucky", slope, "Pass slope=12.")

    def tokens(sizes: list[int], name: str | None = None):
        return ar.linear_target([float(s) for s in sizes], len(sizes))

    number = 3
"""


@checked
def ramp(slope: Positive, length: Count = 16, shown: Switch = True) -> tuple[object, ...]:
    """Its settings."""
    return slope, length, shown


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a user's module `hers`, which is the current one."""
    (tmp_path / "hers.py").write_text(dedent(MODULE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


def test_a_kind_is_found_by_the_word_and_made_from_its_table() -> None:
    kinds: Kinds[Any] = Kinds("thing", "attnrate.targets", without=("shown",))
    kinds.add("ramp")(ramp)
    assert kinds.make(kinds.complete({"kind": "ramp", "slope": 2})) == ramp(2)
    for kind, words in ((None, "thing.kind is missing"), ("rmap", "Did you mean 'ramp'")):
        with pytest.raises(InputError, match=words):
            kinds.complete({"kind": kind})


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (TARGETS, ("spectral", "linear", "nearest_point", "selection", "gravity")),
        (
            MODELS,
            (
                "transformer",
                "coupling",
                "relative",
                "hybrid",
                "linear_rnn",
                "gru",
                "state_space",
                "convolution",
            ),
        ),
    ],
)
def test_every_file_of_a_room_has_added_its_kinds(kinds: Kinds[Any], words: tuple[str]) -> None:
    assert all(callable(kinds.of({"kind": word})) for word in words)


def test_a_wrong_value_in_a_table_is_named_with_its_part_and_the_way_out() -> None:
    with pytest.raises(InputError, match=r"target\.rank must be .* Pass target\.rank=1 or more"):
        build_target({"kind": "spectral", "alpha": 1.0, "rank": 0})
    target = build_target({"kind": "spectral", "alpha": 1.0, "rank": 2})
    with pytest.raises(InputError, match=r"model\.hidden must be .* Write model\.hidden=4\."):
        build_model({"kind": "gru", "hidden": 4.0}, target)
    with pytest.raises(InputError, match=r"^hidden must be"):
        GRU(1, 1, 0)
    with pytest.raises(InputError, match=r"target\.permute\.swap_ends .*target\.length = 16"):
        build_target({"kind": "spectral", "alpha": 1.0, "rank": 2, "permute": "swap_ends"})


def test_a_kind_must_be_checked_and_belongs_to_one_file() -> None:
    kinds: Kinds[Any] = Kinds("thing", "attnrate.targets", without=())
    with pytest.raises(TypeError, match="not @checked"):
        kinds.add("plain")(lambda: None)
    kinds.add("gru")(GRU)
    with pytest.raises(TypeError, match=r"'gru' is taken: attnrate\.models\.recurrent and"):
        kinds.add("gru")(ramp)


def test_an_own_target_is_made_from_typed_settings(folder: Path) -> None:
    full = complete_target({"kind": "hers:ramp", "slope": 2})
    assert {name: v for name, v in full.items() if name != "code"} == {
        "kind": "hers:ramp",
        "slope": 2,
        "length": 4,
        "form": "line",
    }
    assert complete_target(full) == full
    target, same = build_target(full), linear_target([0.0, 2.0, 4.0, 6.0], 4)
    x = same.sample(3, 0)
    assert torch.equal(target(x), same(x))
    assert build_target({"kind": "hers:ramp", "slope": 2, "permute": [1, 0, 2, 3]}).length == 4
    assert build_target({"kind": "hers:tokens", "sizes": [1, 2, 3]}).length == 3


def test_an_own_model_is_made_for_the_tokens_of_the_target(folder: Path) -> None:
    target = build_target({"kind": "gravity"})
    model = build_model({"kind": "hers:Pointwise", "hidden": 5}, target)
    assert sum(p.numel() for p in model.parameters()) == 3 * 5 + 5 + 5 * 2 + 2
    assert model(target.sample(2, 0, torch.float32)).shape == (2, 8, 2)
    assert build_model({"kind": "hers:Long"}, target).length == target.length
    full = complete_model({"kind": "hers:Pointwise"})
    assert [*full] == ["kind", "hidden", "code"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "hers:ramp", "slope": "2"}, r"target\.slope must be a finite number"),
        ({"kind": "hers:ramp", "slope": 1, "length": 4.0}, r"whole number.*Write target\.length=4"),
        ({"kind": "hers:ramp", "slope": 1, "form": "lime"}, r"target\.form is not known.*'line'"),
        ({"kind": "hers:ramp"}, r"target\.slope is missing"),
        ({"kind": "hers:ramp", "slop": 1}, r"target\.slop is not known .*Did you mean 'slope'"),
        ({"kind": "hers:tokens", "sizes": [1, 2.5]}, r"target\.sizes must be a whole number"),
        ({"kind": "hers:tokens", "sizes": [1], "name": 3}, r"target\.name must be a word"),
        ({"kind": "hers:ramp", "slope": 1, "code": "0" * 12}, r"target\.code is not that of hers"),
        ({"kind": "hers:refuses", "slope": 1}, r"^target\.slope is unlucky.*Pass target\.slope=12"),
        ({"kind": "hers:nothing"}, r"must give a Target: got 'NoneType'"),
        ({"kind": "hers:untyped", "slope": 1}, r"a parameter has no type: got 'slope'.*def my_"),
        (
            {"kind": "hers:strange", "law": 1},
            r"cannot hold a value of the type of its parameter law",
        ),
        ({"kind": "hers:starred"}, r"must name its parameters"),
        ({"kind": "hers:clash"}, r"settings use otherwise: got 'kind'"),
        ({"kind": "hers:rmap"}, r"no function or class rmap in .*hers\.py.*Did you mean 'ramp'"),
        ({"kind": "hers:number"}, r"no function or class number"),
        ({"kind": "his:ramp"}, r"there is no module his.*Put his\.py into the current folder"),
        ({"kind": "hers:"}, r"must be MODULE:NAME"),
        ({"kind": "../hers:ramp"}, r"must be MODULE:NAME"),
        ({"kind": "hers"}, r"target\.kind is not known.*A function of your own is \"module:name\""),
    ],
)
def test_what_is_wrong_with_an_own_target_is_named(
    settings: dict[str, Any], words: str, folder: Path
) -> None:
    with pytest.raises(InputError, match=words):
        build_target(settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_module_of_hers\n", r"ModuleNotFoundError: No module named 'no_such"),
        ("x = 1\ny = 1 / 0\n", r"ZeroDivisionError: division by zero, .*broken\.py:2"),
        ("def f(:\n", r"SyntaxError"),
        ("raise SystemExit(3)\n", r"SystemExit: 3"),
    ],
)
def test_a_module_that_fails_shows_its_error(text: str, words: str, folder: Path) -> None:
    (folder / "broken.py").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"the module broken fails .*{words}"):
        build_target({"kind": "broken:ramp"})


def test_a_model_must_take_the_sizes_of_tokens_and_be_a_module(folder: Path) -> None:
    target = spectral_target(1.0, 2)
    with pytest.raises(InputError, match="must have the parameter d"):
        build_model({"kind": "hers:ramp", "slope": 1}, target)
    (folder / "wrong.py").write_text("def make(d: int, out: int):\n    return 3\n")
    with pytest.raises(InputError, match="must give a torch module: got 'int'"):
        build_model({"kind": "wrong:make"}, target)


def code_of(folder: Path, name: str, text: str, word: str) -> str:
    (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    return str(complete_target({"kind": f"{name}:{word}", "slope": 1})["code"])


def test_the_fingerprint_changes_with_the_code_that_matters_and_with_no_other(folder: Path) -> None:
    whole = code_of(folder, "one", MODULE, "coupled")
    assert len(whole) == 12
    assert code_of(folder, "two", MODULE, "coupled") == whole
    assert code_of(folder, "three", MODULE.replace("hidden", "wide"), "coupled") == whole
    helper = MODULE.replace("SCALE * u * v", "SCALE * u * v * v")
    assert code_of(folder, "four", helper, "coupled") != whole
    assert code_of(folder, "five", MODULE.replace("SCALE = 1.0", "SCALE = 2.0"), "coupled") != whole
    itself = MODULE.replace("lambda x: x, lambda x: x", "lambda x: x, lambda x: 2 * x")
    assert code_of(folder, "six", itself, "coupled") != whole


def test_the_fingerprint_is_no_setting_that_is_offered(folder: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'slope'") as caught:
        complete_target({"kind": "hers:ramp", "slop": 1})
    assert "code" not in str(caught.value)


def test_modules_are_found_in_other_folders_once_these_are_named(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "lower.py").write_text("from hers import ramp\n", encoding="utf-8")
    with pytest.raises(InputError, match="no module lower"):
        build_target({"kind": "lower:ramp", "slope": 1})
    look_in(inner)
    assert build_target({"kind": "lower:ramp", "slope": 1}).length == 4


def test_the_function_itself_is_a_kind_and_becomes_its_word(folder: Path) -> None:
    look_in(folder)
    import hers  # type: ignore[import-not-found]

    assert complete_target({"kind": hers.ramp, "slope": 1})["kind"] == "hers:ramp"
    assert TARGETS.registered("hers:ramp") is None
    given = {"kind": spectral_target, "alpha": 1.0, "rank": 2}
    assert complete_target(given) == complete_target({**given, "kind": "spectral"})
    with pytest.raises(InputError, match="must be a word, a function or a class"):
        build_target({"kind": nn.Identity()})


def test_a_function_that_cannot_be_imported_is_registered_for_this_process() -> None:
    def local(slope: float, length: int = 4) -> Target:
        def rho(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return slope * (u * v).sum(-1)

        return AttentionTarget(identity, identity, rho, length)

    full = complete_target({"kind": local, "slope": 2.0})
    assert full["kind"].endswith(
        ":test_a_function_that_cannot_be_imported_is_registered_for_this_process.<locals>.local"
    )
    assert build_target(full).length == 4
    assert TARGETS.registered(full["kind"]) == (local, full["code"])
    there: Kinds[Any] = Kinds("target", "attnrate.targets", without=("inputs",))
    there.register(full["kind"], local, full["code"])
    assert there.complete(full) == full
    assert there.make(full).length == 4


@pytest.mark.parametrize("engine", [None, "sweep"])
def test_the_command_line_finds_a_module_of_the_current_folder(folder: Path, engine: str) -> None:
    words = ["target.kind=hers:ramp", "target.slope=2", "model.kind=hers:Pointwise"]
    command = ["fit", *words, "recipe.steps=2"]
    if engine:
        spec = "[target]\nkind='hers:ramp'\n[model]\nkind='hers:Pointwise'\n[recipe]\nsteps=2\n"
        (folder / "grid.toml").write_text(f"{spec}[grid]\n'target.slope'=[1, 2]\n")
        command = ["sweep", "grid.toml", "--workers", "1", "--json"]
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("attnrate")), *command],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    if engine:
        assert json.loads(ended.stdout)["finished"] == 2
    else:
        assert ended.stdout.startswith("mse ")


def run_cell(notebook: ModuleType, number: int, text: str) -> None:
    """Run code as a cell of a notebook: its source is known to linecache alone."""
    file, code = f"<cell {number}>", dedent(text)
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    exec(compile(code, file, "exec"), vars(notebook))  # noqa: S102


def test_an_edited_helper_of_the_same_notebook_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("notebook_of_hers")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    deep = "def deep(u):\n    return {} * u\n"
    run_cell(notebook, 1, "import attnrate as ar\nOTHER = 1\n" + deep.format(1))
    run_cell(notebook, 2, "def helper(u, slope):\n    return slope * deep(u)\n")
    run_cell(
        notebook,
        3,
        """
        def mine(slope: float) -> ar.Target:
            return ar.AttentionTarget(
                ar.identity, ar.identity, lambda u, v: helper(u, slope) * v, 4
            )
        """,
    )
    mine: Any = vars(notebook)["mine"]

    def code() -> str:
        return str(complete_target({"kind": mine, "slope": 1.0})["code"])

    first = code()
    run_cell(notebook, 4, deep.format(1))
    vars(notebook)["OTHER"] = 2
    assert code() == first  # run again as it was; what is not used does not count
    run_cell(notebook, 5, deep.format(2))
    edited = code()
    assert edited != first
    run_cell(notebook, 6, "def helper(u, slope):\n    return slope * deep(u) + 1\n")
    assert code() not in (first, edited)


def test_parameters_and_variables_do_not_count_though_the_notebook_has_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = ModuleType("notebook_with_names")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    run_cell(
        notebook,
        11,
        """
        import attnrate as ar
        FACTOR = 2
        def mine(sharp: float) -> ar.Target:
            length = 4
            rho = lambda u, v: FACTOR * sharp * u * v
            return ar.AttentionTarget(ar.identity, ar.identity, rho, length)
        """,
    )
    mine: Any = vars(notebook)["mine"]
    first = complete_target({"kind": mine, "sharp": 1.0})["code"]
    run_cell(notebook, 12, "sharp = u = length = rho = 7\n")
    assert complete_target({"kind": mine, "sharp": 1.0})["code"] == first
    run_cell(notebook, 13, "FACTOR = 3\n")
    assert complete_target({"kind": mine, "sharp": 1.0})["code"] != first


def test_a_function_that_fails_is_an_error_with_its_line_and_settings(folder: Path) -> None:
    text = "def broken(a: float):\n    raise KeyError('nokey')\n"
    (folder / "faulty.py").write_text(text, encoding="utf-8")
    words = (
        r"'faulty:broken' fails for the settings {'a': 2.0} \(KeyError: 'nokey'; faulty.py, line 2"
    )
    with pytest.raises(InputError, match=words):
        build_target({"kind": "faulty:broken", "a": 2.0})


def test_a_file_name_and_a_hidden_module_are_recognised(folder: Path) -> None:
    with pytest.raises(InputError, match=r"without \.py: .*Did you mean hers:ramp\?"):
        build_target({"kind": "hers.py:ramp", "slope": 1})
    (folder / "colorsys.py").write_text("def f() -> None: ...\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"colorsys\.py .*hidden by another module, .*Rename"):
        build_target({"kind": "colorsys:f"})
