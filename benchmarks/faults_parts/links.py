"""Links to files of the user at places where commands write: the files must not change."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from faults_parts import scene
from faults_parts.calls import call
from faults_parts.tally import Seen, judged


@dataclass(frozen=True)
class Link:
    """A place where a command writes, and the command; `folder` is what it is run on."""

    place: str
    words: tuple[str, ...]
    folder: str | None = None
    kind: str = "symbolic"


_POD = ("pod", "u*v", "--plot", "spectrum.png")
_SWEEP = ("sweep", "spec.toml", "--status", "--export", "t.csv")
_PAGE = (
    *("profile", "bert", "--inputs", "ids.npz", "--limit", "2", "--cut-inputs", "0"),
    *("--out", "run"),
)
_TRAIN = ("train", "cifar10", "--limit", "128", "--epochs", "2", "--threads", "1", "--out", "run")
_REPORT = ("report", "run")
_FILES = (
    Link("spectrum.png", _POD),
    Link("t.csv", _SWEEP, "spec.sqlite"),
    Link("spec.sqlite", ("sweep", "spec.toml")),
    Link("spec.sqlite-wal", ("sweep", "spec.toml"), "spec.sqlite"),
    Link("spec.sqlite-shm", ("sweep", "spec.toml"), "spec.sqlite"),
    Link("spec.sqlite-journal", ("sweep", "spec.toml"), "spec.sqlite"),
    Link("run/index.html", _PAGE, "page"),
    Link("run/heads.csv", _PAGE, "page"),
    Link("run/profile.json", _PAGE, "page"),
    Link("run/attnrate.json", _PAGE, "page"),
    Link("run/.lock", _TRAIN, "training"),
    Link("run/model.safetensors", _TRAIN, "training"),
    Link("run/result.json", _TRAIN, "training"),
    Link("run/checkpoints/epoch-00002.safetensors", _TRAIN, "training"),
    Link("run/index.html", _REPORT, "reproduction"),
    Link("run/claims.json", _REPORT, "reproduction"),
    Link("run/records/propositions.json", _REPORT, "reproduction"),
    Link("run/trials.sqlite-wal", _REPORT, "reproduction"),
    Link("run/trials.sqlite", _REPORT, "reproduction"),
    Link("cache/attnrate-cache/cifar10.lock", ("data", "cifar10")),
    Link("cache/attnrate-cache/translation.lock", ("data", "translation")),
)
#: Files as symbolic and as hard links, and folders, which have only symbolic ones
LINKS = (
    *_FILES,
    *(Link(each.place, each.words, each.folder, "hard") for each in _FILES),
    Link("run/figures", _PAGE, "page", "folder"),
    Link("run/checkpoints", _TRAIN, "training", "folder"),
    Link("run/figures", _REPORT, "reproduction", "folder"),
    Link("run/records", _REPORT, "reproduction", "folder"),
    Link("pictures", ("data", "cifar10", "--photos", "pictures"), None, "folder"),
    Link("run", _PAGE, None, "folder"),
    Link("run", _TRAIN, None, "folder"),
    Link("cache/attnrate-cache", ("data", "cifar10"), None, "folder"),
)


def run_link(link: Link, number: int, folder: Path, source: Path) -> Seen:
    """Make the link, run the command, and check the files of the user."""
    if link.folder == "spec.sqlite":
        shutil.copy(source / "spec.sqlite", folder)
    elif link.folder is not None and link.folder != "page":
        shutil.copytree(source / link.folder, folder / "run")
    elif link.folder == "page":
        (folder / "run" / "figures").mkdir(parents=True)
        (folder / "run" / "attnrate.json").write_text(
            '{"made_by": "attnrate profile", "format": 1}'
        )
    place = folder / link.place
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    user = folder / "thesis" / "notes.txt"
    if link.kind == "folder":
        place.symlink_to(folder / "thesis")
    elif link.kind == "hard":
        os.link(user, place)
    else:
        place.symlink_to(user)
    os.environ["ATTNRATE_CACHE"] = str(folder / "cache")
    done = call([*link.words], 30.0)
    faults = list(judged(done.code, done.err) if not done.overtime else ("over time",))
    strange = sorted(path.name for path in (folder / "thesis").iterdir())
    if scene.precious_lost(folder):
        faults.append("overwritten")
    what = f"a {link.kind} link at {link.place}, attnrate {' '.join(link.words)}; then {strange}"
    said = done.err[-2500:] if faults else ""
    return Seen("files", f"{link.kind} links", number, what, done.code, tuple(faults), said)
