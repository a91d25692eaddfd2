"""Sentences and tables of what was measured."""

from attnrate.compress.measured import Measurements
from attnrate.compress.quality import Quality
from attnrate.compress.rivals import Rival
from attnrate.compress.sentences import lines, seconds
from attnrate.compress.timing import Timing


def test_sentences_say_before_and_after_and_what_the_repair_did() -> None:
    quality = (
        Quality("perplexity", 19.58123, 21.1, 20.0),
        Quality("neighbours", 1.0, 0.8, 0.9),
        Quality("metric", 0.5, -0.25, 0.25),
        Quality("accuracy", 0.9111, 0.9, 0.91, 10_000),
        Quality("bleu", 18.7512, 17.0, 18.1, 3069),
    )
    given = Measurements(quality, (), (), ("A note.",))
    assert lines(given, True) == [
        "Perplexity: 19.58 before, 21.1 after the cut, 20 after repair.",
        "Nearest neighbours that stay: 80.0 % by the cut, 90.0 % after repair.",
        "The metric: 0.5 before, −0.25 after the cut, 0.25 after repair.",
        "Accuracy on 10,000 test inputs: 91.1 % before, 90.0 % after the cut, 91.0 % after repair.",
        "BLEU on 3,069 test inputs: 18.75 before, 17 after the cut, 18.1 after repair.",
        "A note.",
    ]
    assert lines(given, False)[0] == "Perplexity: 19.58 before, 21.1 after the cut."


def test_times_are_said_with_their_spread() -> None:
    given = Timing("token", 1, 40, 9, 0.0401, 0.05, 1.25, 1.2, 1.3)
    assert lines(Measurements((), (given,), (), ()), False) == [
        "A token after 40 others takes 50 ms instead of 40.1 ms; turn by turn 1.25 times as long "
        "(1.20 to 1.30 in the middle half of 9 turns)."
    ]


def test_a_time_has_three_digits() -> None:
    assert [seconds(x) for x in (12.34, 0.9, 0.01234)] == ["12.3 s", "900 ms", "12.3 ms"]


def test_the_table_has_a_column_for_16_bits_where_it_differs() -> None:
    rivals = Rival("whole", 64.0, 64.0, 0.0, None), Rival("cut", 48.0, 48.0, 0.125, None)
    assert lines(Measurements((), (), rivals, ()), False) == [
        "Ways to a smaller cache  bytes per token  output changes by",
        "whole                                 64              0.0 %",
        "cut                                   48             12.5 %",
    ]
    other = Rival("cut", 1048.0, 48.0, 0.125, 20.123)
    head, _, row = lines(
        Measurements((), (), (Rival("whole", 64.0, 32.0, 0.0, 19.0), other), ()), False
    )
    assert head.split()[-1] == "perplexity"
    assert row.split() == ["cut", "1,048", "48", "12.5", "%", "20.12"]
