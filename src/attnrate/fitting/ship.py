"""Send a user's functions to the workers of a sweep, where these cannot import them.

A function of a notebook, of a script or within another function is no part of a module that other
processes can import. It is sent to the workers by value (cloudpickle), from this process to its own
workers and nowhere else: stores keep its name and its fingerprint only.
"""

from collections.abc import Iterable

from attnrate.errors import InputError
from attnrate.fitting.job import Job


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


def unpack(data: bytes) -> None:
    """Register the functions that the parent process packed, in a worker."""
    if not data:
        return
    import cloudpickle

    from attnrate.models.base import MODELS
    from attnrate.targets.form import TARGETS

    for part, word, made, code in cloudpickle.loads(data):
        (TARGETS if part == "target" else MODELS).register(word, made, code)
