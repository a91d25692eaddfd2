"""Where a result comes from: versions always, a commit only of a checkout of the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnrate.fitting import provenance as room
from attnrate.fitting.provenance import _found, _git_state, provenance


@pytest.fixture(autouse=True)
def asked_anew() -> None:
    _found.cache_clear()


def git(folder: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **who}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a package in it; the folder of the package."""
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("1")
    (tmp_path / "notes").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return package


def test_versions_are_those_that_run() -> None:
    import torch

    found = provenance()
    assert found["torch"] == str(torch.__version__)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert [*found] == ["attnrate", "torch", "python", "git_commit", "git_changed"]
    found["torch"] = None
    assert provenance()["torch"] is not None


def test_a_clean_checkout_has_its_commit_and_no_changes(checkout: Path) -> None:
    assert _git_state(checkout) == (git(checkout, "rev-parse", "HEAD"), False)


@pytest.mark.parametrize("name", ["__init__.py", "new.py"])
def test_a_changed_or_a_new_file_of_the_package_is_a_change(checkout: Path, name: str) -> None:
    (checkout / name).write_text("2")
    assert _git_state(checkout) == (git(checkout, "rev-parse", "HEAD"), True)


def test_a_change_elsewhere_in_the_repository_is_none(checkout: Path) -> None:
    (checkout.parents[1] / "notes").write_text("2")
    assert _git_state(checkout)[1] is False


def test_a_repository_that_merely_contains_the_installed_package_is_not_its_checkout(
    checkout: Path,
) -> None:
    installed = checkout.parents[1] / "site-packages" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("1")
    assert _git_state(installed) == (None, None)


def test_a_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    assert _git_state(tmp_path) == (None, None)


def test_variables_that_name_another_repository_are_not_followed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(checkout / "none"))
    assert _git_state(checkout) == (commit, False)


def test_no_repository_and_no_git_are_none(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _git_state(tmp_path / "not-there") == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _git_state(checkout) == (None, None)


def test_a_git_that_hangs_is_given_up(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    program.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(room, "_PATIENCE", 1.0)
    assert _git_state(checkout) == (None, None)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "git.pid").read_text()), 0)


def test_git_is_asked_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_PACKAGE", checkout)
    first = provenance()
    assert first["git_changed"] is False
    (checkout / "__init__.py").write_text("2")
    assert provenance() == first
