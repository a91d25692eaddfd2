"""A source distribution comes from where pip would take it, however pip is set, and is not run."""

import hashlib
import io
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attnrate.data import registry
from attnrate.data.registry import FetchError, Package, UnreachableError, fetch

pytest.importorskip("unearth")
FILE = "toy_source-1.0.tar.gz"


def a_source(ran):
    """A distribution whose build would leave a file behind."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tape:
        for name, data in (
            ("setup.py", f"open({str(ran)!r}, 'w')"),
            ("pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'setup'\n"),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: toy-source\nVersion: 1.0\n"),
        ):
            entry = tarfile.TarInfo(f"toy_source-1.0/{name}")
            entry.size = len(data)
            tape.addfile(entry, io.BytesIO(data.encode()))
    return packed.getvalue()


class Index(list):
    """What an index was asked for; `short`: how many times the file comes cut off."""

    short = 0
    address = ""


@pytest.fixture
def source(tmp_path):
    data = a_source(tmp_path / "was-run")
    digest = hashlib.sha256(data).hexdigest()
    yield Package("pip", "toy-source", "1.0", FILE, len(data), digest), data
    assert not (tmp_path / "was-run").exists()


@pytest.fixture
def index(source, cache, monkeypatch, tmp_path):
    """An index that has the distribution, in a pip whose settings are in a file."""
    asked = Index()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path == "/simple/toy-source/":
                kind, data = "text/html", f'<a href="/files/{FILE}">{FILE}</a>'.encode()
            elif self.path == f"/files/{FILE}":
                kind, data = "application/gzip", source[1]
                if asked.count(self.path) <= asked.short:
                    data = data[:-1]
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked.address = f"http://127.0.0.1:{server.server_port}/simple"
        (tmp_path / "pip.conf").write_text(f"[global]\nindex_url = {asked.address}\n")
        yield asked
        server.shutdown()


def test_it_comes_from_the_index_that_pip_is_set_to(index, source):
    package, data = source
    assert fetch(package).read_bytes() == data
    assert index == ["/simple/toy-source/", f"/files/{FILE}"]


@pytest.mark.parametrize(
    "settings",
    [
        "[global]\nindex_url = {nothing}\nextra_index_url = {nothing}\n    {index}\n",
        "[global]\nindex_url = {nothing}\n[download]\nindex_url = {index}\n",
        "[global]\nindex_url = {index}\nfind-links = /nothing/here\nquiet = 1\n",
    ],
    ids=["one of several", "for downloads alone", "beside a folder that is not there, quietly"],
)
def test_places_that_do_not_answer_are_passed_over(index, source, settings, tmp_path):
    nothing = "http://127.0.0.1:9/simple"
    (tmp_path / "pip.conf").write_text(settings.format(index=index.address, nothing=nothing))
    assert fetch(source[0]).read_bytes() == source[1]


def test_the_environment_comes_before_the_file(index, source, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(
        UnreachableError, match=r"127\.0\.0\.1:9/simple gave ConnectError"
    ) as caught:
        fetch(source[0])
    assert index == []
    assert "secret" not in str(caught.value)
    assert f"put it into {registry.downloads_folder()}" in str(caught.value)


def test_no_index_means_none(index, source, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    with pytest.raises(UnreachableError, match="of toy-source there is nothing"):
        fetch(source[0])
    assert index == []


def test_another_version_or_name_is_said_with_what_there_is(index, source):
    other = Package("pip", "toy-source", "2.0", "toy_source-2.0.tar.gz", 1, "0" * 64)
    with pytest.raises(UnreachableError, match=rf"found for toy_source-2\.0.*there is {FILE}\."):
        fetch(other)
    other = Package("pip", "toy-nothing", "1.0", "toy_nothing-1.0.tar.gz", 1, "0" * 64)
    with pytest.raises(UnreachableError, match="of toy-nothing there is nothing"):
        fetch(other)


def test_what_comes_short_is_fetched_again_and_twice_is_an_error(index, source, capsys):
    index.short = 1
    assert fetch(source[0]).read_bytes() == source[1]
    assert "fetching it again" in capsys.readouterr().err
    registry.place_of(source[0]).unlink()
    index.short = 9
    with pytest.raises(FetchError, match="corrupt twice"):
        fetch(source[0])


def test_without_the_library_the_way_out_is_told(cache, source, monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    with pytest.raises(FetchError, match=r"unearth is needed.*pip install .*'polib"):
        fetch(source[0])
