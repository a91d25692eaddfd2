"""A user's own functions in sweeps: from a script, a notebook and a module, in real workers."""

import sys
from pathlib import Path

import pytest
import torch
import warm_commands
from warm_commands import program

import attnrate as ar
from attnrate.errors import InputError
from attnrate.fitting.build import complete
from attnrate.fitting.ship import pack
from attnrate.fitting.store import Store
from attnrate.fitting.trial import Trial, run_trial

SCRIPT = '''
import sys
import torch
import attnrate as ar

SHIFT = 0.5

def ramp(slope: float, length: int = 4) -> ar.Target:
    """ρ(u, v) = slope u v, shifted."""
    def rho(u, v):
        return slope * (u * v).sum(-1) + SHIFT
    return ar.AttentionTarget(ar.identity, ar.identity, rho, length)

class Pointwise(torch.nn.Module):
    """y = W x."""
    def __init__(self, d: int, out: int, units: int = 2):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(d, units), torch.nn.Linear(units, out))

    def forward(self, x):
        return self.net(x)
'''
SWEEP = """
result = ar.sweep(
    {
        "target": {"kind": ramp},
        "model": {"kind": Pointwise},
        "recipe": {"steps": 2, "optimizer": "adam"},
        "grid": {"target.slope": [1.0, 2.0]},
    },
    engine=ENGINE, store=STORE, workers=1,
)
print([row.result["error"] for row in result.finished], len(result.failed))
"""


def ran(folder: Path, text: str, engine: str = "local") -> str:
    """Run a script in a folder; what it prints."""
    script = folder / "script.py"
    store = folder / "s.sqlite"
    script.write_text(f"ENGINE, STORE = {engine!r}, {str(store)!r}\n{text}")
    done = program(script, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_this_process(folder: Path, slope: float) -> float:
    """The error of the same trial, whose functions are in a module here."""
    (folder / "of_the_script.py").write_text(SCRIPT)
    sys.path.insert(0, str(folder))
    try:
        import of_the_script

        trial = Trial(
            {"kind": of_the_script.ramp, "slope": slope},
            {"kind": of_the_script.Pointwise},
            {"steps": 2, "optimizer": "adam"},
        )
        (one,) = complete([trial])
        assert one.job.target["kind"] == "of_the_script:ramp"
        assert pack([one.job]) == b""  # workers can import it
        return float(run_trial(one.job.settings)["error"])
    finally:
        sys.path.remove(str(folder))


@pytest.mark.slow
def test_functions_of_a_script_give_the_numbers_that_they_give_in_a_module(tmp_path: Path) -> None:
    printed = ran(tmp_path, SCRIPT + SWEEP)
    wanted = [in_this_process(tmp_path, slope) for slope in (1.0, 2.0)]
    assert printed == f"{wanted} 0\n"
    with Store(tmp_path / "s.sqlite", writable=False) as kept:
        settings = kept.finished()[0].settings
    assert settings["target"]["kind"] == "__main__:ramp"
    assert settings["model"]["kind"] == "__main__:Pointwise"
    # the functions themselves are not kept
    assert b"cloudpickle" not in (tmp_path / "s.sqlite").read_bytes()
    # an edited function, and an edited value that it uses, are not taken for the old ones
    assert "ran 0" in ran(tmp_path, SCRIPT + SWEEP + "print('ran', result.ran)")
    edited = SCRIPT.replace("SHIFT = 0.5", "SHIFT = 0.25")
    assert "ran 2" in ran(tmp_path, edited + SWEEP + "print('ran', result.ran)")


@pytest.mark.slow
def test_functions_of_a_script_run_on_ray_too(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    printed = ran(tmp_path, SCRIPT + SWEEP, "ray")
    assert printed == f"{[in_this_process(tmp_path, slope) for slope in (1.0, 2.0)]} 0\n"


@pytest.mark.slow
def test_functions_of_a_notebook_run_in_workers(tmp_path: Path) -> None:
    from nbclient import NotebookClient
    from nbformat import v4

    head = f"ENGINE, STORE = 'local', {str(tmp_path / 's.sqlite')!r}\n"
    cells = [v4.new_code_cell(head + SCRIPT), v4.new_code_cell(SWEEP), v4.new_code_cell("result")]
    book = v4.new_notebook(cells=cells)
    NotebookClient(book, kernel_name="python3", timeout=300).execute()
    texts = [output["text"] for output in book.cells[1].outputs if "text" in output]
    assert texts[-1] == f"{[in_this_process(tmp_path, slope) for slope in (1.0, 2.0)]} 0\n"
    (shown,) = book.cells[2].outputs
    assert "<table" in shown["data"]["text/html"]


@pytest.mark.slow
def test_a_function_of_a_module_is_found_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    spec = tmp_path / "grid.toml"
    spec.write_text(
        '[target]\nkind = "mine:ramp"\nslope = 1.0\n[model]\nkind = "mine:Pointwise"\n'
        "[recipe]\nsteps = 2\noptimizer = 'adam'\n"
    )
    words = "sweep", spec, "--workers", "1"
    done = warm_commands.attnrate(*words, folder=Path(sys.executable).parent)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 trials finished" in done.stdout


def test_a_target_itself_is_refused_with_the_way_out() -> None:
    target = ar.spectral_target(1.0, 2, length=4)
    for given in (target, lambda: target):
        with pytest.raises(InputError, match=r'Pass \{"kind": function'):
            ar.sweep({"target": given, "model": {"kind": "gru"}})
    with pytest.raises(InputError, match="model must be a table"):
        ar.sweep({"target": {"kind": "spectral"}, "model": torch.nn.Linear(1, 1)})


def test_a_grid_can_vary_functions() -> None:
    def one(length: int = 4) -> ar.Target:
        return ar.spectral_target(1.0, 2, length=length)

    def two(length: int = 4) -> ar.Target:
        return ar.spectral_target(2.0, 2, length=length)

    spec = {"model": {"kind": "gru", "hidden": 2}, "grid": {"target.kind": [one, two]}}
    from attnrate.fitting.spec import load_spec

    kinds = [trial.target["kind"] for trial in load_spec(spec).trials]
    assert [kind.rpartition(".")[2] for kind in kinds] == ["one", "two"]
    whole = {"model": {"kind": "gru"}, "grid": {"target": [{"kind": one}, {"kind": two}]}}
    assert [trial.target["kind"] for trial in load_spec(whole).trials] == kinds
    assert pack(one.job for one in complete(load_spec(spec).trials))


def test_a_function_that_cannot_be_sent_is_refused_with_its_reason() -> None:
    import threading

    lock = threading.Lock()

    def locked(length: int = 4) -> ar.Target:
        with lock:
            return ar.spectral_target(1.0, 2, length=length)

    trial = Trial({"kind": locked}, {"kind": "gru", "hidden": 2})
    with pytest.raises(InputError, match="cannot be sent to the workers"):
        pack(one.job for one in complete([trial]))
