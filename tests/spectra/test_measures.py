"""Ranks by energy, stable rank and tail."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnrate.spectra.measures import law_columns, rank_of, stable_rank, tails
from attnrate.theory.decay import fit_decay


def test_known_spectra():
    sigma = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert rank_of(sigma, 0.79).tolist() == [1, 3, 0]
    assert rank_of(sigma, 0.81).tolist() == [2, 3, 0]
    assert stable_rank(sigma).tolist() == [1.25, 3.0, 0.0]
    assert np.allclose(tails(sigma)[0], [5**0.5, 1.0, 0.0, 0.0])


@given(
    st.lists(st.floats(1e-12, 1e3), min_size=1, max_size=40),
    st.sampled_from([0.5, 0.9, 0.99, 0.999]),
)
def test_the_rank_is_the_least_that_holds_the_share(values, share):
    sigma = np.sort(np.array(values))[::-1]
    rank = int(rank_of(sigma, share))
    left = tails(sigma) ** 2
    slack = 1e-12 * left[0]
    assert left[rank] <= (1 - share) * left[0] + slack
    assert left[rank - 1] >= (1 - share) * left[0] - slack
    assert 1 <= stable_rank(sigma) <= len(sigma) * (1 + 1e-12)


def test_an_order_stands_in_the_table_without_an_interval():
    k = np.arange(1.0, 13.0)
    row = law_columns(fit_decay(np.exp(-k * np.log(k))))
    assert row["law"] == "superexponential"
    assert row["law_parameter"] > 0
    assert (row["law_low"], row["law_high"]) == (None, None)
