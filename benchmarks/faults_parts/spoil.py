"""Ways to damage files: flipped bits, missing ends, false headers and false contents."""

import io
import json
import os
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Spoil = Callable[[Path, random.Random], str]


class Trap:
    """An object whose pickle makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def flipped(path: Path, draw: random.Random) -> str:
    """Flip a few bits of the file, half of the time near its beginning."""
    data = bytearray(path.read_bytes())
    end = min(len(data), 512) if draw.random() < 0.5 else len(data)
    places = [draw.randrange(end) for _ in range(draw.choice((1, 1, 3, 20)))]
    for place in places:
        data[place] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return f"bits flipped at {places}"


def truncated(path: Path, draw: random.Random) -> str:
    """Cut off the end of the file."""
    data = path.read_bytes()
    left = draw.choice((0, 1, 8, 15, 16, 99, len(data) // 2, len(data) - 1))
    path.write_bytes(data[:left])
    return f"cut to {left} bytes"


def replaced_by_noise(path: Path, draw: random.Random) -> str:
    """Replace the file by random bytes from some place on."""
    data = path.read_bytes()
    start = draw.choice((0, 16, len(data) // 2))
    path.write_bytes(data[:start] + draw.randbytes(len(data) - start))
    return f"noise from byte {start} on"


def a_folder(path: Path, draw: random.Random) -> str:
    """Replace the file by a folder of its name."""
    path.unlink()
    path.mkdir()
    return "a folder"


def a_link_to_itself(path: Path, draw: random.Random) -> str:
    """Replace the file by a symbolic link to itself."""
    path.unlink()
    path.symlink_to(path.name)
    return "a link to itself"


_JSON = (
    "null",
    "5",
    '"a"',
    "[]",
    "{}",
    "[" * 50_000,
    '{"a":' * 5000,
    "\ufeff{}",
    "NaN",
    "{'a': 1}",
    "",
)


def json_of_another_kind(path: Path, draw: random.Random) -> str:
    """Replace the file by JSON, or nearly JSON, of another kind."""
    text = draw.choice(_JSON)
    path.write_text(text)
    return f"the text {text[:20]!r}"


_VALUES: tuple[object, ...] = (
    *(
        None,
        -1,
        0,
        1.5,
        10**9,
        10**30,
        "a",
        "",
        [],
        {},
        True,
        [1],
        {"a": 1},
        "../../x",
        float("nan"),
    ),
)


def json_with_a_wrong_value(path: Path, draw: random.Random) -> str:
    """Change or remove one value in the JSON of the file."""
    whole = json.loads(path.read_text())
    place, way = whole, []
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        key = draw.choice(keys)
        way.append(key)
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.4:
            break
        place = inner
    value = draw.choice((*_VALUES, "missing"))
    if value == "missing" and isinstance(place, dict):
        del place[key]
    else:
        place[key] = value
    path.write_text(json.dumps(whole))
    return f"{way} is {value!r}"


def safetensors_that_lie(path: Path, draw: random.Random) -> str:
    """Make the header of a safetensors file false."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names)
    kind = draw.randrange(12)
    if kind == 0:
        path.write_bytes(
            struct.pack("<Q", draw.choice((0, 2**63, 2**64 - 1, size + 1, 10**9))) + data[8:]
        )
        return "a header of another length"
    if kind == 1:
        header[name]["data_offsets"] = draw.choice(([0, 2**62], [-4, 0], [8, 0], [], "a", None))
    elif kind == 2:
        header[name]["shape"] = draw.choice(([2**40, 2**40], [-1], [0], [], [1.5], "a", [10**30]))
    elif kind == 3:
        header[name]["dtype"] = draw.choice(("F64", "I64", "BOOL", "F8_E4M3", "X", 5, None))
    elif kind == 4:
        header["../../../evil"] = header.pop(name)
    elif kind == 5:
        header[names[0]] = header[names[-1]]
    elif kind == 6:
        del header[name]
    elif kind == 7:
        header["__metadata__"] = draw.choice(
            ({"format": "np"}, {}, {"attnrate": "5"}, {"attnrate": "[1]"})
        )
    elif kind == 8:
        header["__metadata__"] = {"attnrate": draw.choice(_JSON), "format": "pt"}
    elif kind == 9:
        header["\ud800" if draw.random() < 0.5 else "\0"] = header.pop(name)
    elif kind == 10:
        facts = json.loads(header.get("__metadata__", {}).get("attnrate", "{}"))
        model = {"class": "ViT", "width": 8, "layers": draw.choice((10**9, -1, "a", 10**5))}
        facts |= draw.choice(
            (
                {"settings": []},
                {"settings": {"model": []}},
                {"settings": {"model": {"class": "ViT", "width": 2**31}}},
                {"settings": {"model": model}},
                {"settings": {"model": {"class": "os.system"}}},
                {"settings": {"model": {"class": []}}},
                {"settings": {"model": {"class": "ViT", "image": 10**9, "patch": 1}}},
                {"epochs": None},
                {"epochs": "1e9"},
                {"history": [{"a": 1}]},
                {"history": 5},
                {"precision": []},
                {"machine": 7},
            )
        )
        header["__metadata__"] = {"attnrate": json.dumps(facts), "format": "pt"}
    else:
        values = np.frombuffer(data[8 + size :], np.float32).copy()
        values[draw.randrange(len(values))] = draw.choice((np.nan, np.inf, 1e38))
        path.write_bytes(data[: 8 + size] + values.tobytes())
        return "nan or inf in a tensor"
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    return f"a header that lies ({kind}: {json.dumps(header.get(name))[:60]})"


def index_that_leads_away(path: Path, draw: random.Random) -> str:
    """Make an index of shards name other files."""
    index = json.loads(path.read_text())
    name = draw.choice([*index["weight_map"]])
    other = draw.choice(
        (
            "../bert/model.safetensors",
            "/etc/passwd",
            "..",
            ".",
            "",
            "x\0y",
            "missing",
            "~",
            "a/b",
            5,
        )
    )
    index["weight_map"][name] = other
    path.write_text(json.dumps(index))
    return f"the index names {other!r}"


def npz_that_lies(path: Path, draw: random.Random) -> str:
    """Arrays that are pickles, of shapes that no memory holds, encrypted, or of wrong names."""
    kind = draw.randrange(9)
    ids = np.ones((2, 4), np.int64)
    if kind == 0:
        trap = np.array([Trap(path.with_name("owned"))] * 2, dtype=object)
        np.savez(path, input_ids=trap)
        return "an object array with a trap"
    if kind == 1:
        np.savez(path, **{"../../evil": ids})
        return "a name with .."
    if kind in (2, 3):
        header = io.BytesIO()
        shape = draw.choice(((2**40, 4), (2**62, 2**62), (-1, 4), (10**8, 10**5), (2, 4, 0)))
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<i8", "fortran_order": False, "shape": shape}
        )
        raw = header.getvalue()
        if kind == 3:
            raw = raw.replace(b"<i8", draw.choice((b"|O8", b"<U9", b"zzz", b"|V0", b"<M8", b"<f2")))
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("input_ids.npy", raw + bytes(64))
        return f"a header of the shape {shape}"
    if kind == 4:
        np.savez(path, input_ids=ids)
        data = bytearray(path.read_bytes())
        for start in (b"PK\3\4", b"PK\1\2"):
            place = data.find(start) + (6 if start == b"PK\3\4" else 8)
            data[place] |= 1
        path.write_bytes(data)
        return "an encrypted file"
    if kind == 5:
        np.savez(path, input_ids=ids)
        data = bytearray(path.read_bytes())
        for start in (b"PK\3\4", b"PK\1\2"):
            place = data.find(start) + (8 if start == b"PK\3\4" else 10)
            data[place] = draw.choice((1, 9, 14, 93, 99))
        path.write_bytes(data)
        return "a compression that is not known"
    if kind == 6:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("input_ids.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"{" * 16)
        return "a header that is no literal"
    if kind == 7:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("input_ids.npy", b"\x93NUMPY\x03\x00\xff\xff\xff\x7f" + bytes(1 << 20))
        return "a header of two gigabytes"
    wrong = draw.choice(
        (ids - 5, ids * 10**6, ids.astype(float) * np.nan, ids[0], ids[:0], ids[:, :0])
    )
    np.savez(path, input_ids=wrong, attention_mask=draw.choice((ids, ids * 0, ids[:1])))
    return "wrong numbers"


_SQL = (
    "CREATE TRIGGER t AFTER INSERT ON claim BEGIN DELETE FROM trial; END",
    "CREATE TRIGGER t AFTER DELETE ON failure BEGIN DELETE FROM trial; END",
    "CREATE TRIGGER t BEFORE INSERT ON trial BEGIN SELECT RAISE(IGNORE); END",
    "CREATE VIEW v AS SELECT * FROM trial",
    "DROP TABLE trial; CREATE VIEW trial AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 "
    "FROM c) SELECT x AS key, x AS settings, x AS result, x AS seconds, x AS worker, x AS finished "
    "FROM c",
    "DROP TABLE claim; CREATE VIEW claim AS SELECT key, worker AS owner FROM trial",
    "DROP TABLE trial; CREATE TABLE trial (key)",
    "DROP TABLE failure; CREATE VIRTUAL TABLE failure USING fts5(key, settings)",
    "DROP TABLE trial",
    "DROP TABLE claim; DROP TABLE failure",
    "UPDATE trial SET result = 'no json'",
    "UPDATE trial SET result = '[1, 2]'",
    "UPDATE trial SET result = 'null'",
    "UPDATE trial SET result = CAST(x'ff80' AS TEXT)",
    "UPDATE trial SET result = x'ff80'",
    "UPDATE trial SET settings = replace(hex(zeroblob(50000)), '0', '[')",
    "UPDATE trial SET settings = '{}'",
    "UPDATE trial SET settings = 5",
    "UPDATE trial SET seconds = 'a while'",
    "UPDATE trial SET seconds = -1e308 * 10",
    "UPDATE trial SET worker = x'00', finished = 7",
    "UPDATE trial SET result = '{\"error\": NaN}'",
    "UPDATE trial SET result = '{\"error\": ' || hex(zeroblob(3000)) || '}'",
    "INSERT INTO claim SELECT key, '/etc/passwd' FROM trial",
    "INSERT INTO claim SELECT key, 'a/b/c/d' FROM trial",
    "INSERT INTO claim SELECT key, '//' FROM trial; DELETE FROM trial",
    "INSERT INTO failure SELECT key, '{', '', 1, '', '' FROM trial; DELETE FROM trial",
    "INSERT INTO failure SELECT key, settings, '', 'x', '', '' FROM trial; DELETE FROM trial",
    "INSERT INTO failure SELECT key, settings, x'ff', 1e9, '', '' FROM trial; DELETE FROM trial",
    "PRAGMA user_version = 99",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 7",
    "CREATE TABLE other (a); INSERT INTO other VALUES (1)",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE TABLE trial (a)' "
    "WHERE name = 'trial'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 2",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET type = 'view' WHERE name = 'trial'",
    "CREATE INDEX i ON trial (settings)",
    "CREATE TABLE sqlite_x AS SELECT 1",
)


def hostile_sql(path: Path, draw: random.Random) -> str:
    """Change a store with hostile SQL."""
    sql = draw.choice(_SQL)
    with sqlite3.connect(path) as opened:
        try:
            opened.executescript(sql)
        except sqlite3.Error as problem:
            return f"{sql} ({problem})"
    opened.close()
    return sql


def side_files(path: Path, draw: random.Random) -> str:
    """Put files beside a store that are not SQLite's."""
    name = draw.choice(("-wal", "-shm", "-journal"))
    beside = Path(f"{path}{name}")
    kind = draw.randrange(5)
    user = path.parent / "thesis" / "notes.txt"
    if kind == 0:
        beside.write_bytes(draw.randbytes(5000))
    elif kind == 1:
        beside.mkdir()
    elif kind == 2:
        beside.symlink_to(user)
    elif kind == 3:
        os.link(user, beside)
    else:
        beside.write_bytes(b"")
    return f"{name}: {('noise', 'a folder', 'a link', 'a hard link', 'empty')[kind]}"
