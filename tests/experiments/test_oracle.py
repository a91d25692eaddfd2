"""A finished quick run of 0.1.0 and the committed reproduction say now what they said then."""

import json
import math
import shutil
from pathlib import Path

import pytest

from attnrate.experiments.run import conclude_folder, records_in

HERE = Path(__file__).resolve().parent
QUICK = HERE / "quick-0.1.0"
DOCS = HERE.parents[1] / "docs" / "reproduction"


@pytest.mark.slow
@pytest.mark.parametrize("before", [QUICK, DOCS], ids=["quick-0.1.0", "docs"])
def test_concluding_again_gives_every_verdict_and_number(before: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(before, folder)
    conclude_folder(folder)
    found = {claim.name: claim for one in records_in(folder) for claim in one.claims}
    told = json.loads((before / "claims.json").read_text(encoding="utf-8"))
    assert len(told) == len(found) == 78
    for claim in told:
        now = found[claim["name"]]
        assert now.verdict == claim["verdict"], claim["name"]
        then = math.nan if claim["value"] is None else claim["value"]
        value = math.nan if now.value is None else now.value
        # other versions of the libraries round the last digits otherwise
        assert value == pytest.approx(then, rel=1e-9, nan_ok=True), claim["name"]


def test_no_record_of_a_conclusion_failed(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(QUICK, folder)
    conclude_folder(folder)
    assert [one.failed for one in records_in(folder) if one.failed] == []
