"""The command line under faults: hostile values, links, a full output, signals."""

import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from warm_commands import attnrate

from attnrate.cli import _run
from attnrate.cli.stopping import Stopping
from attnrate.experiments.record import Record, record_to_plain
from attnrate.folders import write_mark
from attnrate.progress import Progress

FIT = ("fit", "target.kind=spectral", "target.alpha=1", "model.kind=coupling")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "attnrate.cli", *words]


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "a" + ".a" * 3000 + "=1"),
        (*FIT, "target.rank=" + "[" * 3000),
        (*FIT, "target.rank=0x" + "f" * 5000),
        ("bound", "--alpha", "1", "--rank", "2", "--m-h", "9" * 400),
        ("bound", "--alpha", "1", "--rank", "10000000000000"),
        ("bound", "exp(-(u-v)**2)", "--m-h", "2", "--alpha", "1e300", "--json"),
        (*FIT, "recipe.name=paper", "recipe.lr=1e300"),
        ("sweep", ".", "--status"),
        ("profile", "[/red]", "--inputs", "ids.npz"),
    ],
)
def test_values_that_cannot_even_be_shown_are_refused_in_words(words: tuple[str, ...]) -> None:
    done = attnrate(*words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr[-300:]


def test_more_parameters_than_any_memory_holds_are_split_all_the_same() -> None:
    words = ("--alpha", "2.5", "--rank", "2", "--length", "4", "--parameters", 10**15)
    done = attnrate("bound", *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["best_split"]["m_h"] == 2


def test_a_power_beyond_the_largest_number_leaves_no_rank_term() -> None:
    done = attnrate("bound", "--alpha", "1_000", "--rank", "2", "--m-h", "1,2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["bounds"][1]["printed"] == 0


@pytest.mark.parametrize("changes", [{"name": [1]}, {"seconds": "long"}, {"claims": [5]}])
def test_a_record_of_other_types_is_refused_in_words(
    changes: dict[str, object], tmp_path: Path
) -> None:
    record = Record("propositions", "a title", "Sec. 3", "quick", 2, 1, 1.5, {})
    write_mark(tmp_path, "reproduce", {"preset": "quick"})
    (tmp_path / "records").mkdir()
    told = json.dumps(record_to_plain(record) | changes)
    (tmp_path / "records" / "propositions.json").write_text(told)
    done = attnrate("report", tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr[-300:]
    assert "a record cannot be read" in done.stderr


@pytest.mark.parametrize("text", ["[/red]", "[link=x]", "[red]"])
def test_what_a_user_wrote_is_no_markup(
    text: str, on_a_terminal: Callable[[Callable[[], object]], str]
) -> None:
    def work() -> None:
        with Progress(f"opening {text} ..."):
            pass

    assert f"opening {text} ..." in on_a_terminal(work)


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (MemoryError(), 1, "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 1, "memory"),
        (OSError(28, "No space left on device", "page"), 1, "No space left on device): 'page'"),
        (PermissionError(13, "Permission denied"), 1, "the system refused (Permission denied)"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_what_the_system_refuses_is_a_message(
    problem: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def app() -> None:
        raise problem

    commands = types.ModuleType("attnrate.cli.commands")
    commands.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, commands.__name__, commands)
    assert _run(Stopping()) == code
    told = capsys.readouterr().err
    assert told.startswith("attnrate: ")
    assert said in told


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_plot_is_never_written_through_a_link(link: object, tmp_path: Path) -> None:
    own = tmp_path / "thesis.png"
    own.write_bytes(b"years of work")
    link(own, tmp_path / "plot.png")  # type: ignore[operator]
    assert attnrate("pod", "u*v", "--plot", "plot.png", folder=tmp_path).returncode == 0
    assert own.read_bytes() == b"years of work"
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_a_failure_in_words() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("pod", "u*v", "--json"), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_modules_are_imported_ends_in_130(number: int) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command(*FIT), stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    status = Path(f"/proc/{process.pid}/status")
    while not int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> 14 & 1:
        assert process.poll() is None, "ended before it listened to TERM"
        time.sleep(0.005)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in said) == (130, False), said[-500:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_within_code_that_is_run_from_a_string_ends_in_130(
    number: int, tmp_path: Path
) -> None:
    """As within a dataclass that is being made: `python -m` itself would end by SIGINT then."""
    (tmp_path / "interrupted.py").write_text(
        "import sys, types\nfrom attnrate.cli import main\n"
        "commands = types.ModuleType('attnrate.cli.commands')\n"
        f"commands.app = lambda: exec('import signal; signal.raise_signal({int(number)})')\n"
        "sys.modules[commands.__name__] = commands\nmain()"
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program = [sys.executable, "-m", "interrupted"]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stderr) == (130, b"attnrate: stopped\n")


def test_a_signal_after_the_work_does_not_change_the_exit_code() -> None:
    program = (
        "import atexit, sys, time\nfrom attnrate.cli import main\n"
        "atexit.register(lambda: (print('ending', flush=True), time.sleep(1)))\n"
        "sys.argv = ['attnrate', '--version']\nmain()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.readline() != b"ending\n":
            assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 0
