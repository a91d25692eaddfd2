"""The options of sizes that compress takes: which go together, and what each may be."""

from pathlib import Path
from typing import Any

import pytest
import torch

import attnrate as ar
from attnrate.cli.cut_sizes import GivenSizes
from attnrate.errors import InputError

NOTHING: dict[str, Any] = dict.fromkeys(GivenSizes.__dataclass_fields__)


def given(**more: Any) -> GivenSizes:
    return GivenSizes(**NOTHING | more)


@pytest.mark.parametrize(
    "more",
    [{}, {"size": 8}, {"loss": 0.05, "multiple_of": 4}, {"average": 12.5}, {"bytes": 10**6}],
)
def test_one_way_to_say_sizes_is_taken(more: dict[str, Any]) -> None:
    given(**more).require_fitting()
    assert given(**more).advice() is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"size": 8, "keep": 0.5},
            r"only one of --size, .* and --profile .*\['--size', '--keep'\]",
        ),
        ({"loss": 0.1, "profile": Path("x")}, r"got \['--loss', '--profile'\]"),
        ({"loss": 1.0}, "loss must be a share between 0 and 1: got 1.0"),
        ({"loss": -1.0}, "loss must be a share between 0 and 1: got -1.0"),
        ({"loss": float("nan")}, "loss must be a finite number"),
        ({"average": 0.0}, "average must be a finite number greater than 0"),
        ({"bytes": 0}, "bytes must be a whole number of at least 1"),
        ({"multiple_of": 0}, "multiple_of must be a whole number of at least 1"),
        ({"tolerance": 0.1}, "--tolerance is for --profile: got 0.1"),
        ({"profile": Path("x"), "tolerance": 2.0}, "tolerance must be a share between 0 and 1"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        given(**more).require_fitting()


def test_the_advice_is_that_of_the_profile_in_the_folder(tmp_path: Path) -> None:
    found = ar.profile(ar.Transformer(2, 1, n=8, m_h=4), torch.rand(8, 16, 2))
    found.save(tmp_path / "kept", page=False)
    advice = given(profile=tmp_path / "kept", tolerance=0.3).advice()
    assert advice is not None
    wanted = ar.advise(found, tolerance=0.3)
    assert (advice.tolerance, advice.layers) == (0.3, wanted.layers)
    with pytest.raises(InputError, match="no such folder"):
        given(profile=tmp_path / "gone").advice()
