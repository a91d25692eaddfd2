"""English-German sentence pairs from messages of programs, split by project.

Whole projects are held out for tests and validation. None of them has a fork or a sibling in
training, as mutt and neomutt are of each other; Sylpheed is held out together with its fork, Claws
Mail.
"""

import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnrate.data.cached import OutdatedError, opened_or_made
from attnrate.data.catalogues import Pairs, by_hand, version_of
from attnrate.data.clean import Cleaned, key
from attnrate.data.gather import file_words, gather
from attnrate.data.registry import (
    FetchError,
    Package,
    cache_folder,
    downloads_folder,
)
from attnrate.errors import require_choice, require_whole

SOURCE = "messages of free programs and their German translations, from Debian's packages"
LICENCE = "the licence of each program, mostly GPL; see the packages"

TEST = ("kmymoney-common", "pidgin-data", "shotwell-common", "subversion")
VALIDATION = ("audacity-data", "claws-mail-i18n", "sylpheed-i18n")

# in Debian 12 each gives at least 120 pairs, and 40 per megabyte of the package
_TRAIN = """
aisleriot akregator amule-common anjuta-common apt aptitude-common ardour-data aspell
binutils-common bleachbit bluefish-data brasero-common caja-common cantor cinnamon-l10n
coreutils cryptsetup-bin darktable dia-common digikam-data dnf-data dolphin dpkg e2fsprogs-l10n
easytag elinks-data epiphany-browser-data evolution-common evolution-data-server-common
evolution-ews filezilla-common fish-common flatpak freeciv-data fwupd gawk gcc-12-locales
geany-common geary gedit-common geeqie-common gettext gimp-data git gitg glabels-data
gnome-builder gnome-commander-data gnome-control-center-data gnome-disk-utility
gnome-shell-common gnome-software-common gnome-terminal-data gnomint gnote gnubg-data
gnucash-common gnumeric-common gnupg-l10n gpa gparted-common gramps grass-core grisbi-common
grub-common gthumb-data gtkpod-data gvfs-common hexchat-common homebank-data hugin-data
inkscape k3b-i18n kate5-data kdiff3 kgpg kio kleopatra kmail konsole korganizer krusader
kwin-data libc-l10n libexif12 libglib2.0-data libgnutls30 libgphoto2-l10n libgtk-3-common
libparted-i18n libreoffice-l10n-de libsane-common libvirt-l10n lokalize lynx-common
mailutils-common manaplus-data mate-control-center-common mate-desktop-common mate-panel-common
mc-data mcomix meld mercurial-common mutt nano neomutt network-manager network-manager-gnome
orca packagekit pan picard pitivi plasma-workspace-data pluma-common poedit-common
postgresql-15 postgresql-client-15 pspp r-base-core remmina-common rhythmbox-data rox-filer
rpm-i18n seahorse skrooge-common slrn solfege sssd-common sudo synaptic
system-config-printer-common tar texinfo thunar-data timeshift tin tracker-extract
util-linux-locales viking vim-runtime virtinst vlc-l10n weechat-core wxmaxima xboard
xfce4-panel xfce4-settings xfe-i18n xine-ui xournalpp xsane-common zim
"""
#: A few megabytes of packages of all splits: enough to try things on, too few to learn from
SMALL = (
    *("shotwell-common", "sylpheed-i18n"),
    *("e2fsprogs-l10n", "gnupg-l10n", "libvirt-l10n", "nano", "rpm-i18n", "util-linux-locales"),
)
SPLITS = {"test": TEST, "validation": VALIDATION, "train": tuple(_TRAIN.split())}
# the number of test pairs of Debian 12; scores on another test set cannot be compared with ours
TESTS = 3069
DOCUMENTED_TEST = "54326f76c46441c0aa2a9bd21f7f1662b1a751870edd9c5ce29b83f866c5c042"
FEWEST_PAIRS = {"test": 500, "validation": 500, "train": 40_000}
FEWEST_OF_SMALL = {"test": 200, "validation": 100, "train": 2000}

# the version of the rules and the packages that the data are made by
RULES = 2
_SIZE = 40_000_000


@dataclass(frozen=True)
class Translation:
    """Pairs of an English and a German sentence; no sentence of either is in two splits.

    Attributes:
        train: The pairs to train on.
        validation: The pairs to validate with.
        test: The pairs to test with.
        manifest: The packages with version and checksum, those left out and why, the numbers of
            messages and of pairs, and the sha256 of each split.
        folder: The folder in the cache.

    """

    train: tuple[tuple[str, str], ...]
    validation: tuple[tuple[str, str], ...]
    test: tuple[tuple[str, str], ...]
    manifest: dict[str, Any]
    folder: Path

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs in each split."""
        return {name: len(getattr(self, name)) for name in ("train", "validation", "test")}

    @property
    def documented(self) -> bool:
        """Whether the test set is the documented one, of Debian 12."""
        return bool(self.manifest["sha256"]["test"] == DOCUMENTED_TEST)


def translation(packages: object = "all", workers: object = None) -> Translation:
    """The sentence pairs from the cache; fetched, cleaned and split if they are not there yet.

    Args:
        packages: "all" (477 MB to fetch), or "small" for a few packages of each split (10 MB, and
            not the documented test set).
        workers: The number of processes that read and clean packages while the next ones are
            fetched; one per core by default. The pairs do not depend on it.

    Returns:
        The pairs of the three splits.

    """
    require_choice("packages", packages, ("all", "small"))
    small = packages == "small"
    count = None if workers is None else require_whole("workers", workers, 1)
    place = cache_folder() / "translation" / f"pairs-{'small-' if small else ''}{RULES}"
    what = "a set of translation pairs"
    return opened_or_made(
        place, _current, lambda made: _fill(made, small, count), what, _SIZE, lock="translation"
    )


def package_names(small: bool = False) -> tuple[str, ...]:
    """The names of the Debian packages of all splits, or of the small set."""
    return tuple(name for split in SPLITS.values() for name in split if not small or name in SMALL)


def _current(place: Path) -> Translation:
    """The pairs; an OutdatedError if the user has since added a package that they lack."""
    found = _opened(place)
    for name, reason in found.manifest["left_out"].items():
        here = by_hand(name)
        if here is not None and file_words(here.name, here.stat().st_size) not in reason:
            raise OutdatedError(f"lacks {name}, which is here now,")
    for package in found.manifest["packages"]:
        here = by_hand(package["name"])
        if here is not None and version_of(here) != package["version"]:
            raise OutdatedError(
                f"is of {package['name']} {package['version']}, not of {here.name},"
            )
    return found


def _fill(made: Path, small: bool, workers: int | None) -> None:
    """Fetch the packages and write their pairs into a new folder."""
    held_out = {name for split, names in SPLITS.items() if split != "train" for name in names}
    gathered = gather(package_names(small), held_out, way_out(), workers)
    splits, counts = split_by_package(gathered.pairs)
    for name, fewest in (FEWEST_OF_SMALL if small else FEWEST_PAIRS).items():
        if len(splits[name]) < fewest:
            raise FetchError(
                f"{name} needs {fewest} translation pairs, and too few packages could be had",
                f"{len(splits[name])} pairs",
                way_out(),
            )
    made.mkdir()
    sha256 = {}
    for name, pairs in splits.items():
        text = "".join(f"{english}\t{german}\n" for english, german in pairs).encode()
        sha256[name] = hashlib.sha256(text).hexdigest()
        (made / f"{name}.tsv.gz").write_bytes(gzip.compress(text, mtime=0))
    packages = [
        {"name": p.name, "version": p.version, "sha256": p.sha256, **counts[p.name]}
        for p in gathered.pairs
    ]
    manifest = {
        "rules": RULES,
        "sha256": sha256,
        "packages": packages,
        "left_out": gathered.left_out,
    }
    (made / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def split_by_package(
    gathered: dict[Package, Cleaned],
) -> tuple[dict[str, Pairs], dict[str, dict[str, int]]]:
    """The pairs of each split without repetition, and the numbers of messages and pairs by package.

    The test split is filled first, then validation, then training. A sentence of an earlier split,
    English or German, is left out of later ones. Within training only a repeated English sentence
    is left out, because two translations with one meaning are worth learning from.
    """
    by_name = {package.name: pairs for package, pairs in gathered.items()}
    splits: dict[str, Pairs] = {}
    counts = {}
    english_seen: set[str] = set()
    german_held_out: set[str] = set()
    for split, names in SPLITS.items():
        kept: Pairs = []
        for name in sorted(set(names) & by_name.keys()):
            before = len(kept)
            for pair in by_name[name].pairs:
                english, german = key(pair[0]), key(pair[1])
                if english not in english_seen and german not in german_held_out:
                    english_seen.add(english)
                    kept.append(pair)
            counts[name] = {"messages": by_name[name].messages, "pairs": len(kept) - before}
        german_held_out |= {key(german) for _, german in kept}
        splits[split] = kept
    return splits, counts


def way_out() -> str:
    """How to get the packages of the documented test set, as advice in messages."""
    return (
        "Use Debian 12 with its package lists up to date (apt-get update). Or get the .deb files "
        "there (apt-get download), whose names attnrate data translation --names prints, and put "
        f"them into {downloads_folder()}."
    )


def _opened(folder: Path) -> Translation:
    manifest = json.loads((folder / "manifest.json").read_bytes())
    splits = {}
    for name in SPLITS:
        text = gzip.decompress((folder / f"{name}.tsv.gz").read_bytes())
        if hashlib.sha256(text).hexdigest() != manifest["sha256"][name]:
            raise ValueError(f"{name} has another checksum")
        sides = (line.split("\t") for line in text.decode().splitlines())
        splits[name] = tuple((english, german) for english, german in sides)
    return Translation(**splits, manifest=manifest, folder=folder)
