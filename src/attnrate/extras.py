"""Packages that only some functions need, and the command that installs them.

They are grouped into extras ("hf", "data", "report", …). The command names the packages of an extra
and not attnrate itself, so that it works wherever attnrate comes from: a clone, a wheel, an index.
"""

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from attnrate.errors import InputError

_OF_AN_EXTRA = re.compile(
    r"""\s*(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>\w+)['"]\s*"""
)


def install_command(package: str, extra: str) -> str:
    """The pip command that installs all packages of an extra.

    Args:
        package: The package that is missing. Where attnrate's own metadata are missing too, as in
            a copy that was never installed, the command names this package alone.
        extra: The extra of pyproject.toml that the package belongs to.

    Returns:
        One line for a shell, for instance `pip install 'jinja2>=3.1' 'plotly>=6'`.

    """
    try:
        listed = requires("attnrate") or []
    except PackageNotFoundError:
        listed = []
    matches = (_OF_AN_EXTRA.fullmatch(line) for line in listed)
    found = [match["package"] for match in matches if match and match["extra"] == extra]
    return "pip install " + " ".join(f"'{one}'" for one in found or [package])


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not imported."""
    return find_spec(module) is not None


def missing(
    package: str, extra: str, purpose: str, value: object, otherwise: str = ""
) -> InputError:
    """The error for a package that is not installed.

    Args:
        package: The package as pip knows it.
        extra: The extra that it belongs to.
        purpose: What needs the package, as the subject of the message: "the page".
        value: What the user asked for.
        otherwise: How to do without the package: "Export to a .csv file".

    Returns:
        An InputError, to be raised, whose message ends with the command that installs the package.

    """
    remedy = f"{otherwise}, or install it" if otherwise else "Install it"
    what = f"{purpose} needs {package}, which is not installed"
    return InputError(what, value, f"{remedy}: {install_command(package, extra)}")
