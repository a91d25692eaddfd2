"""Finding the modules of a package, so that a new file needs no entry in a list."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """The modules of a package, imported, in the order of their names.

    `package` is the dotted name of the package.
    """
    place = import_module(package).__path__
    return [import_module(f"{package}.{found.name}") for found in iter_modules(place)]
