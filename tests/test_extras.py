"""The command that installs what is missing: from metadata, and without any."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from attnrate import extras
from attnrate.extras import install_command, is_installed, missing

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", ["ray", "parquet", "sound", "report", "hf", "data"])
def test_the_command_names_every_package_of_an_extra_and_not_attnrate(extra: str) -> None:
    said = install_command("any", extra)
    assert said.startswith("pip install '")
    named = set(said.split("'")[1::2])
    # package indexes take "_" and "-" for the same
    assert named == {one.replace("_", "-") for one in EXTRAS[extra]}
    assert "attnrate" not in said


def test_a_copy_without_metadata_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", none)
    assert install_command("gguf", "hf") == "pip install 'gguf'"


def test_metadata_of_other_writers_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ['ray >= 2.40 ; extra == "ray"', "torch>=2", "pytest; extra == 'test'"]
    monkeypatch.setattr(extras, "requires", lambda name: listed)
    assert install_command("ray", "ray") == "pip install 'ray >= 2.40'"


def test_a_module_that_may_not_be_imported_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_installed("json")
    assert not is_installed("no_such_module_at_all")
    monkeypatch.setitem(sys.modules, "json", None)
    assert not is_installed("json")


def test_the_error_says_what_needs_what_and_how_to_get_it() -> None:
    problem = missing("ray", "ray", "the engine", "ray", "Use engine='local'")
    assert str(problem) == (
        "the engine needs ray, which is not installed: got 'ray'. "
        "Use engine='local', or install it: pip install 'ray>=2.40'"
    )
    assert "Install it: pip install" in str(missing("ray", "ray", "the engine", "ray"))
