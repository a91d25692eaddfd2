"""Commands and programs as processes of their own that need not import torch anew.

`python -m attnrate.cli` takes seconds to import other people's libraries, and tests run it often.
Here one Python imports those libraries, and nothing of attnrate, and forks for each command; the
child runs the command from its first line to its end, with its own folder, environment, output and
exit code. What a fork cannot show, that a command imports all it needs, is shown by the tests that
ask for a `new` Python: one for each command. A `program` is run in the same way, as a script is.

Forking is safe here because the parent has done nothing but import: it has no threads.
"""

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn, cast

LIBRARIES = (
    *("numpy", "pandas", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg"),
    *("scipy.optimize", "scipy.special", "scipy.stats", "matplotlib.figure", "rich.table"),
    *("torch", "torch.func", "pytorch_optimizer", "safetensors.torch", "jaxtyping"),
    "torch._dynamo",  # torch imports it for its first optimiser
    *("typer", "rich.live"),
)
# what some need besides, and only where it is installed
MODELS = ("jinja2", "plotly.graph_objects", "transformers.models.bert.modeling_bert")
MODELS += ("transformers.models.llama.modeling_llama",)


def attnrate(
    *words: object,
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
    new: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command in that folder with these settings of the environment besides the usual ones.

    With `new`, or where Python cannot fork, by a Python that has imported nothing.
    """
    asked = [str(word) for word in words]
    environment = {**os.environ, **_USUAL, **(settings or {})}
    if new or not hasattr(os, "fork"):
        command = [sys.executable, "-m", "attnrate.cli", *asked]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env=environment
        )
    return _forked(asked, environment, folder, asked[:1] in (["profile"], ["compress"]))


def program(
    script: Path,
    *words: object,
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
    models: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a script as `python script words` does, with transformers imported if it opens `models`.

    Where Python cannot fork, it is a Python that has imported nothing.
    """
    asked = [str(script), *(str(word) for word in words)]
    environment = {**os.environ, **_USUAL, **(settings or {})}
    if not hasattr(os, "fork"):
        return subprocess.run(
            [sys.executable, *asked],
            capture_output=True, text=True, check=False, cwd=folder, env=environment,
        )  # fmt: skip
    return _forked(asked, environment, folder, models, script)


def _forked(
    asked: list[str],
    environment: Mapping[str, str],
    folder: Path | None,
    models: bool,
    script: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Have the warm Python fork, and wait for the end of the child."""
    with tempfile.TemporaryDirectory() as spare:
        out, err = Path(spare) / "out", Path(spare) / "err"
        request = {"words": asked, "folder": os.fspath(folder or os.getcwd()), "models": models}
        request |= {"environment": environment, "out": str(out), "err": str(err)}
        request |= {"script": script and str(script)}
        server = _server()
        to, back = cast(IO[bytes], server.stdin), cast(IO[bytes], server.stdout)
        to.write(json.dumps(request).encode() + b"\n")
        to.flush()
        code = json.loads(back.readline())
        return subprocess.CompletedProcess(asked, code, out.read_text(), err.read_text())


# a hub is asked for nothing in a test, and libraries look at that when they are imported
_USUAL = {"COLUMNS": "120", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}


@cache
def _server() -> "subprocess.Popen[bytes]":
    # BLAS and the allocator of pyarrow would start threads when they are imported
    alone = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    alone["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    server = subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **_USUAL, **alone},
    )
    atexit.register(_end, server)
    return server


def _end(server: "subprocess.Popen[bytes]") -> None:
    cast(IO[bytes], server.stdin).close()
    cast(IO[bytes], server.stdout).close()
    server.wait()


def _serve() -> None:
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _import(LIBRARIES)
    for line in requests:
        request = json.loads(line)
        if request["models"]:
            _import(MODELS)
        child = os.fork()
        if child == 0:
            replies.close()
            _become(request)
            _run(request["script"])
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        replies.write(json.dumps(code).encode() + b"\n")
        replies.flush()


def _run(script: str | None) -> NoReturn:
    """The work with all that a Python does at its end, but for freeing what the fork shares."""
    code: object = 0
    try:
        if script is None:
            from attnrate.cli import main

            main()
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            runpy.run_path(script, run_name="__main__")
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
    os._exit(code if isinstance(code, int) else int(code is not None))


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)
    gc.freeze()  # else the first collection of every child copies all of it


def _become(request: dict[str, Any]) -> None:
    """Take on the output, folder, environment and arguments of a command."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, err = (
        os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")
    )
    for mine, its in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(mine, its)
        os.close(mine)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    theirs = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [os.path.abspath(entry) for entry in theirs if entry]
    sys.argv = request["words"] if request["script"] else ["attnrate", *request["words"]]


if __name__ == "__main__":
    _serve()
