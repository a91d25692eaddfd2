"""The commands fit, bracket and sweep: own code that fails, figures, files, wrong words."""

from pathlib import Path

import pytest
from warm_commands import attnrate

OWN = """
import attnrate as ar
import torch

def ramp(slope: float = 1.0) -> ar.Target:
    return ar.AttentionTarget(ar.identity, ar.identity, lambda u, v: slope * (u * v).sum(-1), 4)

def raises() -> ar.Target:
    return {}["nokey"]

class Late(ar.Target):
    length, inputs, out, name = 4, ar.UniformInputs(), 1, "late"

    def evaluate(self, x):
        return {}["later"]

def late() -> ar.Target:
    return Late()

class Bad(torch.nn.Module):
    def __init__(self, d: int, out: int):
        super().__init__()
        self.lin = torch.nn.Linear(d + 1, out)

    def forward(self, x):
        return self.lin(x)
"""
SPECTRAL = ("target.kind=spectral", "target.alpha=1", "target.rank=2", "target.length=4")
MODEL = ("model.kind=transformer", "model.m_h=1")


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        (
            *("raises", 2),
            (
                "attnrate: target.kind = 'mymodule:raises' fails",
                "KeyError: 'nokey'; mymodule.py, line 9",
            ),
        ),
        ("ramp", 2, ("mat1 and mat2 shapes cannot be multiplied",)),
        ("late", 1, ("attnrate: your code in mymodule.py failed: KeyError: 'later'",)),
    ],
)
@pytest.mark.parametrize("command", ["fit", "bracket"])
def test_own_code_that_fails_is_named_without_a_traceback_of_ours(
    command: str, target: str, code: int, said: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "mymodule.py").write_text(OWN, encoding="utf-8")
    kinds = (f"target.kind=mymodule:{target}", "model.kind=mymodule:Bad")
    done = attnrate(command, *kinds, "recipe.steps=1", folder=tmp_path)
    assert done.returncode == code
    assert all(words in done.stderr for words in said), done.stderr
    assert "Traceback" not in done.stderr
    assert "site-packages" not in done.stderr


@pytest.mark.parametrize("command", ["fit", "bracket"])
def test_a_fit_can_be_drawn(command: str, tmp_path: Path) -> None:
    file = tmp_path / "fit.png"
    done = attnrate(command, *SPECTRAL, *MODEL, "recipe.steps=2", "--plot", str(file))
    assert done.returncode == 0, done.stderr
    assert f"drew {file}" in done.stderr
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--steps", "20"), "No such option: --steps. Settings are words without dashes: recipe.s"),
        (("--m-h", "2"), "model.m_h=2"),
        (("--slope",), "slope=…"),
        (("spec.toml",), "Run attnrate sweep spec.toml"),
    ],
)
def test_what_is_no_setting_is_told_how_to_become_one(words: tuple[str, ...], said: str) -> None:
    done = attnrate("fit", *SPECTRAL, *words, settings={"COLUMNS": "200"})
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_sweep_says_which_table_it_has_written(tmp_path: Path) -> None:
    spec = """
[target]
kind = "spectral"
alpha = 1
rank = 2
length = 4
[model]
kind = "coupling"
m_h = 1
[recipe]
steps = 1
optimizer = "adam"
"""
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    table = tmp_path / "results.csv"
    words = ("sweep", str(tmp_path / "spec.toml"), "--workers", "1", "--export", str(table))
    done = attnrate(*words)
    assert done.returncode == 0, done.stderr
    assert f"wrote {table}" in done.stderr
    assert table.exists()
