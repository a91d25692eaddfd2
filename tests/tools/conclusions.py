"""What tests of experiments share: made-up fits, and conclusions that survive their record."""

import json
from typing import Any

from attnrate.experiments.contract import Conclusion, Done, Experiment, Fit, FitOutcome, Results
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.fitting.trial import Trial

#: What a made-up fit would have run: conclusions do not look at it
_ANY = Trial({}, {}, {}, 0)


def fitted(label: object, error: float | None, **values: Any) -> Done[Fit[Any], FitOutcome]:
    """A finished fit with that label and error."""
    return Done(Fit(label, _ANY), FitOutcome(error, **values))


def concluded(experiment: Experiment, done: list[Done[Any, Any]]) -> Conclusion:
    """What the experiment concludes, the record of which goes to JSON and back unchanged."""
    said = experiment.conclude(Results(done))
    record = Record(experiment.name, "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    return said
