"""The commands pod and bound: couplings with a minus, bounds that say nothing, wrong requests."""

import json

import pytest
from warm_commands import attnrate


@pytest.mark.parametrize("rho", ["-u*v", "-2*u*v", "-sin(u*v)"])
def test_a_coupling_may_begin_with_a_minus(rho: str) -> None:
    done = attnrate("pod", rho, "--u", "-1", "1", "--json")
    plain = attnrate("pod", f"({rho})", "--json", "--u", "-1", "1")
    assert (done.returncode, plain.returncode) == (0, 0), done.stderr
    assert json.loads(done.stdout)["sigma"] == json.loads(plain.stdout)["sigma"]


def test_a_law_that_cannot_be_told_is_not_called_none() -> None:
    shown = attnrate("pod", "min(u,v)", "--max-rank", "5").stdout
    assert "decay: no law is certain" in shown
    assert "8 are needed" in shown


def test_a_long_spectrum_says_where_the_rest_is() -> None:
    assert "more: --json)" in attnrate("pod", "abs(u-v)").stdout


@pytest.mark.parametrize(("alpha", "said"), [("1", True), ("9", False)])
def test_bounds_that_say_nothing_are_marked(alpha: str, said: bool) -> None:
    words = ("bound", "--alpha", alpha, "--rank", "2", "--m-h", "2", "--length", "2")
    row = json.loads(attnrate(*words, "--json").stdout)["bounds"][0]
    assert (max(row["rigorous"], row["printed"]) > row["trivial"]) is said
    shown = attnrate(*words).stdout
    assert (f"A bound above {row['trivial']:.3g} says nothing" in shown) is said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "got 'none of them'"),
        (("--alpha", "1"), "got '--alpha 1.0'"),
        (("--alpha", "1", "--rank", "6", "--m-h", "1", "2"), "head sizes have commas"),
        (("u*v", "--rank", "3"), "--rank goes with --alpha and without RHO"),
    ],
)
def test_wrong_bounds_are_refused_by_what_was_typed(words: tuple[str, ...], said: str) -> None:
    done = attnrate("bound", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "--u" not in done.stderr
