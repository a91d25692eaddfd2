"""Which position encodings keep Prop. 6.2's promise that the order of the inputs does not matter?

Prop. 6.2 says that a permutation of the inputs leaves the Transformer's complexity measures alone.
Six ways to say where a token stands are compared on the paper's targets in their original order, in
Table 2's (the first ten inputs change places with the last ten) and in Table 1's (the first ten
come last): none, learned, sinusoidal and Eq. 7's shift, which change tokens, and rotary and ALiBi,
which change logits.

What can be said exactly is decided without training: the permutations that a model commutes with
and their floors (`theory/symmetry.py`), and explicit Transformers for every order of a linear
target (`theory/positioned.py`). Fits with equally many parameters show what training makes of it. A
fit above a floor refutes nothing, so statements about fits say that they are about training.

The rules were written before any of these fits. Seen before were single fits on Table 2's target:
of four encodings (none, learned, sinusoidal, shift) with 150 steps, and of learned positions with
1,200. Steps were raised after the quick preset was run once; no rule was changed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, claim_of, judge
from attnrate.experiments.kits import cells, fits
from attnrate.experiments.kits.encodings import (
    ABSOLUTE,
    ENCODINGS,
    ENERGY,
    GROUPS,
    LINEAR,
    ORDERS,
    SIZES,
    TARGETS,
    TRIED,
    Compiled,
    Encoding,
    Floors,
    Order,
    Runs,
    Symmetries,
    Task,
    Trained,
    order_of,
    width_of,
)
from attnrate.experiments.kits.spectral import Settings
from attnrate.experiments.paper.table2 import PAPER_CELLS as TABLE2_CELLS
from attnrate.figures.figure import Cell, Figure, Rows, Series, Table
from attnrate.fitting.job import Sized
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.theory.check import ROUNDING
from attnrate.theory.symmetry import Symmetry

WORDS: Mapping[Encoding, str] = {
    "none": "none",
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "shift": "shift",
    "rotary": "rotary",
    "alibi": "ALiBi",
}
TITLES: Mapping[Task, str] = {
    "table2": "Table 2's target",
    "table3": "Table 3's target",
    "spectral": "Fig. 1's target, r = 3",
}
GROUP_WORDS: Mapping[Symmetry, str] = {
    "all": "every permutation",
    "reversal": "the reversal of time",
    "none": "none but the identity",
}
#: The encodings in the sentences of claims
PHRASES: Mapping[Encoding, str] = {
    "learned": "learned positions",
    "sinusoidal": "sinusoidal positions",
    "shift": "the shifts of Eq. 7",
    "rotary": "rotary positions",
}
#: A compiled model has the target if its error is at most this share of the target's variance
EXACT = 1e-18
#: Ranks count as equal if their ratio is at most this
SAME_RANK = 2.0


#: What two fits in different orders have in common: the encoding, the task and the seed
Place = tuple[Encoding, Task, int]


@dataclass(frozen=True)
class Way:
    """How a task is fitted: the recipe, the seconds of a fit, the orders, encodings and seeds."""

    lr: float
    steps: int
    seconds: float
    orders: tuple[Order, ...]
    encodings: tuple[Encoding, ...]
    seeds: int

    @property
    def recipe(self) -> Settings:
        """The settings of the strong recipe; the batch is small for the whole training."""
        return {"name": "strong", "lr": self.lr, "steps": self.steps, "batch": 32}


WAYS: Mapping[contract.Preset, Mapping[Task, Way]] = {
    "quick": {
        "table2": Way(0.005, 300, 3.4, ("original", "swapped"), ENCODINGS[:2] + ENCODINGS[4:], 1),
    },
    "paper": {
        "table2": Way(0.005, 2400, 24.0, ("original", "swapped", "moved"), ENCODINGS, 5),
        "table3": Way(0.005, 3000, 30.0, ("original", "swapped"), ENCODINGS, 5),
        "spectral": Way(0.02, 1800, 15.0, ("original", "moved"), ENCODINGS, 5),
    },
}


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan what is exact, then a fit for every task, order, encoding and seed."""
    sequences = {"quick": 256, "paper": 4096}[preset]
    jobs: list[Sized[contract.Work]] = [Sized(Symmetries(models=3), 0.5)]
    for task in TARGETS:
        for order in ORDERS:
            if task == "spectral" and order == "swapped":
                continue  # swaps twice ten of sixteen
            jobs.append(Sized(Floors(task=task, order=order, sequences=4 * sequences), 0.2))
            if task in LINEAR and order != "original":
                compiled = Compiled(task=task, order=order, sequences=sequences)
                jobs.append(Sized(compiled, 0.2 + sequences * 1e-3))
    for task, way in WAYS[preset].items():
        for seed in range(way.seeds):
            for order in way.orders:
                for encoding in way.encodings:
                    job = Trained(
                        encoding=encoding,
                        task=task,
                        order=order,
                        width=width_of(encoding, task),
                        recipe=way.recipe,
                        seed=seed,
                    )
                    jobs.append(Sized(job, way.seconds))
    return jobs


def conclude(results: contract.Results) -> contract.Conclusion:
    """Say what is exact, then what training makes of it."""
    runs = Runs.read(results)
    if not results.done:
        said: tuple[str, ...] = ("No job of this experiment is finished.",)
    else:
        said = paragraphs(runs)
    figures = (error_figure(runs),) if runs.trained else ()
    return contract.Conclusion(said, figures, tables(runs), claims(runs))


_claim = partial(claim_of, "positions")


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Decide what is exact, then what is trained."""
    return (
        _groups(runs),
        _relabelling(runs),
        _absolute(runs),
        _without(runs),
        _past(runs),
        *(_kept(runs, encoding) for encoding in ENCODINGS if encoding not in ("none", "alibi")),
        _rank(runs),
        _by_value(runs),
    )


def _groups(runs: Runs) -> Claim:
    """Decide whether trying all permutations finds the stated groups, and nothing else."""
    expected = {encoding: group(GROUPS[encoding]) for encoding in ENCODINGS}
    right = [
        set(found) == expected[encoding]
        for one in runs.symmetric
        for encoding, found in zip(one.outcome.encodings, one.outcome.found, strict=True)
    ]
    counts = {
        WORDS[encoding]: str(len(found))
        for one in runs.symmetric
        for encoding, found in zip(one.outcome.encodings, one.outcome.found, strict=True)
    }
    return _claim(
        "symmetry",
        "App. A.1; our question",
        "Without positions a Transformer commutes with every permutation, with ALiBi and no mask "
        "with the reversal of time only, and with any other encoding with none.",
        judge(all(right), not all(right), enough=bool(right)),
        f"Permutations of {TRIED} positions, of {math.factorial(TRIED)}, with which random models "
        f"commute: {fits.listed(counts)}. Logits of rotary positions depend on t - s, those of "
        "ALiBi on |t - s|, and the reversal is the only permutation of a window that leaves all "
        "|t - s| as they are.",
    )


def group(symmetry: Symmetry) -> set[tuple[int, ...]]:
    """The permutations of TRIED positions in a group."""
    identity = tuple(range(TRIED))
    if symmetry == "all":
        return set(permutations(identity))
    return {identity, identity[::-1]} if symmetry == "reversal" else {identity}


def _relabelling(runs: Runs) -> Claim:
    gaps = [gap for one in runs.symmetric for gap in one.outcome.relabelled]
    most = max(gaps, default=math.nan)
    return _claim(
        "relabelling",
        "Sec. 6.1, Table 1; our question",
        "A fixed permutation of inputs and outputs is a relabelling: any model with learned "
        "positions or the shift of Eq. 7 has a twin that is as good in the other order.",
        judge(most <= ROUNDING, most > ROUNDING),
        f"For random models and the orders of Tables 1 and 2 the twin differs by {most:.2g} of the "
        "largest output. With learned positions only their table is permuted. With the shift a "
        f"layer of 2τ - 1 units comes before f̂, with a slope of {steepest('swapped')} in a gap for "
        f"Table 2's order and of {steepest('moved')} for Table 1's. Relative positions can be "
        "relabelled for reversed time only, because no other order makes p(t) - p(s) a function of "
        "t - s: rotary ones then turn the other way round, with ALiBi nothing changes.",
        most,
    )


def steepest(order: Order) -> int:
    """The slope of the map that moves the intervals [2j, 2j + 1] of Eq. 7, where it is largest."""
    p = order_of(order, cells.LENGTH)
    return max(abs(2 * (after - before) - 1) for before, after in pairwise(p))


def _absolute(runs: Runs) -> Claim:
    outcomes = [one.outcome for one in runs.compiled]
    errors = [error for one in outcomes for error in (*one.before, *one.after)]
    most = max(errors, default=math.nan)
    drift = max((each for one in outcomes for each in one.drifts), default=math.nan)
    return _claim(
        "absolute",
        "Sec. 6.1, Prop. 6.2",
        "With learned or sinusoidal positions or the shift of Eq. 7, order does not matter for the "
        "targets of Tables 2 and 3: in every order a Transformer of one size has them exactly.",
        judge(most <= EXACT, most > EXACT, enough=len(outcomes) == 2 * len(LINEAR)),
        "Written without training, with n = m_v = τ + 1 and m_h = τ: the largest error is "
        f"{most:.2g} of the target's variance (limit {EXACT:g}), in either order. From one order "
        "to the other only columns of W_K and W_V change places, and singular values of the logits "
        f"by {drift:.2g}. This works because the query counts by its position only.",
        most,
    )


def _without(runs: Runs) -> Claim:
    """Decide by exact floors; fits say how near training comes."""
    before, after = (runs.floor("none", "table2", order) for order in ("original", "swapped"))
    ratio = after / before
    fitted = geometric_mean(
        [
            error / runs.floor("none", task, order)
            for task in LINEAR
            for order in ORDERS
            for error in runs.fits_of("none", task, order).errors
        ]
    )
    wrong = runs.below_floor("none")
    return _claim(
        "none",
        "App. A.1; Prop. 6.2",
        "Without positions the promise is broken: the best error on Table 2's target is at least "
        f"{cells.MATTERS:g} times larger when the first and the last ten inputs change places.",
        "open" if wrong else judge(ratio >= cells.MATTERS, ratio < cells.MATTERS),
        f"The exact floors of all equivariant maps are {before:.3g} and {after:.3g}, and "
        f"{runs.floor('none', 'table2', 'moved'):.3g} in Table 1's order. Eq. 5 reaches them as "
        "F grows, because with m_h = 1 it represents every continuous equivariant map on distinct "
        "tokens (experiment rank-one). "
        f"Fits end at {fitted.shown} times their floors.{_said(wrong)}",
        None if math.isnan(ratio) else ratio,
    )


def _known(found: Interval) -> str:
    return str(found) if found.known else "not known yet"


def _said(wrong: bool) -> str:
    return " A fit lies below its floor, so this program has an error." if wrong else ""


def _past(runs: Runs) -> Claim:
    floors = {order: runs.floor("alibi", "table2", order) for order in ORDERS}
    printed = next(
        cell.paper or math.nan
        for cell in TABLE2_CELLS
        if (cell.model, cell.target) == ("Transformer", "original")
    )
    wrong, floor = runs.below_floor("alibi"), floors["original"]
    errors: dict[str, Interval | str] = {
        order: runs.error("alibi", "table2", order)
        for order in ORDERS
        if runs.fits_of("alibi", "table2", order)
    }
    return _claim(
        "alibi",
        "our question; Table 2",
        "ALiBi without a mask cannot tell past from future, so no size of it reaches the error "
        f"that the paper has on Table 2's target, {printed:.3g}.",
        "open" if wrong else judge(floor > printed, floor <= printed),
        "The exact floor of all maps that commute with the reversal is "
        f"{floor:.3g}. It is {floors['swapped']:.3g} where the first and the last ten change "
        "places, because that permutation commutes with the reversal, and "
        f"{floors['moved']:.3g} where the first ten come last. Fits: {fits.listed(errors)}."
        f"{_said(wrong)}",
        None if math.isnan(floor) else floor,
    )


def kept(runs: Runs, encoding: Encoding, *tasks: Task) -> tuple[Verdict, Interval]:
    """The verdict on "training keeps the promise", with the ratio of the errors that decides.

    Only targets count whose original order was learned; a target that was not says nothing.
    """
    ratio = runs.ratio(encoding, *(task for task in tasks if runs.learned(encoding, task)))
    return judge(ratio.high < cells.MATTERS, cells.worse(ratio)), ratio


def _kept(runs: Runs, encoding: Encoding) -> Claim:
    verdict, ratio = kept(runs, encoding, *LINEAR)
    missed = [
        TITLES[task]
        for task in LINEAR
        if runs.fits_of(encoding, task, "original") and not runs.learned(encoding, task)
    ]
    unlearned = f" Not learned in the original order, and left out: {', '.join(missed)}."
    exact = (
        "A model for every order exists (claim absolute), so that a difference is due to training."
        if encoding in ABSOLUTE
        else "No symmetry gives rotary positions a floor: a difference may be due to training."
    )
    by = {TITLES[task]: runs.ratio(encoding, task) for task in LINEAR if runs.pairs(encoding, task)}
    return _claim(
        f"trained-{encoding}",
        "Sec. 6.1, Tables 2 and 3",
        f"Trained alike, {PHRASES[encoding]} keep the promise: the error in another order is at "
        f"most {cells.MATTERS:g} times that in the original one.",
        verdict,
        f"The ratio of the errors is {_known(ratio)} ({fits.listed(by)})."
        f"{unlearned if missed else ''} {exact}",
        ratio,
    )


def _rank(runs: Runs) -> Claim:
    """Decide by the ratio of ranks of fits that agree in encoding, task and seed."""
    before = _ranks(runs, "original")
    ratios = [
        rank / other
        for place, rank in _ranks(runs, "swapped", "moved")
        for same, other in before
        if same == place
    ]
    ratio = geometric_mean(ratios)
    by = {
        WORDS[encoding]: f"{runs.ranks(encoding, 'original').value:.3g} and "
        f"{runs.ranks(encoding, 'swapped', 'moved').value:.3g}"
        for encoding in ENCODINGS
        if runs.ranks(encoding, "original").known
    }
    limits = 1 / SAME_RANK, SAME_RANK
    return _claim(
        "rank",
        "Sec. 6.1, Prop. 6.2",
        "The rank of the learned coupling is the same in another order, within a factor of "
        f"{SAME_RANK:g}.",
        judge(
            limits[0] <= ratio.low and ratio.high <= limits[1],
            ratio.high < limits[0] or ratio.low > limits[1],
        ),
        f"Rank is the number of singular values that hold {ENERGY:.0%} of the energy of the logits "
        f"of a sequence, modulo the gauge. In other orders it is {_known(ratio)} times that in "
        "the original one, over fits to linear targets that learned the original order; in the "
        f"original and in other orders, over all fits: {fits.listed(by)} of {SIZES['m_h']}.",
        ratio,
    )


def _ranks(runs: Runs, *orders: Order) -> list[tuple[Place, float]]:
    """The ranks on linear targets, of encodings that training has taught the original order."""
    return [
        ((encoding, task, one.label.seed), one.outcome.rank)
        for encoding in ENCODINGS
        for task in LINEAR
        if runs.learned(encoding, task)
        for one in runs.fits_of(encoding, task, *orders)
        if one.outcome.rank
    ]


def _by_value(runs: Runs) -> Claim:
    """Decide by fits of all encodings that learn the original target; one that keeps refutes."""
    found = {
        encoding: kept(runs, encoding, "spectral")
        for encoding in ENCODINGS
        if runs.fits_of(encoding, "spectral", "moved") and runs.learned(encoding, "spectral")
    }
    verdicts = [verdict for verdict, _ in found.values()]
    every = judge(
        all(one == "does not hold" for one in verdicts),
        any(one == "holds" for one in verdicts),
        enough=len(verdicts) > 1,
    )
    least = min((ratio for _, ratio in found.values()), key=lambda one: one.value, default=None)
    listed = {WORDS[encoding]: ratio for encoding, (_, ratio) in found.items()}
    return _claim(
        "by-value",
        "Prop. 6.2; our question",
        "Where the query counts by its value, no encoding keeps the promise in training: on Fig. "
        f"1's target the error in another order is at least {cells.MATTERS:g} times that in the "
        "original one.",
        every,
        "The output at t depends on the token x(t), which stands elsewhere in the other order. The "
        f"ratio of the errors: {fits.listed(listed)}. Without positions the exact floor is "
        f"{runs.floor('none', 'spectral', 'moved'):.3g}, and 0 in the original order.",
        least,
    )


def error_figure(runs: Runs) -> Figure:
    """Draw the errors of every encoding in each order, a panel for every target."""
    panels = []
    for task in TARGETS:
        shown = [encoding for encoding in ENCODINGS if runs.fits_of(encoding, task)]
        if not shown:
            continue
        series = [
            one
            for order in ORDERS
            if runs.trained.where(task=task, order=order)
            for one in _series(runs, task, order, shown)
        ]
        panels.append(
            Rows(
                TITLES[task],
                "mean squared error",
                "position encoding",
                tuple(WORDS[encoding] for encoding in shown),
                tuple(series),
                x_scale="log",
            )
        )
    return Figure(
        "positions",
        "Errors by position encoding and order of the inputs",
        "Errors of Transformers with equally many parameters, trained alike: geometric means over "
        "seeds with 95 % intervals. Swapped: the first and the last ten inputs change places "
        "(Table 2). Moved: the first ten come last (Table 1). The shift is that of Eq. 7. An "
        "encoding keeps the promise of Prop. 6.2 where the marks of a row lie together. The floors "
        "are exact: no model without positions, and none with ALiBi and no mask, lies below its "
        "own; other encodings have no floor.",
        tuple(panels),
    )


def _series(runs: Runs, task: Task, order: Order, shown: Sequence[Encoding]) -> list[Series]:
    """The errors of all encodings in one order, and the floors above zero if there are any."""
    found = [
        (float(row), error)
        for row, encoding in enumerate(shown)
        if (error := runs.error(encoding, task, order)).known
    ]
    floors = [
        (row, floor)
        for row, encoding in enumerate(shown)
        if (floor := runs.floor(encoding, task, order)) > 0
    ]
    # marks, because lines would join rows that have nothing to do with each other
    below = [fits.line(f"exact floor, {order}", floors, group=order)] if floors else []
    return [fits.curve(order, found, group=order), *below]


def tables(runs: Runs) -> tuple[Table, ...]:
    """Tabulate what is exact, then the errors and ranks of every target with fits."""
    found = [_exact_table(runs)] if runs.floors else []
    return (*found, *(_table(runs, task) for task in TARGETS if runs.trained.where(task=task)))


def _exact_table(runs: Runs) -> Table:
    def floors(encoding: Encoding, task: Task) -> Cell:
        values = [runs.floor(encoding, task, order) for order in ORDERS]
        known = [f"{value:.3g}" for value in values if math.isfinite(value)]
        return "0" if GROUPS[encoding] == "none" else ", ".join(known) or None

    return fits.table_of(
        "What is exact: symmetries and floors",
        ENCODINGS,
        {
            "positions": lambda one: WORDS[one],
            "commutes with": lambda one: GROUP_WORDS[GROUPS[one]],
            **{
                TITLES[task]: partial(lambda task, one: floors(one, task), task) for task in TARGETS
            },
        },
        "The least mean squared error of all models that commute with these permutations: original "
        "order, swapped, moved (Fig. 1's target, which has 16 tokens: original and moved; its "
        "spread is estimated on drawn sequences). That of the group with one element is 0: no "
        "symmetry stands in the way.",
    )


def _table(runs: Runs, task: Task) -> Table:
    def ranks(encoding: Encoding) -> Cell:
        known = [
            mean(
                [
                    one.outcome.rank
                    for one in runs.fits_of(encoding, task, *orders)
                    if one.outcome.rank
                ]
            )
            for orders in (("original",), ("swapped", "moved"))
        ]
        return " / ".join(f"{one.value:.3g}" if one.known else "–" for one in known)

    shown = [encoding for encoding in ENCODINGS if runs.fits_of(encoding, task)]
    columns: dict[str, Callable[[Encoding], Cell]] = {
        order: partial(lambda order, one: _words(runs.error(one, task, order)), order)
        for order in ORDERS
        if runs.trained.where(task=task, order=order)
    }
    counts = [one.outcome.parameters for one in runs.trained.where(task=task)]
    return fits.table_of(
        f"Fits to {TITLES[task]}",
        shown,
        {
            "positions": lambda one: WORDS[one],
            **columns,
            "other / original": lambda one: _words(runs.ratio(one, task)),
            "rank": ranks,
        },
        f"Mean squared errors with {min(counts):,} to {max(counts):,} parameters"
        f"{runs.trained.where(task=task).steps}; geometric means over seeds, with 95 % intervals. "
        f"The rank holds {ENERGY:.0%} of the energy of a sequence's logits: in the original order "
        "and in others.",
    )


def _words(found: Interval) -> Cell:
    return str(found) if found.known else fits.cell_of(found)


def paragraphs(runs: Runs) -> tuple[str, ...]:
    """Say what is exact, and what training makes of it."""
    said = [
        "What an encoding costs in another order follows from the permutations that a model with "
        "it commutes with. If inputs are independent and of one law, the best such model is the "
        "mean of the target over these permutations, and what is left is an exact floor for all "
        "of them, however large. Without positions these are all permutations. With ALiBi and no "
        "mask there is one, the reversal of time, because only |t - s| counts: past and future "
        "look alike. Rotary positions turn by t - s, which no permutation of a window keeps, so "
        "they have no floor; but of all orders only reversed time is a relabelling of them.",
        "Learned positions, sinusoidal ones and the shift of Eq. 7 keep the promise of Prop. 6.2 "
        "exactly, where the query counts by its position only. Then an order of the inputs is an "
        "order of the keys, and every linear target with an invertible matrix and no negative "
        "weight has an explicit Transformer of one size in every order. Where the query counts by "
        "its value, the token that asks stands elsewhere in the other order, and Prop. 6.2 does "
        "not apply.",
    ]
    if runs.trained:
        found = {
            WORDS[encoding]: runs.ratio(encoding, *LINEAR)
            for encoding in ENCODINGS
            if runs.pairs(encoding, *LINEAR)
        }
        said.append(
            "Trained alike on the targets of Tables 2 and 3, the error in another order over that "
            f"in the original one is {fits.listed(found)}."
        )
    return tuple(said)


EXPERIMENT = contract.Experiment(
    "positions",
    "Position encodings: which of them make the order of the inputs irrelevant",
    "Sec. 4.1, 6.1, Prop. 6.2; our question",
    180,
    plan,
    conclude,
)
