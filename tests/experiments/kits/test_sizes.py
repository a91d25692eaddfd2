"""Models of equal size: the nearest count wins, at the ends of the sizes too."""

import pytest

from attnrate.experiments.kits.sizes import nearest_size


@pytest.mark.parametrize(
    ("wanted", "size"), [(49, 7), (55, 7), (57, 8), (1, 1), (0, 1), (100, 10), (10_000, 10)]
)
def test_the_size_with_the_nearest_count_is_found(wanted: int, size: int) -> None:
    assert nearest_size(wanted, range(1, 11), lambda size: size**2) == size


def test_few_sizes_are_tried() -> None:
    tried = set()

    def count(size: int) -> int:
        tried.add(size)
        return 3 * size

    assert nearest_size(300, range(1, 1025), count) == 100
    assert len(tried) <= 11
