"""The real time series: as large as promised, and known values where they belong."""

import numpy as np
import pandas as pd
import pytest

from attnrate.choose.data import from_file
from attnrate.data.series import sample_series, shape_of
from attnrate.data.series_table import SERIES

pytestmark = pytest.mark.realdata
COMMAND = "attnrate data series glucose"
#: The series of a guide, which is run as a test
OF_THE_GUIDE = "attnrate data series spikes"
#: Missing values of the originals, by series and column; other columns have none
MISSING = {
    "beijing-pm": {"pm25": 2067},
    "glucose": {"current": 1061},
    "nyc-weather": {"wind_direction": 51, "wind_speed": 3, "wind_gust": 7199, "pressure": 831},
}


@pytest.fixture
def opened(real):
    def get(name):
        return real(COMMAND.replace("glucose", name), sample_series, name)

    return get


@pytest.mark.parametrize("name", SERIES)
def test_a_series_has_what_its_entry_says(opened, name):
    file, entry = opened(name), SERIES[name]
    shape = shape_of(file)
    assert (shape.rows, len(shape.columns)) == (entry.rows, entry.columns)
    assert shape.missing == MISSING.get(name, {})
    assert entry.target in shape.columns
    table = pd.read_csv(file, index_col="time" if shape.columns[0] == "time" else False)
    assert all(dtype.kind in "if" for dtype in table.dtypes)
    assert table[entry.target].std() > 0
    if table.index.name == "time":
        assert pd.to_datetime(table.index, format="ISO8601").is_monotonic_increasing


@pytest.mark.parametrize("name", SERIES)
def test_the_command_that_is_printed_finds_samples(opened, name):
    entry = SERIES[name]
    given = dict(zip(entry.options[::2], entry.options[1::2], strict=True))
    resample, left_out = given.pop("--resample", None), given.pop("--ignore", None)
    assert not given
    data = from_file(
        opened(name),
        target=entry.target,
        horizon=entry.horizon,
        ignore=[] if left_out is None else [left_out],
        resample=resample,
    )
    assert not data.faults
    assert data.samples.count > 1000


def test_glucose_is_the_original_to_the_last_digit(opened):
    lines = opened("glucose").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["time,glucose,current", "2010-03-24T09:51:00,258,22.59"]
    assert lines[14275][11:16] == lines[14276][11:16]  # one of three times that occur twice


def test_the_weather_over_the_soil_is_joined_in_its_true_order(opened):
    """Air pressure is smooth, so that a step between two days is as small as within a day."""
    table = pd.read_csv(opened("soil-moisture"), parse_dates=["time"])
    steps = table["pressure"].diff().abs()[1:]
    midnight = table["time"].dt.hour[1:] == 0
    assert steps[midnight].mean() < 1.1 * steps[~midnight].mean()


def test_every_spike_is_counted(real):
    table = pd.read_csv(real(OF_THE_GUIDE, sample_series, "spikes"))
    assert table["spikes"].sum() == 929
    # the receptor answers to a loud sound 6 ms later, and never before it
    sound, spikes = table["stimulus"], table["spikes"]
    assert np.corrcoef(sound[:-6], spikes[6:])[0, 1] > 0.3
    assert np.corrcoef(sound[6:], spikes[:-6])[0, 1] < 0.02
