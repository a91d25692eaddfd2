"""What people see on the way: one line on a terminal, plain lines elsewhere, honest estimates."""

import itertools
import math
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate import progress
from attnrate.progress import Progress, aside, said_range, say, time_left
from attnrate.theory import pod as pod_room
from attnrate.theory.bounds import jackson_bound

Terminal = Callable[[Callable[[], object]], str]
#: What rich writes when a line appears on the terminal, and when a line of it is drawn anew
APPEARS, ERASED = "\x1b[?25l", "\x1b[2K"


def plain(written: str) -> str:
    """What was written to a terminal, without its controls."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)


def drawings(written: str) -> list[str]:
    """Each state of the line, as it stood on the terminal."""
    return [plain(part).strip() for part in written.split(ERASED)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


@given(st.floats(0.01, 1e4), st.integers(3, 50), st.integers(1, 1000), st.integers(1, 64))
def test_equal_durations_give_an_estimate_without_spread(
    seconds: float, known: int, remaining: int, workers: int
) -> None:
    left = time_left([seconds] * known, [1.0] * known, [1.0] * remaining, workers)
    assert left is not None
    assert left[0] == pytest.approx(left[1])
    # Between all running trials about to end and none begun.
    rounds = math.ceil(remaining / workers)
    assert (rounds - 1) / 2 * seconds <= left[1] * (1 + 1e-9) <= rounds * seconds * (1 + 1e-8)


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=20), st.integers(1, 99))
def test_more_trials_take_longer_and_the_range_holds_the_mean(
    durations: list[float], remaining: int
) -> None:
    alike = [1.0] * len(durations)
    left = time_left(durations, alike, [1.0] * remaining, 4)
    more = time_left(durations, alike, [1.0] * (remaining + 4), 4)
    assert left is not None
    assert more is not None
    assert 0 <= left[0] <= left[1] < more[1]


def test_trials_that_cost_their_size_have_an_exact_estimate() -> None:
    sizes = [8.0, 5.0, 4.0]
    durations = [3.0 * size for size in sizes]
    # One worker: half of 4, then 2 and 1.
    assert time_left(durations, sizes, [4.0, 2.0, 1.0], 1) == pytest.approx((15.0, 15.0))
    # Two: (4 + 2) / 2 + 1 + 1 units of work between them.
    assert time_left(durations, sizes, [4.0, 2.0, 1.0, 1.0], 2) == pytest.approx((7.5, 7.5))
    # The large one alone takes longer than all the others, however many workers there are.
    assert time_left(durations, sizes, [4.0, 0.5, 0.5], 3) == pytest.approx((6.0, 6.0))


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.5, 2)), min_size=3, max_size=20),
    st.lists(st.floats(0.1, 100), min_size=1, max_size=20),
    st.integers(1, 8),
    st.floats(0.01, 100),
)
def test_the_unit_of_size_is_of_no_account(
    finished: list[tuple[float, float]], left: list[float], workers: int, unit: float
) -> None:
    durations = [size * luck for size, luck in finished]
    sizes = [size for size, _ in finished]
    one = time_left(durations, sizes, left, workers)
    other = time_left(durations, [unit * s for s in sizes], [unit * s for s in left], workers)
    assert other == pytest.approx(one, rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=20), st.integers(1, 99))
def test_equal_and_unknown_sizes_give_the_rule_for_trials_that_are_alike(
    durations: list[float], remaining: int
) -> None:
    """m R' ± 1.64 s √(R' + R'²/k) for each of 4 workers, R' = trials left, those running half."""
    k, work = len(durations), max(remaining - min(4, remaining) / 2, 2.0)
    mean, spread = statistics.fmean(durations), statistics.stdev(durations)
    deviation = 1.64 * spread * math.sqrt(work + work**2 / k)
    expected = max(0.0, mean * work - deviation) / 4, (mean * work + deviation) / 4
    for size in (0.0, 7.0):
        found = time_left(durations, [size] * k, [size] * remaining, 4)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert time_left(durations, [float(n) for n in range(k)], [3.0] * remaining, 4) == time_left(
        durations, [1.0] * k, [1.0] * remaining, 4
    )


def test_scatter_about_the_size_widens_the_range() -> None:
    sizes, left = [1.0, 2.0, 4.0, 8.0], [2.0] * 10
    even = time_left([1.0, 2.0, 4.0, 8.0], sizes, left, 2)
    uneven = time_left([2.0, 1.0, 6.0, 6.0], sizes, left, 2)
    assert even is not None
    assert uneven is not None
    assert even[0] == pytest.approx(even[1])
    assert uneven[0] < even[0]
    assert even[1] < uneven[1]


def test_an_estimate_is_said_as_people_say_it() -> None:
    assert time_left([1.0, 2.0], [1.0, 1.0], [1.0] * 5, 1) is None
    assert time_left([], [], [], 1) == (0, 0)
    assert said_range(None) == "time left not known yet"
    assert said_range((182.0, 299.0)) == "about 3-5 min left"
    assert said_range((5.2, 5.4)) == "about 5 s left"
    assert said_range((40.0, 200.0)) == "about 40 s - 3 min left"
    assert said_range((7200.0, 12600.0)) == "about 2.0-3.5 h left"


def test_a_steady_pace_gives_one_number(clock: Callable[[float], None]) -> None:
    """A tenth takes 6 s: after four tenths 36 s are left, and half of the fifth has begun."""
    shown = Progress("work", 0.0)
    for tenth in range(1, 5):
        clock(6.0)
        shown.at("work", tenth / 10)
    assert shown.line == "work · about 33 s left"


def test_an_uneven_pace_gives_a_range_that_holds_the_mean(clock: Callable[[float], None]) -> None:
    shown = Progress("work", 0.0)
    for tenth, seconds in enumerate((2.0, 10.0, 4.0, 8.0), start=1):
        clock(seconds)
        shown.at("work", tenth / 10)
    low, high = map(int, re.fullmatch(r"work · about (\d+)-(\d+) s left", shown.line).groups())
    assert low < 33 < high


def test_many_pieces_are_remembered_as_few(clock: Callable[[float], None]) -> None:
    shown = Progress("work", 0.0)
    for step in range(1, 5001):
        clock(0.5)
        shown.at("work", step / 10_000)
    assert len(shown._pace._marks) <= 33
    # 5,000 steps of half a second, less half of a piece that is at most 1/16 of what is behind
    assert shown.line in {"work · about 40 min left", "work · about 41 min left"}


def test_other_work_has_a_pace_of_its_own(clock: Callable[[float], None]) -> None:
    shown = Progress("slow", 0.0)
    for part, seconds in (("slow", 100.0), ("fast", 10.0)):
        for tenth in range(6):
            shown.at(part, tenth / 10)
            clock(seconds)
    assert shown.line == "fast · about 45 s left"


def test_work_without_a_share_has_no_estimate_nor_has_work_that_is_done() -> None:
    assert Progress("reading").line == "reading"
    assert Progress("read", 1.0).line == "read"
    assert Progress("begun", 0.0).line == "begun · time left not known yet"


@pytest.mark.parametrize(("wanted", "lines"), [(None, 0), (False, 0), (True, 1)])
def test_a_pipe_has_lines_only_if_they_are_wanted(
    tmp_path: Path, wanted: bool | None, lines: int
) -> None:
    said = tmp_path / "said"
    with (
        said.open("w", encoding="utf-8") as stream,
        Progress("begun", wanted=wanted, stream=stream, name="work") as shown,
    ):
        shown.at("half of it", 1.0)
        shown.mark()
    assert said.read_text() == "work: half of it\n" * lines


def test_steady_lines_come_when_something_happens_and_at_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.01)
    said = tmp_path / "said"
    with (
        said.open("w", encoding="utf-8") as stream,
        Progress("begun", wanted=True, stream=stream, name="work", steady=True) as shown,
    ):
        shown.at("on the way")
        while "on the way" not in said.read_text():
            time.sleep(0.01)
        time.sleep(0.1)  # nothing happens, and nothing is said
        shown.at("at the end", 1.0)
        while said.read_text().count("\n") < 3:
            time.sleep(0.01)
    lines = ["work: begun", "work: on the way", "work: at the end", "work: at the end"]
    assert said.read_text().splitlines() == lines


def test_steady_lines_come_now_and_then_when_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.01)
    monkeypatch.setattr(progress, "_QUIET_AT_MOST", 0.0)
    said = tmp_path / "said"
    with (
        said.open("w", encoding="utf-8") as stream,
        Progress("waiting", wanted=True, stream=stream, name="work", steady=True),
    ):
        while said.read_text().count("\n") < 4:
            time.sleep(0.01)
    assert {*said.read_text().splitlines()} == {"work: waiting"}


def test_a_terminal_has_a_line_with_a_bar(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("first", 0.0) as shown:
            shown.at("then", 0.5)
            shown.mark()

    written = on_a_terminal(work)
    assert written.count(APPEARS) == 1
    states = drawings(written)
    assert "━" * 24 + " first · time left not known yet" in states
    assert any(state.endswith(" then · time left not known yet") for state in states)
    # it is gone in the end: the last line that was drawn is erased
    assert states[-1] == ""


@pytest.mark.parametrize("width", [60, 80])
def test_the_bar_makes_room_for_words(
    width: int, on_a_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    def work() -> None:
        with Progress("9/48 trials · 2 running · 37 s", 0.2, left=lambda: (34.0, 88.0)) as shown:
            shown.mark()

    lines = [line for line in drawings(on_a_terminal(work)) if line]
    assert lines[-1].endswith("━ 9/48 trials · 2 running · 37 s · about 34-88 s left")
    assert len(lines[-1]) <= width


def test_a_line_that_lasts_stays(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("begun", 0.0, lasting=True) as shown:
            shown.at("all of it", 1.0)

    assert drawings(on_a_terminal(work))[-1] == "━" * 24 + " all of it"


def test_work_that_is_not_wanted_draws_nothing(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("begun", 0.0, wanted=False) as shown:
            shown.at("all of it", 1.0)
            shown.mark()

    assert on_a_terminal(work) == ""


def test_short_work_draws_nothing(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("short", after=60.0) as shown:
            shown.at("done")

    assert on_a_terminal(work) == ""


def test_work_that_takes_longer_than_expected_appears_by_itself(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("silent", after=0.01) as shown:
            while shown not in progress._LINE._open:
                time.sleep(0.01)

    assert "silent" in plain(on_a_terminal(work))


def test_work_that_has_ended_does_not_appear_any_more(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("ended", after=60.0) as shown:
            pass
        progress._LINE.add(shown)

    assert on_a_terminal(work) == ""


@given(st.integers(30, 200), st.text(st.characters(codec="ascii", categories=["L"]), max_size=300))
def test_the_live_line_is_cut_to_the_width_of_the_terminal(width: int, text: str) -> None:
    from rich.console import Console

    line = progress._Terminal()
    line._open.append(Progress(text, 0.5))
    console = Console(width=width, color_system=None)
    drawn = console.render_lines(line._text(), pad=False)
    assert len(drawn) == 1
    words = "".join(segment.text for segment in drawn[0])
    assert len(words) <= width
    whole = "━" * 24 + f" {text} · time left not known yet".rstrip()
    assert words == whole or words.endswith("…")


def test_work_within_work_is_on_one_line(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("outer") as outer:
            with Progress("inner", 0.25) as inner:
                inner.mark()
            with Progress("another"):
                pass
            outer.mark()

    written = on_a_terminal(work)
    assert written.count(APPEARS) == 1
    states = [re.sub("^[^a-z]*", "", state) for state in drawings(written)]
    seen = [state for state, _ in itertools.groupby(states) if state]
    assert seen[:3] == ["outer", "outer · inner · time left not known yet", "outer · another"]
    assert {*seen[3:]} <= {"outer", "outer · another"}


def test_the_line_is_free_again_however_the_work_ends(on_a_terminal: Terminal) -> None:
    def work() -> None:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), Progress("outer"), Progress("inner"):
                1 / 0  # noqa: B018

    written = on_a_terminal(work)
    assert written.count(APPEARS) == written.count("\x1b[?25h") == 2
    assert not progress._LINE._open


def test_what_is_said_meanwhile_comes_above_the_line(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("at work", lasting=True):
            say("a word")

    last = plain(on_a_terminal(work)).strip().splitlines()
    assert last[-1].endswith("at work")
    assert any("attnrate: a word" in line for line in last[:-1])


def test_what_is_printed_to_a_pipe_stays_out_of_the_line(
    on_a_terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with Progress("at work"):
            print("a result")

    assert "a result" not in on_a_terminal(work)
    assert capsys.readouterr().out == "a result\n"


def test_another_library_has_the_terminal_for_itself(on_a_terminal: Terminal) -> None:
    def work() -> None:
        with Progress("opening"):
            with aside():
                sys.stderr.write("50%\r")
            with Progress("reading"):
                pass

    written = on_a_terminal(work)
    before, after = written.split("50%\r")
    assert "opening" in before
    assert before.count(APPEARS) == before.count("\x1b[?25h") == 1
    assert "opening · reading" in after


def test_a_bound_and_the_pod_that_it_asks_for_draw_one_line(
    on_a_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `attnrate bound` does, with a coupling whose decomposition says how far it is."""
    from attnrate.targets import AttentionTarget, FunctionCoupling, UniformInputs, identity

    monkeypatch.setattr(pod_room, "QUIET", 0.001)
    monkeypatch.setattr("attnrate.theory.watch._OFTEN", 0.0)
    coupling = FunctionCoupling(lambda a, b: (a * b)[..., 0].cos(), 1, "cos(u*v)")
    inputs = UniformInputs((0.0,), (1.0,))
    target = AttentionTarget(identity, identity, coupling, 4, inputs)

    def work() -> None:
        with Progress("bounding"):
            jackson_bound(target, 2)

    written = on_a_terminal(work)
    assert written.count(APPEARS) == 1
    assert re.search(r"bounding · looking for slices: [\d,]+ evaluations", plain(written))


def test_a_pod_by_itself_shows_what_it_is_doing(
    on_a_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_room, "QUIET", 0.001)
    monkeypatch.setattr("attnrate.theory.watch._OFTEN", 0.0)
    written = on_a_terminal(lambda: pod_room.pod(lambda u, v: np.cos(u * v), (0, 1)))
    assert written.count(APPEARS) == 1
    assert re.search(r"looking for slices: [\d,]+ evaluations, 0 s", plain(written))


def outputs_of(cell: str) -> tuple[list[str], list[dict[str, str]]]:
    """What a cell shows in a real Jupyter kernel: each state of its live line, and what stays."""
    from nbclient import NotebookClient
    from nbformat import v4

    states: list[str] = []

    class Watching(NotebookClient):
        def process_message(self, msg, cell, cell_index):  # type: ignore[no-untyped-def]
            if msg["msg_type"] in ("display_data", "update_display_data"):
                states.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    book = v4.new_notebook(cells=[v4.new_code_cell(cell)])
    Watching(book, kernel_name="python3", timeout=120).execute()
    return states, [output["data"] for output in book.cells[0].outputs if "data" in output]


@pytest.mark.slow
def test_a_notebook_has_a_live_line_whose_last_text_stays() -> None:
    states, left = outputs_of(
        "import time\n"
        "from attnrate.progress import Progress\n"
        "with Progress('outer', 0.0) as outer:\n"
        "    with Progress('inner', after=0.2) as inner:\n"
        "        while not any(inner is one for one in outer._place._open):\n"
        "            time.sleep(0.05)\n"
        "        outer.at('outer', 0.5)\n"
        "        outer.mark()\n"
    )
    assert states[0] == "outer · time left not known yet"
    assert any(state.endswith("inner") for state in states)
    assert states[-1] == "done: outer"
    assert [data["text/html"] for data in left] == ["<div>done: outer</div>"]


@pytest.mark.slow
def test_a_cell_has_one_output_for_all_lines_that_need_not_last() -> None:
    states, left = outputs_of(
        "from attnrate.progress import Progress\n"
        "with Progress('first', 0.0):\n"
        "    pass\n"
        "try:\n"
        "    with Progress('second'):\n"
        "        raise ValueError\n"
        "except ValueError:\n"
        "    pass\n"
        "with Progress():\n"
        "    pass\n"
    )
    assert "" not in states
    assert {"done: first", "stopped: second", "working"} <= {*states}
    assert [data["text/plain"] for data in left] == ["done after 0 s"]


@pytest.mark.slow
def test_a_lasting_line_stays_in_a_notebook_and_unwanted_ones_never_appear() -> None:
    states, left = outputs_of(
        "from attnrate.progress import Progress\n"
        "with Progress('quiet', 0.0, wanted=False), Progress('short', after=60.0):\n"
        "    pass\n"
        "with Progress('a < b', 0.0, lasting=True) as shown:\n"
        "    shown.at('all of it', 1.0)\n"
    )
    assert states[-1] == "all of it"
    assert not any("quiet" in state or "short" in state for state in states)
    bar = '<progress max="1" value="1.000"></progress>'
    assert left[0]["text/html"] == f"<div>{bar} all of it</div>"
