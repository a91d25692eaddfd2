"""What all experiments have: work and outcomes with typed fields, and words for missing data."""

from dataclasses import FrozenInstanceError

import pytest

from attnrate.experiments.contract import (
    Conclusion,
    FitOutcome,
    Outcome,
    Results,
    Work,
    from_plain,
    to_plain,
    unfinished,
)
from attnrate.experiments.paper.propositions import Checks


class Halved(Outcome):
    value: float
    steps: tuple[int, ...] = ()


class Halving(Work, work="propositions.halving"):
    start: float

    def run(self) -> Halved:
        return Halved(self.start / 2, (1, 2))


def test_work_and_outcomes_are_frozen_and_survive_json_without_a_decorator() -> None:
    job = Halving(start=3.0, seed=4)
    assert job == Halving(start=3.0, seed=4) != Halving(start=3.0)
    assert job.settings["seed"] == 4
    assert job.settings["target"] == {"work": "propositions.halving", "start": 3.0}
    assert Work.kinds["propositions.halving"] is Halving
    assert from_plain(Halved, to_plain(job.run())) == Halved(1.5, (1, 2))
    with pytest.raises(FrozenInstanceError):
        job.start = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Halving(3.0)  # type: ignore[misc]


def test_no_model_is_finished_because_of_data_only_if_there_is_none() -> None:
    assert unfinished(Results(), (), "images") == Conclusion(
        ("No model of this experiment is finished.",)
    )
    gone = Results(missing=("no client", "no disk"))
    assert unfinished(gone, (), "data").paragraphs == ("The data could not be had: no client",)
    assert gone.gaps == " 2 of 2 models are missing: no client"
    assert Results().gaps == ""


def test_work_has_a_name_of_its_own_and_says_what_it_returns() -> None:
    with pytest.raises(
        TypeError, match=r"named 'propositions\.checks', .*paper\.propositions\.Checks"
    ):

        class Again(Work, work=Checks.work):
            def run(self) -> FitOutcome:
                raise NotImplementedError

    with pytest.raises(TypeError, match=r"Unsaid\.run must say which Outcome it returns"):

        class Unsaid(Work, work="contract.unsaid"):
            def run(self) -> Outcome:
                raise NotImplementedError
