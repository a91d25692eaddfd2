"""From the command to the page: a real experiment, again from what is kept, and wrong requests."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from warm_commands import attnrate

from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.experiments.run import records_in
from attnrate.reproduction import Reproduction, agreement


def with_verdicts(**verdicts: str) -> Reproduction:
    claims = tuple(
        Claim(name, "there", "so it is", "made-up", verdict, "")
        for name, verdict in verdicts.items()
    )
    said = Conclusion((), (), (), claims)
    return Reproduction((Record("made-up", "", "", "quick", 0, 0, 0.0, {}, said),), Path("page"))


def test_two_reproductions_agree_on_what_the_first_decides() -> None:
    one = with_verdicts(a="holds", b="holds", c="open", d="does not hold", f="not testable here")
    other = with_verdicts(a="holds", b="does not hold", c="holds", e="holds", f="not testable here")
    same, decided, different = agreement(one, other)
    assert (same, decided) == (1, 2)
    assert different == ["b: holds / does not hold", "c: open / holds"]


def test_a_failure_does_not_hide_the_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attnrate import reproduction as room
    from attnrate.cli.reproduction import report as command

    one = with_verdicts(a="holds", b="open")
    failed = replace(one.records[0], failed="no memory")
    monkeypatch.setattr(room, "report", lambda folder: Reproduction((failed,), Path("page")))
    monkeypatch.setattr(room, "read", lambda folder: one)
    with pytest.raises(typer.Exit) as ended:
        command(Path("a"), Path("b"), as_json=False)
    assert ended.value.exit_code == 1
    assert "the same verdict in 1 of 1" in capsys.readouterr().out


def test_a_reproduction_tells_its_verdicts_and_its_page() -> None:
    told = str(with_verdicts(a="holds", b="open", c="holds"))
    assert "3 claims; holds: 2, open: 1" in told
    assert "page" in told


def test_the_command_writes_page_claims_and_figures_and_can_be_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = attnrate(
        "reproduce", "mixing-rank", "--out", str(folder), "--workers", "1", "--json", new=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failed"] == {}
    assert Path(said["page"]) == folder / "index.html"
    assert said["claims"] == json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    (record,) = records_in(folder)
    for figure in record.conclusion.figures:
        assert (folder / "figures" / f"{figure.name}.png").stat().st_size > 0
        assert (folder / "figures" / f"{figure.name}.svg").stat().st_size > 0
    before = (folder / "claims.json").read_bytes()
    again = attnrate("report", str(folder), "--against", str(folder), new=True)
    assert again.returncode == 0, again.stderr
    assert (folder / "claims.json").read_bytes() == before
    decided = sum(claim["verdict"] != "open" for claim in said["claims"])
    assert f"the same verdict in {decided} of {decided}" in again.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reproduce", "fig11"), "'fig1'"),
        (("reproduce", "fig1", "mixingrank"), "'mixing-rank'"),
        (("reproduce", "propositions", "--preset", "slow"), "quick"),
        (("reproduce", "propositions", "--engine", "loca"), "'local'"),
        (("reproduce", "propositions", "--workers", "0"), "workers"),
        (("report", "no-such-folder"), "no-such-folder"),
    ],
)
def test_wrong_requests_exit_with_2_and_leave_nothing_behind(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "out")) if words[0] == "reproduce" else ()
    done = attnrate(*words, *out)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    done = attnrate("reproduce", "propositions", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "not made by attnrate" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_comparison_with_a_folder_that_has_no_verdicts_is_refused(tmp_path: Path) -> None:
    mark = {"made_by": "attnrate reproduce", "format": 1, "preset": "quick"}
    (tmp_path / "attnrate.json").write_text(json.dumps(mark), encoding="utf-8")
    ended = attnrate("report", str(tmp_path), "--against", str(tmp_path))
    assert ended.returncode == 2
    assert "without verdicts" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["attnrate.json"]
