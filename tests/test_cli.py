"""The command line as a user meets it: what it prints, what it draws, how it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from warm_commands import attnrate

from attnrate.targets import linear_target, swap_ends

D3 = "1+2*sin(2*pi*u)*sin(2*pi*(u+v))"
FIT = ("target.kind=linear", "target.kernel=exponential", "target.length=6", "recipe.steps=300")
SIGMA_D3 = [np.sqrt((7 + np.sqrt(33)) / 8), 0.5, np.sqrt((7 - np.sqrt(33)) / 8)]


def test_pod_prints_the_spectrum_of_d3_and_that_it_converged() -> None:
    done = attnrate("pod", D3, new=True)
    assert done.returncode == 0
    assert done.stderr == ""
    for value in ("1.26216889948", "0.396143495697", "rank 3", "converged", "finite rank"):
        assert value in done.stdout


def test_pod_as_json_is_one_object_with_the_exact_values() -> None:
    answer = json.loads(attnrate("pod", D3, "--json").stdout)
    np.testing.assert_allclose(answer["sigma"], SIGMA_D3, rtol=1e-12)
    assert answer["rank"] == 3
    assert answer["converged"] is True
    assert answer["decay"]["law"] == "finite rank"


def test_pod_as_json_gives_an_order_without_an_interval() -> None:
    decay = json.loads(attnrate("pod", "exp(u*v)", "--json").stdout)["decay"]
    assert decay["law"] == "superexponential"
    assert decay["order"] > 0
    assert decay["interval"] is None


def test_pod_takes_domains_with_negative_ends_and_a_gauge() -> None:
    words = ("pod", "u+v", "--u", "-1", "1", "--v", "0", "2", "--gauge", "softmax", "--json")
    answer = json.loads(attnrate(*words).stdout)
    # modulo c(u) what is left of u + v is v - 1, of norm √2 · √(2/3)
    np.testing.assert_allclose(answer["sigma"], [np.sqrt(4 / 3)], rtol=1e-12)


def test_pod_without_a_gauge_is_pod_with_the_gauge_none() -> None:
    plain = json.loads(attnrate("pod", "u+v", "--json").stdout)
    none = json.loads(attnrate("pod", "u+v", "--gauge", "none", "--json").stdout)
    assert plain == none
    assert plain["gauge"] == "none"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pod_draws_the_spectrum(tmp_path: Path, suffix: str) -> None:
    done = attnrate("pod", D3, "--plot", f"spectrum.{suffix}", folder=tmp_path)
    assert done.returncode == 0
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    assert (tmp_path / f"spectrum.{suffix}").read_bytes().startswith(start)


def test_pod_that_does_not_converge_exits_with_1_and_says_how_far_it_got() -> None:
    done = attnrate("pod", "floor(1000000*abs(sin(12345*u+54321*v)))", "--max-rank", "4")
    assert done.returncode == 1
    assert "did not converge" in done.stderr
    assert "NOT CONVERGED" in done.stdout


def test_bound_prints_the_proved_bound_above_the_compiled_error() -> None:
    words = ("bound", "--alpha", "1", "--rank", "6", "--m-h", "1,3,6", "--compile", "--json")
    rows = json.loads(attnrate(*words, "--norm", "l1", new=True).stdout)["bounds"]
    assert [row["m_h"] for row in rows] == [1, 3, 6]
    assert all(row["compiled"] <= row["rigorous"] for row in rows)
    assert rows[0]["compiled"] > 0.1
    assert rows[-1]["compiled"] < 1e-12


def test_bound_measures_the_mean_squared_error_unless_another_norm_is_named() -> None:
    words = ("bound", "--alpha", "1", "--rank", "2", "--length", "4", "--m-h", "1", "--json")
    plain, mse, l1 = (
        json.loads(attnrate(*words, *more).stdout)
        for more in ((), ("--norm", "mse"), ("--norm", "l1"))
    )
    assert plain == mse
    assert (mse["norm"], l1["norm"]) == ("mse", "l1")
    assert mse["bounds"][0]["rigorous"] != l1["bounds"][0]["rigorous"]


def test_bound_of_a_typed_coupling_with_networks_and_a_split() -> None:
    words = ("bound", "exp(-(u-v)**2)", "--m-ff", "64", "--m-h", "2", "--parameters", "3000")
    done = attnrate(*words)
    assert done.returncode == 0
    assert "best split: m_h = " in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pod", "__import__('os')"), "__import__"),
        (("pod", "u.real"), "u"),
        (("pod", "sin(w)"), "w"),
        (("pod", "u", "--u", "1", "0"), "(1.0, 0.0)"),
        (("pod", "1/(u-u)"), "inf"),
        (("pod", "u", "--gauge", "hard"), "'hard'"),
        (("pod", "u", "--rtol", "2"), "2.0"),
        (("pod", "u", "--max-rank", "0"), "0"),
        (("pod", "u", "--plot", "x.gif"), "x.gif"),
        (("pod", "u", "--plot", "no/such/folder/x.png"), "no/such/folder"),
        (("bound",), "--alpha"),
        (("bound", "u*v", "--alpha", "1", "--rank", "2"), "--alpha"),
        (("bound", "--alpha", "0.5", "--rank", "2"), "0.5"),
        (("bound", "--alpha", "1", "--rank", "2", "--m-h", "1,x"), "1,x"),
        (("bound", "--alpha", "1", "--rank", "2", "--m-h", "0"), "0"),
        (("bound", "--alpha", "1", "--rank", "2", "--norm", "l2"), "'l2'"),
        (("bound", "--alpha", "1", "--rank", "2", "--parameters", "3"), "3"),
        (("pod",), "RHO"),
        (("reproduse",), "reproduse"),
        (("fit", "target"), "NAME=VALUE"),
        (("fit", *FIT, "model.kind=linear_rn"), "linear_rnn"),
        (("fit", *FIT, "model.kind=gru", "model.hiden=3"), "hidden"),
        (("fit", *FIT, "model.kind=gru", "recipe.stepz=3"), "steps"),
        (("fit", *FIT, "model.kind=gru", "recipe.starts=0"), "starts"),
        (("fit", *FIT, "model.kind=gru", "grid.seed=[0, 1]"), "attnrate sweep"),
        (("fit", *FIT, "model.kind=gru", "model.kind=linear_rnn"), "twice"),
        (("bracket", "target"), "NAME=VALUE"),
        (("bracket", *FIT, "model.kind=gru", "seed=-1"), "-1"),
        (("bracket", *FIT, "model.kind=gru", "--threads", "0"), "threads"),
        (("sweep", "no-such-spec.toml"), "no-such-spec.toml"),
        (("sweep", "no-such-spec.toml", "--status"), "no-such-spec.toml"),
    ],
)
def test_a_wrong_request_exits_with_2_and_names_the_value(
    words: tuple[str, ...], said: str
) -> None:
    done = attnrate(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_has_an_example_for_every_command_and_does_not_import_torch() -> None:
    for command in ("pod", "bound", "fit", "bracket", "sweep"):
        assert f"Example: attnrate {command}" in attnrate(command, "--help", new=True).stdout
    program = (
        "import sys\nfrom attnrate.cli.commands import app\n"
        "try:\n    app(['pod', 'u*v', '--json'])\nexcept SystemExit:\n    pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_version() -> None:
    assert attnrate("--version").stdout.startswith("attnrate 0.")


def test_fit_trains_and_tells_the_error_as_json() -> None:
    words = ("fit", *FIT, "model.kind=linear_rnn", "model.hidden=8", "seed=2", "--json")
    answer = json.loads(attnrate(*words, new=True).stdout)
    assert answer["settings"]["seed"] == 2
    assert answer["steps"] == 300
    assert 0 < answer["error"] < answer["curve"][0][2]
    assert len(answer["starts"]) == 1
    assert {"torch", "git_commit"} <= {*answer["provenance"]}


def test_fit_takes_the_best_of_several_starts() -> None:
    words = ("fit", *FIT[:3], "recipe.steps=20", "recipe.starts=3", "model.kind=linear_rnn")
    answer = json.loads(attnrate(*words, "--json").stdout)
    assert answer["steps"] == 60
    assert min(answer["starts"]) == min(error for _, _, error in answer["curve"])


def test_a_sweep_runs_once_exports_and_tells_its_status(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        '[target]\nkind = "linear"\nkernel = "exponential"\nlength = 6\n'
        '[model]\nkind = "linear_rnn"\nhidden = 4\n[recipe]\nsteps = 20\n'
        "optimizer = 'adam'\n[grid]\nseed = [0, 1, 2]\n"
    )
    before = attnrate("sweep", "spec.toml", "--status", "--export", "early.csv", folder=tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    first = attnrate("sweep", "spec.toml", "--export", "out.csv", folder=tmp_path, new=True)
    again = attnrate("sweep", "spec.toml", folder=tmp_path)
    after = attnrate("sweep", "spec.toml", "--status", "--json", folder=tmp_path)
    assert (before.returncode, before.stdout) == (0, "0 of 3 trials finished, 3 waiting\n")
    assert "nothing is finished yet, early.csv was not written" in before.stderr
    assert names == ["spec.toml"]
    assert (first.returncode, again.returncode, after.returncode) == (0, 0, 0)
    assert "3 of 3 trials finished, 3 of them now" in first.stdout
    assert "3 of 3 trials finished, 0 of them now" in again.stdout
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4
    counts = {"total": 3, "finished": 3, "failed": 0, "running": 0, "waiting": 0}
    assert json.loads(after.stdout) == counts
    table = pd.read_csv(tmp_path / "out.csv")
    assert {"error", "git_commit", "git_changed", "torch", "recipe.starts"} <= {*table}


def test_a_sweep_ends_in_means_with_intervals_and_a_figure(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        '[target]\nkind = "linear"\nkernel = "exponential"\nlength = 6\n'
        '[model]\nkind = "linear_rnn"\n[recipe]\nsteps = 5\n'
        '[grid]\nseed = [0, 1]\n"model.hidden" = [2, 4]\n'
    )
    words = ("sweep", "spec.toml", "--workers", "1")
    done = attnrate(*words, folder=tmp_path, settings={"COLUMNS": "60"})
    assert done.returncode == 0, done.stderr
    assert "--export FILE.csv" in done.stdout
    header, *_ = [line for line in done.stdout.splitlines() if line.startswith("error")]
    assert header.split() == ["error", "95", "%", "interval", "hidden", "fits"]
    drawn = attnrate(*words, "--plot", "errors.png", "--json", folder=tmp_path)
    answer = json.loads(drawn.stdout)
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    assert [row["model.hidden"] for row in answer["means"]] == [2, 4]
    for row in answer["means"]:
        assert row["low"] <= row["error"] <= row["high"]
    refused = attnrate(*words, "--status", "--plot", "errors.png", folder=tmp_path)
    assert (refused.returncode, "--status" in refused.stderr) == (2, True)


def test_a_sweep_whose_trials_fail_exits_with_1_and_says_why_as_json(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        '[target]\nkind = "linear"\nkernel = "exponential"\nlength = 6\n'
        # more than any memory: found out when the first batch is drawn
        '[model]\nkind = "linear_rnn"\nhidden = 4\n[recipe]\nfirst_batch = 1000000000000\n'
    )
    words = ("sweep", "spec.toml", "--export", "out.csv", "--json")
    done = attnrate(*words, folder=tmp_path)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["total"], answer["finished"], answer["ran"]) == (1, 0, 0)
    assert "memory" in answer["failures"][0]["error"]
    assert not (tmp_path / "out.csv").exists()


def test_bracket_of_a_transformer_has_all_three_parts() -> None:
    spectral = ("target.kind=spectral", "target.alpha=1", "target.rank=2", "target.length=4")
    model = ("model.kind=transformer", "model.m_h=2", "recipe.steps=20")
    answer = json.loads(attnrate("bracket", *spectral, *model, "--json", new=True).stdout)
    assert [*answer["parts"]] == ["compiled", "compiled, then trained", "trained"]
    assert answer["upper"] == answer["parts"][answer["upper_from"]] == min(answer["parts"].values())
    assert (answer["lower"], answer["left_out"]) == (0, {})
    assert {"torch", "git_commit"} <= {*answer["provenance"]}


def test_bracket_says_the_floor_of_a_recurrent_model() -> None:
    permuted = ("target.permute={swap_ends=2}", "model.kind=linear_rnn", "recipe.steps=20")
    done = attnrate("bracket", *FIT[:3], *permuted)
    assert done.returncode == 0
    floor = linear_target("exponential", 6).permuted(swap_ends(6, 2)).floor("time-invariant")
    assert done.stdout.startswith(f"{floor:.3e} (best causal convolution with a bias) <= best <= ")


@pytest.mark.parametrize("command", ["fit", "bracket"])
def test_work_that_diverges_exits_with_1(command: str) -> None:
    wild = ("recipe.lr=1e30", "recipe.clip=1e30", "recipe.optimizer=adam", "recipe.check_every=5")
    done = attnrate(command, *FIT[:3], "recipe.steps=50", *wild, "model.kind=linear_rnn")
    assert done.returncode == 1
    assert "diverged" in done.stderr
    assert "Traceback" not in done.stderr
