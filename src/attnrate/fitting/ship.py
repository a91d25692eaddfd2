"""Send a user's functions and data to the workers of a sweep, where these cannot get them.

A function of a notebook, of a script or within another function is no part of a module that other
processes can import. It is sent to the workers by value (cloudpickle), from this process to its own
workers and nowhere else: stores keep its name and its fingerprint only. Data are sent as bytes with
a name that stands in the settings of the jobs.
"""

from collections.abc import Iterable

from attnrate.errors import InputError
from attnrate.fitting.job import Job

#: How data begin that are no functions
_BYTES = b"attnrate-bytes:"
#: Data that this process was sent, by name
_given: dict[str, bytes] = {}


def pack(jobs: Iterable[Job]) -> bytes:
    """The functions that the jobs call by `kind` and that workers cannot import; often none."""
    from attnrate.models.base import MODELS
    from attnrate.targets.form import TARGETS

    words: dict[tuple[str, str], None] = {}
    for job in jobs:
        for part in ("target", "model"):
            words[part, str(job.settings[part]["kind"])] = None
    found = []
    for part, word in words:
        made = (TARGETS if part == "target" else MODELS).registered(word)
        if made is not None:
            found.append((part, word, *made))
    if not found:
        return b""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(found)
    except Exception as problem:  # whatever the user's function holds may refuse
        raise InputError(
            f"a function cannot be sent to the workers ({type(problem).__name__}: {problem})",
            [word for _, word, *_ in found],
            "Put it into a module of its own, and name it by kind = 'module:name'.",
        ) from problem
    return data


def pack_bytes(name: str, value: bytes) -> bytes:
    """Data that jobs need, to be sent to every worker; `given` finds them there.

    Args:
        name: The name by which a job asks for them, a word.
        value: The data.

    """
    return _BYTES + name.encode() + b"\n" + value


def given(name: str) -> bytes:
    """The data of that name that were sent to this worker; a KeyError if there are none."""
    return _given[name]


def unpack(data: bytes) -> None:
    """Register the functions or data that the parent process packed, in a worker."""
    if not data:
        return
    if data.startswith(_BYTES):
        name, _, value = data.removeprefix(_BYTES).partition(b"\n")
        _given[name.decode()] = value
        return
    import cloudpickle

    from attnrate.models.base import MODELS
    from attnrate.targets.form import TARGETS

    for part, word, made, code in cloudpickle.loads(data):
        (TARGETS if part == "target" else MODELS).register(word, made, code)
