"""What `pod` makes of a matrix, and how its results are copied, pickled and shown."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import attnrate as ar
from attnrate.errors import InputError

MATRICES = hnp.arrays(
    float,
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    elements=st.floats(-10, 10).map(lambda x: round(x, 3)),
)


def gaussian(u, v):
    return np.exp(-((u - v) ** 2) * 4)


def again(result):
    """Copies of a result, by every way that Python has."""
    kept = pickle.dumps(result)
    return copy.copy(result), copy.deepcopy(result), pickle.loads(kept)  # noqa: S301 - made here


@given(MATRICES)
@settings(max_examples=100)
def test_a_matrix_has_its_singular_values_over_the_root_of_its_size(matrix):
    result = ar.pod(matrix)
    exact = np.linalg.svd(matrix, compute_uv=False) / np.sqrt(matrix.size)
    np.testing.assert_allclose(result.sigma, exact[: result.rank], atol=1e-12 * (1 + exact[0]))
    assert np.all(exact[result.rank :] <= 1e-11 * (1 + exact[0]))
    assert result.converged
    assert result.resolution == 0.0
    # phi and psi at the rows and columns make the matrix, and are orthonormal under 1/m and 1/n
    m, n = matrix.shape
    rows, columns = np.arange(m), np.arange(n)
    np.testing.assert_allclose(result(rows[:, None], columns), matrix, atol=1e-9)
    phi, psi = result.phi(rows), result.psi(columns)
    np.testing.assert_allclose(phi.T @ phi / m, np.eye(result.rank), atol=1e-9)
    np.testing.assert_allclose(psi.T @ psi / n, np.eye(result.rank), atol=1e-9)


@given(MATRICES)
@settings(max_examples=50)
def test_the_gauge_takes_the_means_of_the_rows_of_a_matrix_out(matrix):
    centred = matrix - matrix.mean(axis=1, keepdims=True)
    exact = np.linalg.svd(centred, compute_uv=False) / np.sqrt(matrix.size)
    result = ar.pod(matrix, gauge="softmax")
    np.testing.assert_allclose(
        result.sigma, exact[: result.rank], atol=1e-12 * (1 + np.abs(matrix).max())
    )


def test_a_matrix_of_samples_is_the_coupling_at_those_samples():
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(9, 2)), rng.normal(size=(7, 3))

    def rho(a, b):
        return np.cos(a.sum(-1) + (b**2).sum(-1)) + a[..., 0] * b[..., 2]

    matrix = rho(u[:, None], v[None])
    known, asked = ar.pod(matrix, ar.Samples(u), ar.Samples(v)), ar.pod(rho, u, v)
    np.testing.assert_allclose(known.sigma, asked.sigma, rtol=1e-10)
    np.testing.assert_allclose(known(u[:, None], v[None]), matrix, atol=1e-12)
    np.testing.assert_allclose(np.abs(known.phi(u)), np.abs(asked.phi(u)), atol=1e-8)
    with pytest.raises(InputError, match="known at its rows and columns only"):
        known.phi(u + 1)


def test_a_list_of_rows_is_a_matrix_too():
    assert ar.pod([[3, 0], [0, 1]]).sigma.tolist() == [1.5, 0.5]


@pytest.mark.parametrize("row", [-1, 2, 0.5])
def test_a_row_that_a_matrix_does_not_have_is_refused(row):
    with pytest.raises(InputError, match="known at its rows and columns only") as caught:
        ar.pod(np.eye(2)).phi(row)
    assert caught.value.value == [row]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_entry_that_is_not_finite_is_named(bad):
    matrix = np.ones((3, 4))
    matrix[1, 2] = bad
    with pytest.raises(InputError, match=r"entry \(1, 2\) of the matrix is not finite"):
        ar.pod(matrix)


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((2, 2, 2)), np.ones((0, 3)), [[1], [1, 2]]])
def test_what_is_no_matrix_is_refused(wrong):
    with pytest.raises(InputError, match="a function of u and v, a coupling, or a matrix"):
        ar.pod(wrong)


@pytest.mark.parametrize("u", [(0, 1), np.ones(4), ar.box((0, 1))])
def test_the_rows_of_a_matrix_belong_to_as_many_samples(u):
    with pytest.raises(InputError, match="one per row of the matrix, which has 3"):
        ar.pod(np.ones((3, 2)), u)


def test_a_function_needs_a_domain():
    with pytest.raises(InputError, match="domain u of a function is missing"):
        ar.pod(gaussian)


@given(st.integers(5, 60), st.integers(0, 3), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_number_of_rows_is_never_called_a_rank(size, more, seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(size, size + more))
    for gauge in ("none", "softmax"):
        assert ar.pod(noise, gauge=gauge).decay().law != "finite rank"


def test_samples_in_eight_dimensions_have_no_finite_rank_and_products_have_one():
    x = np.random.default_rng(0).normal(size=(300, 8))
    for other in (x, x[:299], np.concatenate([x, x[:5]])):
        smooth = ar.pod(lambda u, v: np.exp(-((u - v) ** 2).sum(-1)), x, other)
        assert smooth.decay().law != "finite rank"
    assert ar.pod(lambda u, v: (u * v).sum(-1), x).decay().rank == 8


def test_dependent_samples_on_a_line_do_not_make_a_finite_rank():
    # samples u between two neighbouring v depend on each other: e^{-|u-v|} has two terms there
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=300), rng.normal(size=310)
    result = ar.pod(lambda u, v: np.exp(-np.abs(u - v)), u, v)
    assert result.rank < 300
    assert result.decay().law != "finite rank"


@pytest.mark.parametrize("width", [0.02, 0.05, 0.1, 0.3, 0.7, 1.0])
def test_gaussian_couplings_have_their_law(width):
    decay = ar.pod(lambda u, v: np.exp(-((u - v) ** 2) / (2 * width**2)), (0, 1)).decay()
    assert decay.law == "superexponential"
    assert str(decay).startswith("superexponential: order = ")


def test_the_reason_names_the_law_that_was_chosen_and_no_other_winner():
    rng = np.random.default_rng(2)
    k = np.arange(1.0, 101.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        decay = ar.fit_decay(np.sort(k**-1.5 * np.exp(0.1 * rng.normal(size=100)))[::-1])
        if decay.law != "none":
            assert f"{decay.law} has the smallest BIC of the laws" in decay.reason
            better = decay.scores["none"] < decay.scores[decay.law]
            assert ("no strong evidence against" in decay.reason) == better


@pytest.mark.parametrize("gauge", ["none", "softmax"])
def test_a_pod_is_copied_and_pickled_with_its_functions(gauge):
    at = np.linspace(0, 1, 7)
    on_interval = ar.pod(lambda u, v: np.exp(-((u - v) ** 2)), (0, 1), gauge=gauge)  # no pickle
    on_samples = ar.pod(gaussian, np.linspace(0, 1, 11), gauge=gauge)
    for result in (on_interval, on_samples, on_samples.truncate(2)):
        for other in again(result):
            assert str(other) == str(result)
            np.testing.assert_array_equal(other.phi(at), result.phi(at))
            np.testing.assert_array_equal(other.psi(at), result.psi(at))
    for other in again(ar.pod(np.eye(3) + 1.0, gauge=gauge)):
        np.testing.assert_allclose(
            other.phi([0, 2]), ar.pod(np.eye(3) + 1, gauge=gauge).phi([0, 2])
        )


def test_a_decay_is_copied_and_pickled():
    decay = ar.fit_decay(np.arange(1.0, 31.0) ** -2)
    for other in again(decay):
        assert str(other) == str(decay)
        np.testing.assert_array_equal(other.predict([1.0, 50.0]), decay.predict([1.0, 50.0]))


def test_results_show_text_table_and_figure_in_a_notebook():
    result = ar.pod(np.minimum, (0, 1), rtol=1e-4)
    html = result._repr_html_()
    assert "POD of rank" in html
    assert "more rows: .to_frame()" in html
    assert "data:image/png;base64" in html
    assert repr(result) == str(result)
    law = result.decay()
    assert "data:image/png;base64" in law._repr_html_()
    assert repr(law) == str(law)
    assert len(str(law).splitlines()) == 2
    empty = ar.pod(lambda u, v: 0.0, (0, 1))
    assert "POD of rank 0" in empty._repr_html_()
    assert ar.fit_decay(np.zeros(3))._repr_html_().startswith("<pre>no law")


@pytest.mark.parametrize("sigma", [np.ones(9), np.zeros(9), [1.0], np.exp(-np.arange(30.0))])
def test_every_decay_can_be_drawn(sigma):
    assert ar.fit_decay(sigma).plot().axes


def test_a_warning_points_to_the_line_that_asked(tmp_path):
    # in a Python of its own: the checks of types in these tests add frames
    script = tmp_path / "mine.py"
    script.write_text(
        "import numpy as np\nimport attnrate as ar\n"
        "ar.pod(lambda u, v: np.abs(u - v) ** 0.3, (0, 1), max_evaluations=100)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert f"{script}:3: AccuracyWarning: the POD did not converge" in done.stderr


def test_the_gauge_is_a_word():
    assert ar.pod(np.eye(2)).gauge == "none"
    assert ar.pod(np.eye(2), gauge=None).gauge == "none"
    assert ar.pod(np.eye(2), gauge="softmax").gauge == "softmax"


def test_samples_may_be_arrays_of_numpy_torch_and_pandas():
    points = np.random.default_rng(0).normal(size=(30, 3))

    def rho(u, v):
        return (u * v).sum(-1)

    wanted = ar.pod(rho, points).sigma
    for same in (torch.tensor(points, requires_grad=True), pd.DataFrame(points)):
        np.testing.assert_array_equal(ar.pod(rho, same).sigma, wanted)
    column = pd.Series(points[:, 0])
    np.testing.assert_array_equal(
        ar.pod(np.minimum, column).sigma, ar.pod(np.minimum, points[:, 0]).sigma
    )


def test_a_box_in_brackets_is_refused_with_the_way_to_write_it():
    with pytest.raises(InputError, match=r"outer brackets: \(0, 1\), \(2, 3\)\."):
        ar.box([(0, 1), (2, 3)])


def test_singular_values_cannot_be_overwritten():
    result = ar.pod(np.diag([3.0, 1.0]))
    with pytest.raises(ValueError, match="read-only"):
        result.sigma[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        result.truncate(1).sigma[0] = 5.0


def test_a_matrix_counts_entries_and_names_its_rows():
    result = ar.pod(np.diag([3.0, 1.0, 2.0]))
    assert "9 entries of the matrix" in str(result)
    with pytest.raises(InputError, match="a whole number from 0 to 2"):
        result.phi(3)
    given = ar.pod(np.eye(2), ar.Samples([[0.5, 0.1], [0.7, 0.2]]))
    with pytest.raises(InputError, match=r"the 2 samples in R\^2 that were given"):
        given.phi([1.0, 1.0])
    assert "no singular value is above zero" in str(ar.pod(np.zeros((2, 3))))
    assert "evaluations of rho" in str(ar.pod(np.minimum, np.arange(3.0)))


@pytest.mark.parametrize(
    ("wrong", "way_out"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        ([[1.0], [1.0, 2.0]], "same length"),
        ("exp(-u*v)", "command line"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_reason(wrong, way_out):
    with pytest.raises(InputError, match=way_out):
        ar.pod(wrong, (0, 1))


def test_a_result_that_has_not_converged_shows_what_is_known_only():
    with pytest.warns(ar.AccuracyWarning):
        result = ar.pod(lambda u, v: abs(u - v) ** 0.1, (0, 1), max_evaluations=5000)
    above = int(np.sum(result.sigma > result.error))
    assert above < result.rank
    assert f"NOT CONVERGED, {above:,} of the values above their error" in str(result)
    axes = result.plot().axes[0]
    assert axes.get_title().startswith("NOT CONVERGED")
    for line in axes.get_lines():
        drawn = np.asarray(line.get_ydata(), dtype=float)
        assert np.all(drawn[np.isfinite(drawn)] >= result.error)


def test_progress_is_a_switch_or_a_function(capsys):
    def slow(u, v):
        return np.abs(u - v)

    heard = []
    for silent in (None, False, heard.append):
        ar.pod(slow, (0, 1), rtol=1e-3, progress=silent)
        assert capsys.readouterr().err == ""
    ar.pod(slow, (0, 1), rtol=1e-3, progress=True)
    assert "pod: " in capsys.readouterr().err
    with pytest.raises(InputError, match="progress must be True, False, None, or a function"):
        ar.pod(slow, (0, 1), progress="yes")
