"""Commands by a fork: the same words, files and exit codes as by a new Python, and no threads."""

import os
from pathlib import Path

import pytest
import warm_commands
from warm_commands import attnrate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("pod", "u*v", "--json"),
        ("pod", "sin(w)"),
        ("pod", "floor(1000000*abs(sin(12345*u+54321*v)))", "--max-rank", "4"),
        ("no-such-command",),
        ("data", "translation", "--names"),
    ],
)
def test_a_fork_and_a_new_python_say_the_same(words: tuple[str, ...]) -> None:
    fork, new = (attnrate(*words, new=new) for new in (False, True))
    # a new Python is started as a module, a fork goes by the name of the installed command
    said = new.stderr.replace("python -m attnrate.cli", "attnrate")
    assert (fork.returncode, fork.stdout, fork.stderr) == (new.returncode, new.stdout, said)


def test_each_command_has_its_own_folder_and_environment(tmp_path: Path) -> None:
    here = os.getcwd()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        done = attnrate("pod", "u*v", "--plot", "drawn.png", folder=tmp_path / name)
        assert done.returncode == 0
        assert (tmp_path / name / "drawn.png").exists()
        cache = {"ATTNRATE_CACHE": str(tmp_path / name)}
        kept = tmp_path / name / "attnrate-cache" / "weights" / "minilm"
        kept.mkdir(parents=True)
        assert attnrate("data", "weights", "minilm", settings=cache).stdout == f"{kept}\n"
    assert os.getcwd() == here


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_what_forks_has_one_thread() -> None:
    attnrate("--version")
    server = warm_commands._server()
    assert server.poll() is None
    assert len(os.listdir(f"/proc/{server.pid}/task")) == 1
