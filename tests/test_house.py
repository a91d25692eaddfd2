"""What a newcomer meets first: public names, the commands of the README, a tree fit to share."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import attnrate

ROOT = Path(__file__).resolve().parents[1]
MADE = {".venv", ".git", "site", "dist", "build", "__pycache__", ".hypothesis"} | {
    "reproduction-quick",
    "reproduction-paper",
}


def shared_files() -> list[Path]:
    """The files of the project without what tools leave behind; works without git, too."""
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
        and path.suffix != ".log"
        and not any(
            part in MADE or part.endswith(("_cache", ".egg-info"))
            for part in path.relative_to(ROOT).parts
        )
    ]


def make_targets() -> set[str]:
    rules = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return {*rules}


@pytest.mark.parametrize("name", attnrate.__all__)
def test_every_public_name_is_there_and_can_be_found(name: str) -> None:
    assert getattr(attnrate, name) is not None
    assert name in dir(attnrate)


def test_type_checkers_see_the_same_public_names() -> None:
    stub = Path(attnrate.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert sorted(re.findall(r" as (\w+)$", stub, re.MULTILINE)) == attnrate.__all__


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No attnrate attribute no_such_name"):
        attnrate.no_such_name  # noqa: B018


def test_importing_the_package_does_not_import_torch() -> None:
    program = "import sys, attnrate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == attnrate.__version__
    assert f"\nversion: {attnrate.__version__}\n" in citation
    assert f"## {attnrate.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readme_has_its_two_commands_and_every_command_it_names_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {*re.findall(r"(?:^|`)make ([a-z]+)\b", readme, re.MULTILINE)}
    assert {"reproduce", "test"} <= named
    assert named <= make_targets()


def test_make_alone_lists_every_target() -> None:
    # Without the settings that an outer `make test -j` hands down to its children.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    helped = subprocess.run(
        ["make", "--no-print-directory", "-C", ROOT],
        env=plain,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {*re.findall(r"^make ([a-z]+) ", helped, re.MULTILINE)} == make_targets() - {"help"}


def test_torch_is_pinned_and_every_install_uses_the_pin() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^torch==[0-9.]+$", constraints, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [line for group in extras.values() for line in group]
    names = {re.split(r"[^\w-]", line)[0] for line in wanted} - {"attnrate"}
    reasons = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert names <= {*re.findall(r"^\| `([\w-]+)`", reasons, re.MULTILINE)}


# Composed, so that this file does not contain what it looks for.
FOREIGN = [
    *(rf"(?<![\w.]){'/'}{place}/" for place in ("work", "opt", "root", "home", "Users")),
    *(rf"{host}\.(org|com|io|net|dev)" for host in ("pypi", "pythonhosted", "jfrog")),
    "index" + "-url",
    "download" + r"\.pytorch",
]


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    pattern = re.compile("|".join(FOREIGN))
    found = {
        f"{path.relative_to(ROOT)}: {hit.group()}"
        for path in shared_files()
        if (hit := pattern.search(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "cd " + "/" + "work/main",
        "'" + "/" + "opt/x'",
        "https://" + "pypi" + ".org/simple",
        "file://" + "/" + "opt/wheels",
    ],
)
def test_the_search_for_foreign_names_finds_them(line: str) -> None:
    assert re.search("|".join(FOREIGN), line)
