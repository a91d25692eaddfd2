"""Table 1 on CIFAR-10: which models it has; what it concludes is in kits/test_orders.py."""

import pytest
from trained_models import concluded, image_outcome

from attnrate.experiments.contract import Done
from attnrate.experiments.paper import fig3
from attnrate.experiments.paper.table1_cifar import EXPERIMENT


@pytest.mark.parametrize(("preset", "seeds"), [("quick", 1), ("paper", 3)])
def test_originals_are_the_largest_models_of_fig3(preset, seeds):
    jobs = [one.job for one in EXPERIMENT.plan(preset)]
    theirs = {one.job.key: one.job for one in fig3.EXPERIMENT.plan(preset)}
    largest = max(job.m_h for job in theirs.values())
    originals, others = jobs[:seeds], jobs[seeds:]
    assert [theirs[job.key].m_h for job in originals] == [largest] * seeds
    assert all(job.image.tuned for job in originals)
    assert {job.m_h for job in others} == {largest}
    kinds = [(job.image.kind, job.image.altered) for job in others]
    for wanted in (("attention", True), ("gru", False), ("gru", True)):
        assert kinds.count(wanted) == seeds


def test_the_score_is_the_share_of_tests_that_are_told_right():
    job = EXPERIMENT.plan("quick")[0].job
    said = concluded("table1-cifar", [Done(job, image_outcome(0.75, (0.7, 0.2, 0.6)))])
    row = dict(zip(said.tables[0].columns, said.tables[0].rows[0], strict=True))
    assert (row["model"], row["original"], row["original, trained on"]) == ("ViT", "0.75", "0.7")
    assert (row["altered, not fine-tuned"], row["altered, fine-tuned"]) == ("0.2", "0.6")
