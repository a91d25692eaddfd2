"""A forecasting tool of others, on data that `_choose_peers.py` prepared; runs in its own Python.

    python _choose_peer_run.py NAME DATA.npz OUT.json SECONDS

DATA holds `values` (rows, columns; the target first), `names`, `start` and `freq` of its times, the
number of rows to `train` on, the `origins` (the last known row of each forecast), `window` and
`horizon`. OUT gets the forecasts with the seconds to the fitted model and those of forecasting.
SECONDS are the limit of AutoGluon; where it is small, the others train less than by default.
"""

import json
import logging
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: Rows of the past that a tool gets before each origin; local models are fitted to them anew
PAST = 500


class Watch:
    """The time since it was made: on the wall, and of the processor with ended children."""

    def __init__(self) -> None:
        self.begun, self.spent = time.perf_counter(), self._spent()

    @staticmethod
    def _spent() -> float:
        both = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in both)

    def read(self, name: str) -> dict[str, float]:
        wall, spent = time.perf_counter() - self.begun, self._spent() - self.spent
        return {f"{name}seconds": wall, f"{name}processor_seconds": spent}


def histories(data: dict[str, Any], frame: pd.DataFrame) -> list[pd.DataFrame]:
    """What is known at each origin."""
    return [frame.iloc[max(0, at + 1 - PAST) : at + 1] for at in data["origins"]]


def autogluon(data: dict[str, Any], frame: pd.DataFrame, limit: float) -> dict[str, Any]:
    """AutoGluon-TS, preset fast_training, which chooses by itself within a limit of time."""
    from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

    def long(parts: list[pd.DataFrame]) -> Any:
        named = [part.assign(item_id=str(i), timestamp=part.index) for i, part in enumerate(parts)]
        return TimeSeriesDataFrame.from_data_frame(pd.concat(named))

    fitting = Watch()
    target, horizon = frame.columns[0], int(data["horizon"])
    predictor = TimeSeriesPredictor(
        prediction_length=horizon,
        target=target,
        eval_metric="RMSE",
        freq=str(data["freq"]),
        path=str(data["folder"]),
        verbosity=0,
    ).fit(long([frame.iloc[: int(data["train"])]]), presets="fast_training", time_limit=limit)
    fitted, asking = fitting.read(""), Watch()
    found = predictor.predict(long(histories(data, frame)))
    made = [found.loc[str(i)]["mean"].to_numpy() for i in range(len(data["origins"]))]
    return {
        "way": "preset fast_training",
        "chosen": str(predictor.model_best),
        "forecasts": np.array(made).tolist(),
        **fitted,
        **asking.read("predict_"),
    }


def darts(data: dict[str, Any], frame: pd.DataFrame, limit: float) -> dict[str, Any]:
    """Darts, which does not choose: three models, the best on the last 15 % is taken."""
    from darts import TimeSeries
    from darts.models import LightGBMModel, LinearRegressionModel, NHiTSModel

    window, horizon, train = (int(data[name]) for name in ("window", "horizon", "train"))
    target, more = frame.columns[0], [*frame.columns[1:]]

    def pair(part: pd.DataFrame) -> tuple[Any, Any]:
        made = TimeSeries.from_dataframe(part, freq=str(data["freq"])).astype(np.float32)
        return made[target], made[more] if more else None

    def forecasts(model: Any, origins: Any) -> Any:
        known = [pair(frame.iloc[at + 1 - window : at + 1]) for at in origins]
        covariates = [one for _, one in known] if more else None
        found = model.predict(horizon, series=[y for y, _ in known], past_covariates=covariates)
        return np.array([one.values()[:, 0] for one in found])

    fitting, cut = Watch(), int(0.85 * train)
    y, covariates = pair(frame.iloc[:cut])
    lags = {"lags": window, "output_chunk_length": horizon}
    lags |= {"lags_past_covariates": window} if more else {}
    # the default of 100 epochs takes many minutes on a core
    epochs = max(1, min(5, int(limit / 20)))
    quiet = {"enable_progress_bar": False, "accelerator": "cpu", "logger": False}
    models = {
        "LinearRegressionModel": LinearRegressionModel(**lags),
        "LightGBMModel": LightGBMModel(**lags, verbose=-1, n_jobs=1),
        f"NHiTSModel, {epochs} epochs": NHiTSModel(
            window, horizon, n_epochs=epochs, pl_trainer_kwargs=quiet, random_state=0
        ),
    }
    watched = np.unique(np.linspace(cut, train - horizon - 1, 200).astype(int))
    values = frame[target].to_numpy()
    errors = {}
    for name, model in models.items():
        model.fit(y, past_covariates=covariates)
        truth = np.array([values[at + 1 : at + 1 + horizon] for at in watched])
        errors[name] = float(np.square(forecasts(model, watched) - truth).mean())
    best = min(errors, key=lambda name: errors[name])
    fitted, asking = fitting.read(""), Watch()
    return {
        "way": "the best of three models on the last 15 %: " + ", ".join(models),
        "chosen": best,
        "forecasts": forecasts(models[best], data["origins"]).tolist(),
        **fitted,
        **asking.read("predict_"),
    }


def neuralforecast(data: dict[str, Any], frame: pd.DataFrame, limit: float) -> dict[str, Any]:
    """NeuralForecast, which searches for hours where it chooses: its NHITS, with default steps."""
    steps = min(1000, int(10 * limit))
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import MSE
    from neuralforecast.models import NHITS

    target, more = frame.columns[0], [*frame.columns[1:]]

    def long(parts: list[pd.DataFrame]) -> pd.DataFrame:
        named = [part.assign(unique_id=f"{i:06d}", ds=part.index) for i, part in enumerate(parts)]
        return pd.concat(named, ignore_index=True).rename(columns={target: "y"})

    fitting = Watch()
    model = NHITS(
        h=int(data["horizon"]),
        input_size=int(data["window"]),
        hist_exog_list=more or None,
        loss=MSE(),
        max_steps=steps,
        scaler_type="standard",
        random_seed=0,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    made = NeuralForecast(models=[model], freq=str(data["freq"]))
    made.fit(long([frame.iloc[: int(data["train"])]]))
    fitted, asking = fitting.read(""), Watch()
    found = made.predict(df=long(histories(data, frame)))
    rows = found.sort_values(["unique_id", "ds"])["NHITS"].to_numpy()
    return {
        "way": f"NHITS, {steps} steps",
        "chosen": "NHITS",
        "forecasts": rows.reshape(len(data["origins"]), -1).tolist(),
        **fitted,
        **asking.read("predict_"),
    }


PEERS = {"autogluon.timeseries": autogluon, "darts": darts, "neuralforecast": neuralforecast}


def main() -> None:
    name, source, out, limit = sys.argv[1:]
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with np.load(source, allow_pickle=False) as file:
        data: dict[str, Any] = {key: file[key] for key in file.files}
    data["folder"] = Path(out).with_suffix("")
    values = data["values"]
    times = pd.date_range(str(data["start"]), periods=len(values), freq=str(data["freq"]))
    frame = pd.DataFrame(values, index=times, columns=[str(one) for one in data["names"]])
    found = PEERS[name](data, frame, float(limit))
    import importlib.metadata

    found["version"] = importlib.metadata.version(name)
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))
    main()
