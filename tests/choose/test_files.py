"""Files: the same windows from each kind, and a clear refusal of what cannot be read."""

import builtins
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnrate.choose import files
from attnrate.choose.data import from_file, from_frame
from attnrate.errors import InputError


def hourly(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"ds": pd.date_range("2024", periods=rows, freq="h")})
    return frame.assign(
        y=rng.normal(size=rows), load=rng.normal(size=rows), on=[True, False, False] * (rows // 3)
    )


WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "a.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "A.CSV": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "indexed.parquet": lambda frame, path: frame.set_index("ds").to_parquet(path),
    "numbered.csv": lambda frame, path: frame.to_csv(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_kind_of_table_gives_the_windows_of_its_frame(name: str, tmp_path: Path) -> None:
    WRITERS[name](hourly(), tmp_path / name)
    found, wanted = from_file(tmp_path / name, "y", 2, 5), from_frame(hourly(), "y", 2, 5)
    assert (found.source, found.step) == (name, "hour")
    assert found.samples.inputs == wanted.samples.inputs
    np.testing.assert_allclose(found.samples.x, wanted.samples.x, rtol=1e-14)
    np.testing.assert_array_equal(found.samples.starts, wanted.samples.starts)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_to_ignore_are_not_read(name: str, tmp_path: Path) -> None:
    WRITERS[name](hourly().assign(place="Oslo"), tmp_path / name)
    data = from_file(tmp_path / name, "y", ignore=["place", "load"])
    assert data.samples.inputs == ("y", "on")
    with pytest.raises(InputError, match="ignore names a column that is not there: got 'lod'"):
        from_file(tmp_path / name, "y", ignore="lod")


def test_a_large_table_is_read_in_pieces_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.concat([hourly().assign(unique_id=one) for one in "ab"], ignore_index=True)
    frame.to_csv(tmp_path / "a.csv", index=False)
    whole = from_file(tmp_path / "a.csv", None, 2, 5)
    monkeypatch.setattr(files, "_LARGE", 1000)
    monkeypatch.setattr(files, "_ROWS", 77)
    pieces = from_file(tmp_path / "a.csv", None, 2, 5)
    assert pieces.said == whole.said
    np.testing.assert_array_equal(pieces.samples.x, whole.samples.x)
    frame["load"] = frame["load"].astype(object)
    frame.loc[200, "load"] = "broken"
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"column 'load' has text in row 200 .*'broken'"):
        from_file(tmp_path / "a.csv")


def test_npz_holds_x_and_y(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 60, 8, 1))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    data = from_file(tmp_path / "a.npz")
    assert (data.source, data.samples.count, data.samples.whole) == ("a.npz", 60, True)
    with pytest.raises(InputError, match=r"arrays say by themselves .*\['target', 'horizon'\]"):
        from_file(tmp_path / "a.npz", "y", 3)
    np.savez(tmp_path / "b.npz", a=x)
    with pytest.raises(InputError, match=r"no array x and no array y; it has \['a'\]"):
        from_file(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=np.array([{}]), y=y)
    with pytest.raises(InputError, match="hold Python objects, which are not opened"):
        from_file(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b" \n \n", "nothing but white space"),
        ("a.csv", b"ds,y\n", "there are no rows"),
        ("a.csv", b"\x00\x01\x02" * 99, "the file is no text, whatever its name says"),
        ("a.csv", b"PAR1" * 99, "the file is no text"),
        ("a.csv", b"\xff\xfe\xfd\n" * 99, "no text in UTF-8"),
        ("a.csv", "y,größe\n1,2\n".encode("latin1"), "no text in UTF-8"),
        ("a.csv", b"1,2\n3,4\n", "the first line holds numbers"),
        ("a.csv", b"a;y\n1;2\n", "separated by semicolons.*sep=';'"),
        ("a.tsv", b"a,y\n1,2\n", "separated by commas"),
        ("a.csv", b"y,a,a\n1,2,3\n", "two columns have the same name: got 'a'"),
        ("a.csv", b"a,y\n1,2\n3,4,5\n", r"no table .*line 3"),
        ("a.csv", b"a,y\n1,2,3\n4,5,6\n", "no table .*line 2"),
        ("a.csv", b'a,y\n1,"2\n3,4\n', "no table"),
        ("a.csv", b"It was a dark night.\nRain fell.\n", "no column is named 'y' or 'target'"),
        ("a.csv.gz", b"a,y\n1,2\n", "the compressed file is broken"),
        ("a.parquet", b"PAR1junk", "no whole Parquet"),
        ("a.npz", b"PK\x03\x04junk", r"no whole \.npz"),
        ("a.xlsx", b"PK\x03\x04", r"pandas\.read_excel"),
        ("a.dat", b"1 2", "says no kind that is read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        from_file(tmp_path / name)


def test_a_path_that_is_no_file_is_refused_with_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("y\n1\n")
    with pytest.raises(InputError, match=r"no such file: .* Beside it there are real\.csv"):
        from_file(tmp_path / "reel.csv")
    with pytest.raises(InputError, match=r"a folder, not a file: .* real\.csv in it"):
        from_file(tmp_path)


def test_ten_gigabytes_are_refused_at_once(tmp_path: Path) -> None:
    with open(tmp_path / "a.csv", "wb") as file:
        file.truncate(10 << 30)  # takes no room on the disk
    with pytest.raises(InputError, match=r"too large: about 10\.0 GB as text.*to_parquet"):
        from_file(tmp_path / "a.csv")
    os.remove(tmp_path / "a.csv")


def test_more_numbers_than_the_memory_takes_are_refused() -> None:
    with pytest.raises(InputError, match=r"a\.parquet is too large.*take 14\.9 GB"):
        files.require_room(10_000_000, 100, "a.parquet")
    with pytest.raises(InputError, match=r"take 9\.2 GB.*--resample") as refused:
        files.require_room(2_000_000, 20, "a frame", ladder=True)
    (most,) = re.findall(r"Take ([\d,]+) rows", str(refused.value))
    files.require_room(int(most.replace(",", "")), 20, "a frame", ladder=True)
    files.require_room(2_000_000, 20, "a frame")


def test_parquet_without_its_package_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly().to_parquet(tmp_path / "a.parquet")
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"needs pyarrow.*Save it as \.csv, or install it: pip"):
        from_file(tmp_path / "a.parquet", "y")
