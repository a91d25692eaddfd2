"""Reading the files in which packages keep time series, into tables of text.

The cells stay the text of the original, so that no digit of a value changes on the way.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnrate.data.registry import ArchiveError

if TYPE_CHECKING:
    import pandas as pd

Read = Callable[[list[Path]], "pd.DataFrame"]  # reads a package's files, in the order of its entry
#: The name of the first column, of a series that has times
TIME = "time"
_BIN = 1000  # microseconds, of a recording of spikes
_STEP = 50  # microseconds, from one sample of its stimulus to the next


def columns(
    time: str,
    names: Mapping[str, str],
    comment: str | None = None,
    keep: tuple[str, str] | None = None,
) -> Read:
    """Make a reader of some columns of a CSV file.

    Args:
        time: The column of times; days may be written as 31.12.1979.
        names: The columns to take, with the names that they get.
        comment: The mark with which lines begin that are no data.
        keep: A column and the value that it must have in the rows to keep.

    Returns:
        The reader.

    """

    def read(files: list[Path]) -> "pd.DataFrame":
        found = _cells(files[0], comment)
        if keep is not None:
            found = found[found[keep[0]] == keep[1]]
        times = found[time].str.replace(r"^(\d\d)\.(\d\d)\.(\d{4})$", r"\3-\2-\1", regex=True)
        return clean(times, found[[*names]].rename(columns=dict(names)))

    return read


def side_by_side(*names: str) -> Read:
    """Make a reader of several CSV files with equal times: of each the column y, by its name."""

    def read(files: list[Path]) -> "pd.DataFrame":
        import pandas as pd

        found = [_cells(file) for file in files]
        times = found[0]["ts"]
        if any(not times.equals(one["ts"]) for one in found):
            raise ArchiveError("files of one series differ in their times", files[1].name)
        values = {name: one["y"] for name, one in zip(names, found, strict=True)}
        return clean(times, pd.DataFrame(values))

    return read


def beijing(files: list[Path]) -> "pd.DataFrame":
    """Read the air of Beijing: a time from four columns, the wind's direction as zeros and ones."""
    found = _cells(files[0])
    month, day, hour = (found[name].str.zfill(2) for name in ("month", "day", "hour"))
    times = found["year"] + "-" + month + "-" + day + " " + hour + ":00:00"
    names = {
        **{"pm2.5": "pm25", "DEWP": "dew_point", "TEMP": "temperature", "PRES": "pressure"},
        **{"Iws": "wind_speed", "Is": "snow_hours", "Ir": "rain_hours"},
    }
    values = found[[*names]].rename(columns=names)
    for way in ("NE", "NW", "SE"):  # the fourth value is cv: calm and variable
        values[f"wind_{way.lower()}"] = _flags(found["cbwd"] == way)
    return clean(times, values)


def traffic(files: list[Path]) -> "pd.DataFrame":
    """Read the traffic of a motorway: the first row of each hour, holidays as zeros and ones."""
    found = _cells(files[0]).drop_duplicates("date_time")
    names = {
        **{"traffic_volume": "traffic", "temp": "temperature", "rain_1h": "rain"},
        **{"snow_1h": "snow", "clouds_all": "clouds"},
    }
    values = found[[*names]].rename(columns=names)
    values["holiday"] = _flags(found["holiday"] != "None")
    return clean(found["date_time"], values)


def soil(files: list[Path]) -> "pd.DataFrame":
    """Read weather and soil moisture, which are joined row by row, by the moisture's times.

    The times of the weather have day and month exchanged up to the 12th of a month, but its rows
    are in order. Any other difference of the times is an ArchiveError.
    """
    import pandas as pd

    moisture = [TIME, "moisture_10cm", "moisture_25cm", "moisture_40cm"]
    weather, soil = _cells(files[0], "#"), _cells(files[1], "#", moisture)
    times, said = soil[TIME], weather[TIME]
    exchanged = said.str.replace(r"-(\d\d)-(\d\d)", r"-\2-\1", regex=True)
    if len(said) != len(times) or not ((said == times) | (exchanged == times)).all():
        raise ArchiveError("weather and soil moisture differ in their times", files[1].name)
    names = {
        **{"rain_mmday": "rain", "airpressure_hPa": "pressure", "solarrad_Wm2": "sunshine"},
        **{"relhum_perc": "humidity", "airtemp_degC": "temperature", "windspeed_ms": "wind_speed"},
    }
    taken = weather[[*names]].rename(columns=names)
    return clean(times, pd.concat([soil[moisture[1:]], taken], axis=1))


def spikes(files: list[Path]) -> "pd.DataFrame":
    """Read a stimulus and the times of spikes: means and counts over each millisecond."""
    import numpy as np
    import pandas as pd

    stimulus, fired = np.loadtxt(files[0]), np.loadtxt(files[1])
    bins, each = divmod(len(stimulus) * _STEP, _BIN)
    regular = np.array_equal(stimulus[:, 0], _STEP * np.arange(len(stimulus)))
    if each or not regular or fired.min() < 0 or fired.max() >= bins * _BIN:
        raise ArchiveError("a stimulus is not sampled as it was promised", files[0].name)
    means = stimulus[:, 1].reshape(bins, -1).mean(axis=1)
    counts = np.bincount((fired // _BIN).astype(int), minlength=bins)
    values = {"spikes": counts.astype(str), "stimulus": [f"{mean:.7f}" for mean in means]}
    return clean(None, pd.DataFrame(values))


def clean(times: "pd.Series[str] | None", values: "pd.DataFrame") -> "pd.DataFrame":
    """The table of a series: times as ISO 8601 in front, then columns of numbers, as text.

    Nothing is filled, sorted or left out. The original's words for a missing value, NA and nil,
    become an empty cell. A cell that is neither a number nor missing is an ArchiveError.
    """
    import pandas as pd

    values = values.reset_index(drop=True)
    for name in values:
        values[name] = cells = values[name].str.strip().replace({"NA": "", "nil": ""})
        wrong = pd.to_numeric(cells, errors="coerce").isna() & (cells != "")
        if wrong.any():
            raise ArchiveError(
                f"a value is no number, {cells[wrong].iloc[0]!r}", f"column {name!r} of a series"
            )
    if times is not None:
        stamps = times.reset_index(drop=True).str.strip().str.replace(" ", "T")
        if pd.to_datetime(stamps, format="ISO8601", errors="coerce").isna().any():
            raise ArchiveError("a time cannot be read", "the times of a series")
        values.insert(0, TIME, stamps)
    return values


def _cells(
    file: Path, comment: str | None = None, names: list[str] | None = None
) -> "pd.DataFrame":
    """All cells of a CSV file, packed or not, as text."""
    import pandas as pd

    head = 0 if names is None else None
    return pd.read_csv(
        file, dtype=str, keep_default_na=False, comment=comment, names=names, header=head
    )


def _flags(true: "pd.Series[bool]") -> "pd.Series[str]":
    return true.map({True: "1", False: "0"})
