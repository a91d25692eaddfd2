"""attnrate: how large attention has to be. The public names; nothing else is public.

Names are loaded when first used, so that `import attnrate` and the command line's help are quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnrate.errors import AccuracyWarning, AttnrateError, InputError

__version__ = "0.1.0"

_HOME = {
    "AccuracyWarning": "attnrate.errors",
    "AttnrateError": "attnrate.errors",
    "InputError": "attnrate.errors",
}

__all__ = [*_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'attnrate' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
