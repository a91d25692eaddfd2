"""attnrate: how large attention has to be.

`__init__.pyi` is the one list of public names; nothing else is public. A name is loaded when it is
first used, so that `import attnrate` and the command line's help are quick.
"""

import copyreg
import importlib
import sys
from types import ModuleType

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def _by_name(module: ModuleType) -> tuple[object, tuple[str]]:
    return importlib.import_module, (module.__name__,)


# `compress` is a function and a room. Lazy_loader then gives this module a class of its own, and
# without a word on how it is sent, no function of a notebook that uses `ar` would reach a worker.
if type(sys.modules[__name__]) is not ModuleType:
    copyreg.pickle(type(sys.modules[__name__]), _by_name)
