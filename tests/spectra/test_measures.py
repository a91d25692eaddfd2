"""Ranks by energy, stable rank and tail."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.spectra.measures import (
    law_columns,
    law_counts,
    rank_of,
    rank_words,
    stable_rank,
    tails,
)
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


def heads(*ranks: int, m_h: int = 8) -> pd.DataFrame:
    return pd.DataFrame({"rank99": ranks, "m_h": m_h})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (heads(2, 5, 7), "99 % of it lies in 5 dimensions in the median head (2 to 7)"),
        (heads(1, 1), "99 % of it lies in 1 dimension in every head"),
        (heads(3), "99 % of it lies in 3 dimensions in the only head"),
        (heads(8, 8), "99 % of it needs all dimensions of every head"),
    ],
)
def test_ranks_in_words(table, said):
    assert rank_words(table, 0.99, "it") == said


def test_a_spectrum_without_a_law_is_not_said_to_have_no_decay():
    table = pd.DataFrame({"law": ["none", "none", "power"]})
    assert (
        law_counts(table, "spectra") == "Laws of decay of the 3 spectra: no known law 2, power 1."
    )
