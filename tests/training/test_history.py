"""Results as they are kept."""

import math
from dataclasses import dataclass, replace

from attnrate.training.history import Epoch, epochs_figure, rounded


@dataclass(frozen=True)
class Kept:
    number: float | None
    inside: "tuple[Kept, ...]" = ()
    word: str = "1.23456789"
    count: int = 12345678


def test_floats_have_six_digits_and_nothing_else_changes():
    given = Kept(1.23456789, (Kept(float("nan")), Kept(12345678.9), Kept(None)))
    assert rounded(given) == Kept(1.23457, (Kept(None), Kept(12345700.0), Kept(None)))


def test_a_figure_of_epochs_has_a_line_for_tests_only_where_there_are_any():
    one = Epoch(0, 2.0, 0.1, math.nan, math.nan, 1.0, 0.0, 10.0)
    tested = replace(one, test_loss=2.5, test_accuracy=0.05)
    for epoch, labels in ((one, ["training"]), (tested, ["training", "test"])):
        loss, accuracy = epochs_figure("mine", [epoch]).panels
        assert [series.label for series in loss.series] == labels
        assert accuracy.series[-1].y == ((0.05,) if epoch is tested else (0.1,))
