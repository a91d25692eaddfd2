"""Which experiments a store has jobs of: those that it shares with others begin none."""

from attnrate.experiments.begun import begun_in

KEYS = {"fig3": {"model", "spectra"}, "hybrids": {"model", "stem"}, "mff": {"fit"}}


def test_an_experiment_is_begun_by_a_job_of_its_own() -> None:
    assert begun_in({"fit"}, KEYS, ()) == {"mff"}
    assert begun_in({"model", "spectra"}, KEYS, ()) == {"fig3"}
    assert begun_in((), KEYS, ("fig3",)) == set()


def test_a_shared_job_counts_for_an_experiment_that_has_a_record_alone() -> None:
    assert begun_in({"model"}, KEYS, ()) == set()
    assert begun_in({"model"}, KEYS, ("fig3",)) == {"fig3"}


def test_an_experiment_without_a_job_of_its_own_is_begun_by_any() -> None:
    assert begun_in({"model"}, {**KEYS, "fig2": {"model"}}, ()) == {"fig2"}
