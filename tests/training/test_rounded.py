"""Results as they are kept."""

from dataclasses import dataclass

from attnrate.training.epochs import rounded


@dataclass(frozen=True)
class Kept:
    number: float | None
    inside: "tuple[Kept, ...]" = ()
    word: str = "1.23456789"
    count: int = 12345678


def test_floats_have_six_digits_and_nothing_else_changes():
    given = Kept(1.23456789, (Kept(float("nan")), Kept(12345678.9), Kept(None)))
    assert rounded(given) == Kept(1.23457, (Kept(None), Kept(12345700.0), Kept(None)))
