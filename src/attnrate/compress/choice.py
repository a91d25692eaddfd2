"""Cutting queries and keys by the closed form that changes a model least.

The closed forms differ little, and which is best differs from model to model. So all are computed,
each layer's and the whole model's change is measured on some of the inputs, and the best is taken;
the record says which. The cuts that are compared are made without these inputs, because some
objectives need more of them than others to be estimated well. On half of them all are compared, on
the others the best two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnrate.compress.calibration import Calibration, count_tried, some
from attnrate.compress.content import Factors, content
from attnrate.compress.how_far import At, one_by_one, unseen
from attnrate.compress.moments import OBJECTIVES, Objective
from attnrate.compress.repair import output_error
from attnrate.compress.trial import relative
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.check import output_of
from attnrate.spectra.cut import run_cut
from attnrate.spectra.watching.watcher import Watcher

_LEFT = 2  # closed forms that are compared on the second half of the inputs
PER_LAYER = "per layer"


@dataclass(frozen=True)
class Choice:
    """Cuts by closed forms, chosen by measurement.

    Attributes:
        factors: The cut of each layer, by its name.
        objectives: The objective from which each layer's cut is.
        rule: "per layer" where each layer has that with the least error of its own, else the one
            objective of all layers.
        changes: The relative change of the model's output, by rule, on half of the inputs tried;
            of the two that change least there, `rule` is the better one on all of them.
        errors: The relative change of each layer's own output on the inputs tried.

    """

    factors: Mapping[str, Factors]
    objectives: Mapping[str, str]
    rule: str
    changes: Mapping[str, float]
    errors: Mapping[str, float]


def choose(known: Calibration, sizes: Mapping[str, int], at: At = unseen) -> Choice:
    """Cut queries and keys by every closed form, and take what changes the model least.

    Args:
        known: What is known of the model.
        sizes: The new head size of each layer, by its name.
        at: Where progress is shown.

    Returns:
        The cuts, and what was measured.

    """
    forms = {
        name: closed_forms(known, name, size)
        for name, size in one_by_one([*sizes.items()], "closed forms: layer", at)
    }
    rules: dict[str, dict[str, Objective]] = {o: dict.fromkeys(sizes, o) for o in OBJECTIVES}
    rules[PER_LAYER] = {name: own.best for name, own in forms.items()}
    apart = {
        rule: {name: forms[name].apart[o] for name, o in chosen.items()}
        for rule, chosen in rules.items()
    }
    changes, rule = _raced(known, apart, at)
    factors = {name: forms[name].cuts[o] for name, o in rules[rule].items()}
    felt = {name: forms[name].errors[o] for name, o in rules[rule].items()}
    return Choice(factors, rules[rule], rule, changes, felt)


@dataclass(frozen=True)
class Forms:
    """The cuts of a layer by every closed form.

    Attributes:
        cuts: The cuts by their objectives, from all calibration inputs.
        apart: The cuts without the inputs tried.
        errors: The relative change of the layer's own output by the cuts `apart`, on these inputs.

    """

    cuts: Mapping[Objective, Factors]
    apart: Mapping[Objective, Factors]
    errors: Mapping[Objective, float]

    @property
    def best(self) -> Objective:
        """The objective with the least error."""
        return min(self.errors, key=lambda o: (self.errors[o], o))


def closed_forms(known: Calibration, name: str, size: int) -> Forms:
    """Cut a layer's queries and keys by every closed form.

    Args:
        known: What is known of the model.
        name: The name of the layer.
        size: The new head size.

    """
    cuts, apart = (
        {o: content(moments, o, size) for o in OBJECTIVES}
        for moments in (known.moments[name], known.others[name])
    )
    W_O = known.found.projections[name].output.weight
    errors = output_error(known.tried[name], W_O, [*apart.values()])
    return Forms(cuts, apart, dict(zip(apart, errors, strict=True)))


def changes_of(
    watcher: Watcher, given: Iterable[Batch], cuts: Mapping[str, Mapping[str, Factors]]
) -> dict[str, float]:
    """The relative change of a model's output when all layers are cut, for each of several cuts.

    Args:
        watcher: The model, which the watcher has seen at work.
        given: The inputs to measure on.
        cuts: The cuts of layers, by the names of the layers, by names of their own.

    Returns:
        The root of Σ ‖change‖² / Σ ‖output‖² for each cut.

    """
    wrong, size = _squares(watcher, given, cuts)
    return {name: relative(each, size) for name, each in wrong.items()}


def _raced(
    known: Calibration, cuts: Mapping[str, Mapping[str, Factors]], at: At
) -> tuple[dict[str, float], str]:
    """The relative change of the output by every cut, and the name of the best.

    All cuts are measured on half of the inputs tried, and the best two of them on the others, too.
    """
    tried = some(known.given, count_tried(known.given))
    apart = [batch for each in tried for batch in _apart(each)]
    first = one_by_one(apart[::2], "comparing closed forms: input", at)
    wrong, size = _squares(known.watcher, first, cuts)
    found = {rule: relative(each, size) for rule, each in wrong.items()}
    ahead = sorted(found, key=lambda rule: found[rule])[:_LEFT]
    later = one_by_one(apart[1::2], "comparing the best two: input", at)
    more, _ = _squares(known.watcher, later, {rule: cuts[rule] for rule in ahead})
    # all of these are over the same inputs, so that the sums alone say which is the least
    return found, min(ahead, key=lambda rule: wrong[rule] + more[rule])


def _apart(batch: Batch) -> list[Batch]:
    """A batch as batches of one input each, where it can be taken apart."""
    if not batches.is_separable(batch):
        return [batch]
    return [batches.pick(batch, [i]) for i in range(batches.size(batch))]


def _squares(
    watcher: Watcher, given: Iterable[Batch], cuts: Mapping[str, Mapping[str, Factors]]
) -> tuple[dict[str, float], float]:
    """Σ ‖change‖² of a model's output by each of several cuts, and Σ ‖output‖²."""
    wrong, size = dict.fromkeys(cuts, 0.0), 0.0
    edits = {
        rule: {name: each.projection() for name, each in own.items()} for rule, own in cuts.items()
    }
    for batch in given:
        with batches.at_rest(watcher.model):
            whole = output_of(batches.run(watcher.model, batch)).float()
        kept = batches.padding(watcher.model, batch, tuple(whole.shape[:2]))
        there = slice(None) if kept is None else kept.to(whole.device)
        size += float(whole[there].square().sum())
        for rule, edit in edits.items():
            made = output_of(run_cut(watcher, batch, edit)).float()
            wrong[rule] += float((made - whole)[there].square().sum())
    return wrong, size
