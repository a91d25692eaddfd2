"""`attnrate choose`: what it prints and writes, what it refuses, and how wide it is."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from warm_commands import attnrate

ANSWER = ("--target", "load", "--horizon", "0", "--window", "8", "--stage", "ladder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv, an hour a row, and files that are not what their names say."""
    place = tmp_path_factory.mktemp("data")
    drawn = np.random.default_rng(0)
    heat = drawn.normal(size=2000)
    frame = pd.DataFrame(
        {
            "time": pd.date_range("2024-01-01", periods=2000, freq="h"),
            "heat": heat,
            "load": np.convolve(heat, [1.0, 0.5])[:2000] + 0.1 * drawn.normal(size=2000),
        }
    )
    frame.to_csv(place / "load.csv", index=False)
    frame.assign(load=frame["load"].astype(object).where(frame.index != 17, "n/a?")).to_csv(
        place / "text.csv", index=False
    )
    frame[::-1].to_csv(place / "backward.csv", index=False)
    pd.concat([frame[:3], frame[2:]]).to_csv(place / "twice.csv", index=False)
    frame[:1].to_csv(place / "one.csv", index=False)
    odd = frame.assign(**{'<b>"x"\n🙂': drawn.normal(size=2000), "": drawn.normal(size=2000)})
    odd.to_csv(place / "odd.csv", index=False)
    frame.assign(load=3.0).to_csv(place / "constant.csv", index=False)
    (place / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (place / "empty.csv").touch()
    (place / "folder.csv").mkdir()
    (place / "load.xlsx").write_text("no table")
    return place


def test_an_answer_has_its_verdict_first_then_reasons_then_the_table(folder: Path) -> None:
    done = attnrate("choose", "load.csv", *ANSWER, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "linear: A linear map is enough.",
        "take: filter (a linear filter of the past, the same at all times)",
    ]
    kinds = [line[:1] for line in lines]
    assert kinds.index("-") == 2
    assert "┏" not in kinds[: kinds.index("-")]
    assert any("2,000 rows from 2024-01-01" in line for line in lines)


def test_json_is_one_object_with_the_answer_and_the_page(folder: Path, tmp_path: Path) -> None:
    done = attnrate(
        "choose", "load.csv", *ANSWER, "--json", "--out", tmp_path / "answer", folder=folder
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["verdict"], said["winner"], said["about"]["window"]) == ("linear", "filter", 8)
    assert Path(said["page"]) == tmp_path / "answer" / "index.html"
    assert sorted(os.listdir(tmp_path)) == ["answer"]
    assert "A linear map is enough" in Path(said["page"]).read_text("utf-8")


def test_a_file_beside_the_page_that_no_race_opened_stays(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "answer.fits.sqlite"
    mine.write_text("")
    done = attnrate("choose", "load.csv", *ANSWER, "--out", tmp_path / "answer", folder=folder)
    assert done.returncode == 0, done.stderr
    assert mine.exists()


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fit_a_narrow_terminal(width: int, folder: Path) -> None:
    settings = {"COLUMNS": str(width)}
    done = attnrate("choose", "load.csv", *ANSWER, folder=folder, settings=settings)
    tables = [line for line in done.stdout.splitlines() if re.match("[┏┃┡│└]", line)]
    assert len(tables) > 6
    assert max(map(len, tables)) <= width
    assert "…" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("text.csv",), r"text in row 17 \(the first is 0\): 'n/a\?'; no other cell does"),
        (("backward.csv",), r"not sorted.*row 1 .*frame\.sort_values\('time'\)"),
        (("twice.csv",), r"a time comes twice: '2024-01-01 02:00:00' in row 3"),
        (("one.csv",), r"the series has one row"),
        (("picture.csv",), r"the file is no text, whatever its name says"),
        (("empty.csv",), r"the file is empty"),
        (("folder.csv",), r"this is a folder, not a file"),
        (("load.xlsx",), r"ending.*pandas\.read_excel"),
        (("nothing.csv",), r"there is no such file.*Beside it"),
        (("load.csv", "--target", "laod"), r"Did you mean 'load'\?"),
        (("load.csv", "--target", "time"), r"'time' holds text.*another column as the target"),
        (("load.csv", "--stage", "races"), r"--stage is not known: got 'races'"),
        (("load.csv", "--engine", "beam"), r"--engine is not known: got 'beam'"),
        (("load.csv", "--minutes", "0"), r"--minutes must be a finite number greater than 0"),
        (("load.csv", "--minutes", "nan"), r"--minutes must be a finite number"),
        (("load.csv", "--horizon", "5000"), r"--horizon is 5000, and the series has only 2,000"),
        (("load.csv", "--out", "load.csv"), r"load\.csv"),
        (("load.csv", "--out", "load.csv/page"), r"load\.csv"),
        (("load.csv", "--store", "none/a.sqlite"), r"folder that is not there"),
    ],
)
def test_a_wrong_request_is_refused_in_words(
    words: tuple[str, ...], said: str, folder: Path
) -> None:
    before = sorted(os.listdir(folder))
    named = words if "--target" in words else (*words, "--target", "load")
    done = attnrate("choose", *named, folder=folder)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[-300:]
    assert re.search(said, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(folder)) == before


def test_a_constant_target_is_no_answer_with_its_reason(folder: Path) -> None:
    done = attnrate("choose", "constant.csv", *ANSWER, folder=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("cannot-tell: These data cannot tell.\n- the target 'load' is 3")


def test_names_of_columns_are_text_wherever_they_come(folder: Path, tmp_path: Path) -> None:
    done = attnrate("choose", "odd.csv", *ANSWER, "--out", tmp_path / "page", folder=folder)
    assert done.returncode == 0, done.stderr
    assert repr('<b>"x"\n🙂') in done.stdout
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert "&lt;b&gt;" in page
    assert '<b>"x"' not in page


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other rights there")
def test_a_folder_that_cannot_be_made_is_refused_before_the_work(folder: Path) -> None:
    done = attnrate(
        "choose", "load.csv", "--target", "load", "--out", "/proc/none/answer", folder=folder
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
