"""Domains of one to three variables and values on them: what is accepted, and what errors say."""

import numpy as np
import pytest

from attnrate.errors import InputError
from attnrate.theory.domain import Region, Samples, box, union
from attnrate.theory.variables import as_region, boxes_of, hull_sides, values_at


def test_domains_are_written_as_everywhere():
    assert as_region("domain", (0, 1)) == box((0, 1))
    assert as_region("domain", [(0, 1), (2, 3)]) == box((0, 1), (2, 3))
    assert as_region("domain", union((0, 1), (2, 3))) == union((0, 1), (2, 3))


def test_a_box_with_a_union_as_a_side_is_two_boxes():
    region = box(union((0, 1), (2, 4)), (5, 6))
    assert boxes_of(region) == (((0.0, 1.0), (5.0, 6.0)), ((2.0, 4.0), (5.0, 6.0)))
    np.testing.assert_array_equal(hull_sides(region), [4.0, 1.0])
    assert region.volume == 3.0


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ([(0, 1)] * 4, "1 to 3 sides"),
        (Region((((0.0, 1.0),),) * 4), "one to 3 coordinates"),
        (Region(((),)), "without an interval"),
        (Region((((1.0, 0.0),),)), "a < b"),
        ([(0, 1), (2, 2)], "empty"),
        ([], "two numbers"),
        (Samples(np.zeros((3, 2))), "not computed on samples"),
    ],
)
def test_what_is_no_domain_is_refused(domain, said):
    with pytest.raises(InputError, match=said):
        as_region("domain", domain)


POINTS = np.array([[0.1, 0.2], [0.3, 0.4]])


@pytest.mark.parametrize(
    ("g", "said"),
    [
        (lambda x: x, r"x\[\.\.\., 0\], x\[\.\.\., 1\]"),
        (lambda x: x[..., 2], "could not be called with an array of 2 coordinates"),
        (lambda x, y: x + y, "could not be called with an array of 2 coordinates"),
        (lambda x: 1.0 if x[..., 0] > 0 else 0.0, "ambiguous"),
        (lambda x: np.where(x[..., 0] > 0.2, np.nan, 1.0), r"not finite at u = \[0.3, 0.4\]"),
        (lambda x: "text", "real numbers"),
    ],
)
def test_a_function_of_another_kind_is_refused_with_the_way_out(g, said):
    with pytest.raises(InputError, match=said):
        values_at(g, POINTS)


def test_one_number_stands_for_a_constant():
    np.testing.assert_array_equal(values_at(lambda x: 2, POINTS), [2.0, 2.0])
