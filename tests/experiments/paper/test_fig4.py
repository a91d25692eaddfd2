"""Fig. 4: a network F̂ decides, a linear one may correct."""

from map_experiments import changed, concluded, of_seed, verdicts, worked

GOOD = {"rows": {"link": 0.99, "near_link": 0.995}, "pointwise": {"rms": 0.01}}
BAD = {"rows": {"link": 0.4, "near_link": 0.5}, "pointwise": {"rms": 0.2}}


def test_the_network_decides_and_the_linear_readout_corrects():
    good = changed(worked("fig4"), **GOOD)
    assert set(verdicts("fig4", good).values()) == {"holds"}
    wide_bad = changed(good, "wide", **BAD)
    assert set(verdicts("fig4", wide_bad).values()) == {"holds when corrected"}
    one_bad = changed(good, "network", **BAD)
    assert set(verdicts("fig4", one_bad).values()) == {"holds when corrected"}
    claims = {claim.name: claim for claim in concluded("fig4", one_bad).claims}
    assert claims["fig4-links"].correction
    assert "40.0 %" in claims["fig4-links"].evidence
    assert "99.0 %" in claims["fig4-links"].evidence
    assert "in 1 of 2 fits" in claims["fig4-links"].correction
    both_bad = changed(worked("fig4"), **BAD)
    assert set(verdicts("fig4", both_bad).values()) == {"does not hold"}


def test_the_seeds_that_are_there_are_counted():
    again = of_seed(worked("fig4"), 1)[:1]
    both = [*changed(worked("fig4"), **GOOD), *changed(again, rows={"link": 0.98})]
    table = concluded("fig4", both).tables[0]
    assert [row[1] for row in table.rows] == [2, 1, 1]
