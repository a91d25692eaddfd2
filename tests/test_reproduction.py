"""From the command to the page: a real experiment, again from what is kept, and wrong requests."""

import copy
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pytest
import typer
from warm_commands import attnrate

from attnrate.errors import InputError
from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.experiments.run import records_in
from attnrate.figures.figure import Curves, Figure, Series
from attnrate.reproduction import Agreement, Reproduction, reproduce, settle


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
    different = ("b: holds / does not hold", "c: open / holds")
    assert one.agreement(other) == Agreement(same=1, of=2, different=different)


def test_a_failure_does_not_hide_the_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attnrate.cli.reproduction import report as command

    one = with_verdicts(a="holds", b="open")
    failed = replace(one.records[0], failed="no memory")
    monkeypatch.setattr(
        Reproduction, "report", lambda folder: Reproduction((failed,), Path("page"))
    )
    monkeypatch.setattr(Reproduction, "read", lambda folder: one)
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
        (("reproduce", "--hours", "1"), "--hours limits the time of --settle alone"),
        (("reproduce", "--settle"), "there is no folder"),
        (("reproduce", "fig11", "--settle"), "there is no folder"),
        (("report", "."), "Name a folder that attnrate reproduce has made"),
        (("report", "no-such-folder"), "there is no folder 'no-such-folder'"),
        (("report", ".", "--against", "no-such-folder"), "there is no folder 'no-such-folder'"),
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
    assert "has no verdicts" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["attnrate.json"]


def shown(tmp_path: Path) -> Reproduction:
    """A reproduction with a figure, a claim of each kind and an experiment that failed."""
    said = Conclusion(
        (),
        (Figure("slopes", "Slopes", "", (Curves("", "x", "y", (Series("a", (1, 2), (3, 4)),)),)),),
        (),
        (
            Claim("made-a", "Fig. 1", "So it is.", "made", "holds", "ratio", 0.5, 0.4, 0.6),
            Claim("made-b", "our question", "So it is not.", "made", "open", "no data."),
        ),
    )
    good = Record("made", "Made up", "Fig. 1", "quick", 3, 3, 1.5, {}, said)
    bad = Record("lost", "Lost", "Fig. 2", "quick", 1, 0, 0.0, {}, failed="no memory")
    return Reproduction((good, bad), tmp_path / "index.html")


def test_a_reproduction_shows_itself_in_a_few_lines_and_in_a_notebook(tmp_path: Path) -> None:
    done = shown(tmp_path)
    assert repr(done) == str(done)
    assert str(done).splitlines() == [
        "2 experiments, 2 claims; holds: 1, open: 1",
        "failed: lost",
        "not finished: 1 of 1 job; "
        f"attnrate reproduce lost --preset quick --out {tmp_path} goes on",
        f"the page: {tmp_path / 'index.html'}",
    ]
    assert repr(done.records[0]) == "made (quick): 3 of 3 jobs finished; 2 claims, 1 figures"
    assert repr(done.records[1]) == "lost (quick): 0 of 1 jobs finished; failed"
    assert "made-a" in done._repr_html_()
    assert repr(done.claims[0]) == "made-a: holds (0.5 [0.4, 0.6]). So it is."
    assert repr(done.claims[1]) == "made-b: open. So it is not."


def test_a_reproduction_that_is_not_finished_says_so_and_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attnrate.cli.reproduction import report as command

    good, _ = shown(tmp_path).records
    part = replace(good, tasks=26, finished=4)
    done = Reproduction((part, replace(good, name="other")), tmp_path / "my page" / "index.html")
    folder = f"'{tmp_path / 'my page'}'"
    went_on = f"attnrate reproduce made --preset quick --out {folder} goes on"
    assert f"not finished: 22 of 26 jobs; {went_on}" in str(done)
    monkeypatch.setattr(Reproduction, "report", lambda folder: done)
    command(tmp_path, None, as_json=True)
    assert json.loads(capsys.readouterr().out)["unfinished"] == {"made": 22}


def test_the_claims_of_a_reproduction_are_a_table(tmp_path: Path) -> None:
    frame = shown(tmp_path).to_frame()
    assert frame.name.tolist() == ["made-a", "made-b"]
    assert frame.verdict.tolist() == ["holds", "open"]
    assert [*frame][:5] == ["name", "verdict", "value", "low", "high"]
    assert Reproduction((), tmp_path).to_frame().empty


def test_a_figure_of_a_reproduction_is_drawn_by_its_name(tmp_path: Path) -> None:
    done = shown(tmp_path)
    assert done.figures == ("slopes",)
    assert done.plot("slopes")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"no figure 'slope'\. Did you mean 'slopes'"):
        done.plot("slope")


def test_a_reproduction_is_the_same_after_pickling_and_copying(tmp_path: Path) -> None:
    done = shown(tmp_path)
    pickled = pickle.loads(pickle.dumps(done))  # noqa: S301 - our own, just made
    for again in (pickled, copy.copy(done), copy.deepcopy(done)):
        assert again == done


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"names": 3}, "names must be names of experiments: got 3"),
        ({"names": ["fig1", "fig11"]}, "there is no experiment 'fig11'"),
        ({"preset": "slow"}, "preset is not known: got 'slow'"),
        ({"out": 3}, "the output must be the name of a folder: got 3"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"progress": "yes"}, "progress must be True or False"),
    ],
)
def test_wrong_arguments_are_refused_in_words(
    named: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(said)):
        reproduce(**named)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_may_be_any_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        Reproduction.read(PurePath(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="there is no folder"):
        Reproduction.report(str(tmp_path / "nowhere"))


def test_settling_refuses_what_it_cannot_settle_and_changes_nothing(tmp_path: Path) -> None:
    mark = {"made_by": "attnrate reproduce", "format": 1, "preset": "paper"}
    (tmp_path / "attnrate.json").write_text(json.dumps(mark), encoding="utf-8")
    for words, said in [
        ((), "has no results to settle"),
        (("--preset", "quick"), "holds the results of the preset 'paper'"),
        (("--hours", "-1"), "hours must be a number of hours, 0 or more"),
        (("--hours", "nan"), "hours must be a number of hours, 0 or more"),
        (("fig11",), "'fig1'"),
    ]:
        done = attnrate("reproduce", "--settle", "--out", str(tmp_path), *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["attnrate.json"]


def test_settling_where_no_claim_is_open_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    made = attnrate("reproduce", "propositions", "--out", str(folder), "--workers", "1", "--json")
    assert made.returncode == 0, made.stderr
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.[jh]*")}
    done = attnrate("reproduce", "--settle", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert "no claim is open" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.[jh]*")} == before
    assert str(settle(out=folder, progress=False)) == "no claim is open"
    again = attnrate("reproduce", "--settle", "--hours", "0", "--out", str(folder), "--json")
    assert json.loads(again.stdout)["claims"] == []
