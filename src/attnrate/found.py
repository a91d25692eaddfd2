"""What is found by being there: the files of a package."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """The modules of a package by name, imported; `package` is its dotted name."""
    place = import_module(package).__path__
    return [import_module(f"{package}.{found.name}") for found in iter_modules(place)]
