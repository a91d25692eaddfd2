"""Cells of tables: contrasts are paired by seed, and verdicts follow from ratios and floors."""

import math

import pytest
from conclusions import cell_fit

from attnrate.experiments import load
from attnrate.experiments.contract import Done, Experiment, Fit, FitOutcome
from attnrate.experiments.kits.cells import (
    Cell,
    CellFit,
    CellTable,
    Measured,
    exact_floor,
    harmless,
    hurts,
    standing,
    worse,
)
from attnrate.experiments.kits.fits import DIVERGED, Fits
from attnrate.experiments.paper import table2, table3
from attnrate.experiments.paper.table2 import targets
from attnrate.fitting.build import complete
from attnrate.statistics import Interval, geometric_mean


def fits(
    model: str, target: str, recipe: str, *errors: float | None
) -> list[Done[Fit[CellFit], FitOutcome]]:
    return [
        cell_fit(CellFit(model, target, recipe, seed), error) for seed, error in enumerate(errors)
    ]


@pytest.mark.parametrize(
    ("experiment", "cells", "preset", "seconds"),
    [
        (table2.EXPERIMENT, table2.CELLS, "quick", 250),
        (table2.EXPERIMENT, table2.CELLS, "paper", 1.2 * 3600),
        (table3.EXPERIMENT, table3.CELLS, "quick", 95),
        (table3.EXPERIMENT, table3.CELLS, "paper", 0.8 * 3600),
    ],
)
def test_every_cell_is_fitted_by_both_recipes_within_the_budget(
    experiment: Experiment, cells: tuple[Cell, ...], preset: str, seconds: float
) -> None:
    listed = experiment.plan(preset)
    assert len({one.job.key for one in listed}) == len(listed)
    assert len(complete([one.job.trial for one in listed])) == len(listed)
    labels = {(fit.model, fit.target, fit.recipe) for fit in (one.job.label for one in listed)}
    assert labels == {(c.model, c.target, r) for c in cells for r in ("paper", "strong")}
    assert sum(one.size for one in listed) <= seconds
    assert load(experiment.name) is experiment


def test_a_contrast_is_paired_by_seed_and_leaves_out_what_diverged():
    done = [
        *fits("RNN", "original", "strong", 1e-3, 1e-5, None),
        *fits("RNN", "permuted", "strong", 1e-2, 1e-4, 1.0),
    ]
    measured = Measured(CellTable("t", "T", (), {}, {}), Fits(done))
    found = measured.ratio("RNN", "permuted")
    assert found.count == 2
    assert found.value == pytest.approx(10.0)
    assert found.low == pytest.approx(10.0)
    assert measured.errors("RNN", "original") == [1e-3, 1e-5]


def test_the_floor_of_the_permuted_target_is_above_what_the_paper_has():
    assert exact_floor(targets()["permuted"], "RNN") == pytest.approx(5.2637e-2, rel=1e-4)
    assert exact_floor(targets()["moved"], "RNN") == pytest.approx(3.0119e-2, rel=1e-3)
    assert exact_floor(targets()["original"], "RNN") == 0.0
    assert exact_floor(targets()["permuted"], "Transformer") is None


def test_one_seed_is_no_interval_and_needs_a_ratio_beyond_any_spread():
    assert not worse(geometric_mean([10.0]))
    assert worse(geometric_mean([1e4]))
    assert worse(geometric_mean([9.0, 10.0, 11.0]))
    assert not worse(geometric_mean([1.0, 100.0, 10.0]))
    assert not worse(geometric_mean([]))


@pytest.mark.parametrize(
    ("ratios", "altered", "expected"),
    [
        ([20.0, 21.0, 22.0], [2e-4] * 3, "holds"),
        ([20.0, 21.0, 22.0], [2e-6] * 3, "holds when corrected"),
        ([1.0, 1.1, 1.2], [2e-4] * 3, "does not hold"),
        ([0.1, 2.0, 5.0], [2e-6] * 3, "does not hold"),
        ([2.0, 20.0, 5.0], [2e-6] * 3, "open"),
        ([2.0, 20.0, 5.0], [2e-4] * 3, "open"),
        ([], [], "open"),
    ],
)
def test_a_drop_is_one_of_the_ratio_at_any_size_of_the_errors(ratios, altered, expected):
    assert hurts(geometric_mean(ratios), altered, 2e-5) == expected


@pytest.mark.parametrize(
    ("ratios", "altered", "expected"),
    [
        ([1.0, 1.1, 1.2], [1.0] * 3, "holds"),
        ([0.1, 2.0], [2e-5] * 2, "holds"),
        ([0.1, 2.0], [1.0] * 2, "open"),
        ([20.0, 21.0, 22.0], [1e-6] * 3, "holds when corrected"),
        ([20.0, 21.0, 22.0], [2e-5] * 3, "does not hold"),
        ([20.0, 21.0, 22.0], [1.0] * 3, "open"),
        ([5.0], [2e-5], "open"),
        ([], [], "open"),
    ],
)
def test_an_alteration_is_harmless_only_with_certainty(ratios, altered, expected):
    assert harmless(geometric_mean(ratios), altered, 1e-5, 2e-5) == expected


def test_where_the_floor_is_zero_a_ratio_of_small_errors_is_training_s():
    ratio = geometric_mean([20.0, 21.0, 22.0])
    assert harmless(ratio, [2e-5] * 3, 1e-5, 2e-5, 0.0) == "holds"
    assert harmless(ratio, [2e-5] * 3, 1e-5, 2e-5, 1e-9) == "does not hold"
    assert harmless(ratio, [1.0] * 3, 1e-5, 2e-5, 0.0) == "open"


def test_a_cell_stands_to_the_paper_in_words():
    cell, good, none = Cell("RNN", "permuted", 3e-2), geometric_mean([1e-2]), geometric_mean([])
    assert standing(cell, good, 0.0) == "at or below the paper's"
    assert standing(cell, good, 5e-2) == "the paper's is below the exact floor"
    assert standing(cell, geometric_mean([1.0]), None) == "above the paper's"
    assert standing(cell, none, None) == "not run yet"
    assert standing(cell, DIVERGED, None) == "every fit diverged"
    assert standing(Cell("RNN", "moved"), good, 0.0) == "not in the paper"


def test_tables_leave_out_what_was_not_run_and_show_no_nan():
    cells = (Cell("RNN", "original", 1e-7), Cell("Transformer", "original", 2e-5))
    cells += (Cell("RNN", "permuted", 1e-2),)
    table = CellTable("t", "T", cells, targets(), {})
    found = Measured(table, Fits(fits("RNN", "original", "strong", 1e-9)))
    table = found.table("t", "")
    assert [row[:3] for row in table.rows] == [("RNN", "original", "strong")]
    assert not any(isinstance(cell, float) and math.isnan(cell) for cell in table.rows[0])
    assert table.rows[0][-1] == "at or below the paper's"
    assert found.contrasts().rows == ()
    said = found.reached_sentence()
    assert said.startswith("The strong recipe is at or below the paper's error in 1 of 3 cells")
    assert "Transformer, original, has not been run yet" in said


def test_a_cell_whose_fits_all_diverged_is_not_one_that_was_not_run():
    cells = (Cell("RNN", "original", 1e-7), Cell("RNN", "permuted", 1.0))
    done = [
        *fits("RNN", "original", "strong", 1e-9, 1e-9),
        *fits("RNN", "permuted", "strong", None, None),
    ]
    found = Measured(CellTable("t", "T", cells, targets(), {}), Fits(done))
    assert found.ratio("RNN", "permuted").shown == "diverged"
    assert found.table("t", "").rows[1][-1] == "every fit diverged"
    assert found.contrasts().rows[0][-1] == "diverged"
    assert found.reached_sentence().endswith("RNN, permuted, diverged in every fit.")
    claim = found.ratio_claim("name", "place", "It hurts.", "RNN", "permuted", "open")
    assert "unknown with the recipe strong, because every fit diverged" in claim.evidence


def test_an_interval_without_seeds_is_neither_worse_nor_as_good():
    nothing = Interval(math.nan, math.nan, math.nan, 0)
    assert hurts(nothing, [], 1.0) == harmless(nothing, [], 1.0, 1.0) == "open"


def measured(**altered: tuple[float, ...]) -> Measured:
    """Table 2 with these errors of the strong recipe, and 1e-9 of each model without a change."""
    done = [
        *(
            fit
            for model in ("RNN", "Transformer")
            for fit in fits(model, "original", "strong", 1e-9, 1e-9)
        ),
        *(
            fit
            for name, errors in altered.items()
            for fit in fits(*name.split("_"), "strong", *errors)
        ),
    ]
    return Measured(table2.TABLE, Fits(done))


@pytest.mark.parametrize(
    ("model", "target", "errors", "said"),
    [
        ("RNN", "mixed", (1e-9, 1e-7), "the exact floor is zero and every fit reaches the paper's"),
        ("Transformer", "permuted", (1e-10, 1e-8), "the mean ratio is at most 3 and every fit"),
    ],
)
def test_a_verdict_against_its_interval_says_by_which_rule(
    model: str, target: str, errors: tuple[float, ...], said: str
) -> None:
    found = measured(**{f"{model}_{target}": errors})
    verdict = found.is_unhurt(model, target)
    assert verdict == "holds"
    ratio = found.ratio(model, target)
    assert ratio.low < 3 < ratio.high
    assert said in found.rule(model, target, verdict)
    assert "both sides of 3" in found.rule(model, target, verdict)
    hurt = found.is_hurt(model, target)
    if hurt == "does not hold":
        assert "paper prints for the original one" in found.rule(model, target, hurt)


def test_a_verdict_with_its_interval_and_an_open_one_name_no_rule() -> None:
    found = measured(RNN_mixed=(1e-9, 1.1e-9), Transformer_mixed=(1e-10, 1.0))
    assert found.rule("RNN", "mixed", found.is_unhurt("RNN", "mixed")) == ""
    assert found.is_hurt("Transformer", "mixed") == "open"
    assert found.rule("Transformer", "mixed", "open") == ""


def test_a_table_leaves_out_the_ends_of_an_interval_that_says_nothing() -> None:
    found = measured(RNN_mixed=(1e-9, 1.0), Transformer_mixed=(1e-9, 1.1e-9))
    table = found.table("Table", "")
    rows = {row[:2]: row for row in table.rows}
    low, high = table.columns.index("low"), table.columns.index("high")
    assert rows["RNN", "mixed"][low] is rows["RNN", "mixed"][high] is None
    assert rows["Transformer", "mixed"][low] < 1e-9 < rows["Transformer", "mixed"][high]
