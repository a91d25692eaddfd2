"""Pairs of many packages: the same with any number of processes, and none of them is left over."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from attnrate.data import translation as room
from attnrate.data.catalogues import available, messages
from attnrate.data.clean import cleaned
from attnrate.data.gather import gather
from attnrate.data.readers import Readers
from attnrate.data.registry import ArchiveError, FetchError, Package, UnreachableError
from attnrate.data.translation import translation
from attnrate.errors import InputError

NAMES = tuple(f"toy-{letter}" for letter in "abcdef")
# a shell has what it runs in the background ignore Ctrl-C, and the tests may be run so
PROGRAM = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from attnrate.data.gather import gather
gather({NAMES!r}, (), '', 2)
"""
PATIENCE = 60.0  # seconds, far more than anything here takes


def pairs_of(name):
    """Sentences of a package, some of them shared with the others, and a label that is none."""
    things = (("file", "Datei"), ("image", "Grafik"), ("page", "Seite"))
    own = [
        (f"The {e} of {name} was closed", f"Diese {d} von {name} wurde geschlossen")
        for e, d in things
    ]
    shared = [("There is no more memory", "Es ist kein Speicher mehr frei")]
    return [*own, *shared, ("File", "Datei")]


@pytest.fixture
def market(shop, monkeypatch):
    splits = {"test": NAMES[:1], "validation": NAMES[1:2], "train": NAMES[2:]}
    monkeypatch.setattr(room, "SPLITS", splits)
    monkeypatch.setattr(room, "FEWEST_PAIRS", dict.fromkeys(splits, 3))
    for name in NAMES:
        shop(name, pairs_of(name))
    return shop


def asked(shop):
    return (shop.folder / "asked").read_text().split()


def until(happens):
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_processes_makes_the_same_files(market, monkeypatch, tmp_path, workers):
    one = translation(workers=1)
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path / "other"))
    many = translation(workers=workers)
    assert many.folder != one.folder
    assert files_of(many.folder) == files_of(one.folder)
    assert set(files_of(one.folder)) == {"manifest.json", *(f"{s}.tsv.gz" for s in room.SPLITS)}
    assert asked(market) == [*NAMES, *NAMES]


def test_the_pairs_of_a_process_are_those_of_this_one(market):
    found = available(NAMES).values()
    with closing(Readers(2)) as crew:
        theirs = [each.result() for each in [crew.read(package) for package in found]]
    assert theirs == [cleaned(messages(package)) for package in found]
    assert [each.messages for each in theirs] == [5] * len(NAMES)
    assert [len(each.pairs) for each in theirs] == [4] * len(NAMES)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_a_wrong_number_of_processes_is_refused(market, workers):
    with pytest.raises(InputError, match="workers"):
        translation(workers=workers)
    assert not (market.folder / "asked").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_package_is_left_out_or_an_error_with_any_number(market, a_deb, workers):
    a_deb(market.folder / "toy-b_1%3a1.0-1_all.deb", {"./usr/bin/x": b"no catalogue"})
    left_out = gather(NAMES, (), "", workers).left_out
    assert list(left_out) == ["toy-b"]
    size = (market.folder / "toy-b_1%3a1.0-1_all.deb").stat().st_size
    assert left_out["toy-b"].endswith(f"toy-b_1%3a1.0-1_all.deb, {size} bytes")
    with pytest.raises(ArchiveError, match=r"has no file .*toy-b.*the way out"):
        gather(NAMES, ("toy-b",), "the way out", workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_network_that_is_down_is_asked_three_times_with_any_number(market, workers):
    (market.folder / "closed").touch()
    with pytest.raises(
        UnreachableError, match=r"at least 3 of 6 packages.*toy-a.*run the same command again"
    ):
        gather(NAMES, (), "", workers)
    assert asked(market) == list(NAMES[:3])
    (market.folder / "closed").unlink()
    assert [package.name for package in gather(NAMES, (), "", workers).pairs] == list(NAMES)


@pytest.mark.parametrize("kind", [FetchError, ArchiveError, UnreachableError])
def test_an_error_comes_over_from_a_process_as_it_is(market, kind):
    """Each made by a package of its own kind, so that no error is only ever made by hand."""
    package = available(NAMES)["toy-a"]
    if kind is FetchError:
        package = Package("hand", package.name, "1", "not-there.deb", 1, "0")
    elif kind is ArchiveError:
        (market.folder / package.file).write_bytes(b"no package")
        package = available(NAMES)["toy-a"]
    else:
        (market.folder / "closed").touch()
    with pytest.raises(kind) as here:
        messages(package)
    with closing(Readers(1)) as crew, pytest.raises(kind) as there:
        crew.read(package).result()
    assert type(there.value) is type(here.value) is kind
    assert str(there.value) == str(here.value)


def test_a_process_that_is_killed_costs_its_package_and_no_other(market):
    (market.folder / "hold").touch()
    found = list(available(NAMES).values())
    with closing(Readers(1)) as crew:
        lost = crew.read(found[0])  # it fetches the package itself, and waits
        until((market.folder / "asked").exists)
        (process,) = crew._all
        process.kill()
        with pytest.raises(FetchError, match=r"ended early.*SIGKILL.*toy-a.*run it again"):
            lost.result(PATIENCE)
        (market.folder / "hold").unlink()
        assert crew.read(found[1]).result(PATIENCE).messages == 5


def children(parent):
    """Processes of this parent and of theirs, by what they were started with."""
    table = {}
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            try:
                with open(f"/proc/{folder.name}/stat") as file:
                    after = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if after[0] != "Z":
                table[int(folder.name)] = int(after[1])
    found, more = set(), {parent}
    while more:
        found |= more
        more = {child for child, its in table.items() if its in found} - found
    return found - {parent}


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_no_process_and_goes_on_where_it_was(market, cache, ending):
    (market.folder / "hold").write_text("toy-d")
    running = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.DEVNULL)
    try:
        until(lambda: (market.folder / "asked").exists() and "toy-d" in asked(market))
        kept = cache / "translation" / "packages"
        until(lambda: kept.is_dir() and len(list(kept.glob("toy-*"))) == 3)
        started = children(running.pid)
        assert len(started) == 4  # two that read, apt-get, and the one that ends it with its parent
        running.send_signal(ending)
        assert running.wait(PATIENCE) == -ending
    finally:
        running.kill()
    (market.folder / "hold").unlink()
    until(lambda: not any(map(alive, started)))
    gathered = gather(NAMES, (), "", 2)
    assert [package.name for package in gathered.pairs] == list(NAMES)
    assert asked(market) == [*NAMES[:4], *NAMES[3:]]
    left = [path.name for path in cache.iterdir() if not path.name.startswith("work-")]
    assert sorted(left) == ["downloads", "translation"]


def test_a_process_whose_parent_is_gone_ends_in_the_middle_and_leaves_nothing(market, cache):
    (market.folder / "hold").touch()
    with closing(Readers(1)) as crew:
        (process,) = crew._all
        unread = crew.read(available(NAMES)["toy-a"])
        until((market.folder / "asked").exists)
        started = children(process.pid)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        with pytest.raises(FetchError, match="ended early"):
            unread.result(PATIENCE)
        assert not any(map(alive, started))
        assert not list(cache.glob("work-*"))


def test_a_terminal_shows_how_many_packages_are_fetched_and_cleaned(market, on_a_terminal):
    said = on_a_terminal(lambda: gather(NAMES, (), "", 2))
    for number, name in enumerate(NAMES):
        assert f"{number}/6" in said
        assert f"; {name}" in said
    assert "0 of 6 cleaned" in said
    assert "6/6" in said
    assert "fetched, 6 of 6 cleaned" in said
    assert "Traceback" not in said


def test_a_log_has_a_line_for_every_tenth_of_many_packages(shop, cache, capsys):
    names = tuple(f"toy-{number:02}" for number in range(30))
    for name in names:
        shop(name, pairs_of(name))
    # put there by hand, since a client for each takes its time
    cache.mkdir()
    shop.folder.rename(cache / "downloads")
    gather(names, (), "", 1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "attnrate: 3 of 30 packages fetched, 3 of them read and cleaned"
    assert lines[-1] == "attnrate: 30 of 30 packages fetched, 30 of them read and cleaned"
    assert len(lines) == 10
