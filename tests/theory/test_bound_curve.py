"""The curve of bounds: each point is that of its own function, and it shows itself."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import error_of, spectral_target
from attnrate.theory import bound_curve as room
from attnrate.theory.bound_curve import bound_curve
from attnrate.theory.bounds import jackson_bound
from attnrate.theory.compile import compile_target

TARGET = spectral_target(1.5, 4, 3)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from([None, 9]),
    st.sampled_from(["mse", "l1"]),
    st.sampled_from(["softmax", "none", None]),
)
@settings(max_examples=20)
def test_every_point_is_the_bound_of_that_size(sizes, m_ff, norm, gauge):
    curve = bound_curve(TARGET, sizes, m_ff, norm, alpha=1.5, gauge=gauge)
    how = {"norm": norm, "gauge": gauge}
    assert curve.rigorous == tuple(jackson_bound(TARGET, m, m_ff, **how) for m in sizes)
    printed = tuple(jackson_bound(TARGET, m, m_ff, form="printed", alpha=1.5, **how) for m in sizes)
    assert curve.printed == printed
    assert curve.compiled is None


def test_compiled_errors_are_those_of_the_compiled_models():
    curve = bound_curve(TARGET, (1, 3), norm="l1", compiled=True)
    models = [compile_target(TARGET, m_h) for m_h in (1, 3)]
    assert curve.compiled == tuple(error_of(model, TARGET, norm="l1") for model in models)
    frame = curve.to_frame()
    assert (frame["compiled"] <= frame["rigorous"]).all()
    assert "compiled" in str(curve)


def test_the_table_has_a_row_for_each_size():
    frame = bound_curve(TARGET, (1, 2, 4), 9).to_frame()
    assert [*frame] == [
        *("m_h", "m_ff", "rigorous", "rank_term", "feedforward_term", "printed", "trivial"),
    ]
    np.testing.assert_array_equal(frame["m_h"], [1, 2, 4])
    roots = np.sqrt(frame["rank_term"]) + np.sqrt(frame["feedforward_term"])
    np.testing.assert_allclose(np.sqrt(frame["rigorous"]), roots, rtol=1e-12)


def test_it_shows_itself_as_text_table_and_figure():
    curve = bound_curve(TARGET, (1, 2), compiled=True)
    assert repr(curve) == str(curve)
    assert str(curve).startswith("Theorem 4.1 for spectral α=1.5 r=4, mse\n m_h  rigorous")
    html = curve._repr_html_()
    assert "<table" in html
    assert "image/png" in html
    (axes,) = curve.plot().axes
    assert axes.get_xlabel() == "head size m_h"
    assert axes.get_yscale() == "log"


def test_it_can_be_copied_and_pickled():
    curve = bound_curve(TARGET, (1, 2), compiled=True)
    for other in (copy.copy(curve), copy.deepcopy(curve), pickle.loads(pickle.dumps(curve))):  # noqa: S301
        assert other == curve


@pytest.mark.parametrize("sizes", [(), "12", 3, (1, 0), (2, 1.5), [True]])
def test_what_is_no_list_of_sizes_is_refused(sizes):
    with pytest.raises(InputError, match="m_h"):
        bound_curve(TARGET, sizes)


def test_a_terminal_shows_where_it_is(on_a_terminal, monkeypatch):
    monkeypatch.setattr(room, "QUIET", 0.0)
    assert "bounding spectral" in on_a_terminal(lambda: bound_curve(TARGET, (1, 2)))


def test_a_notebook_shows_the_table_once_and_says_what_trivial_is():
    curve = bound_curve(spectral_target(alpha=1.5, rank=4), (1, 2))
    shown = curve._repr_html_()
    assert shown.count("printed") == 1
    assert "m_ff" not in shown
    assert "trivial: an error that any model" in shown
    assert "trivial: an error that any model" in str(curve)
