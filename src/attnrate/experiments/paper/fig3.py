"""Fig. 3: a ViT's spectra and its error on CIFAR-10 as the head size m_h grows.

The paper has a ViT-B/16. Here thirty models are trained for this figure and Table 1, so each is
small and sees the images only a few times. Its errors are larger than the paper's; the comparison
is about how errors depend on m_h. Fig. 2, which examines trained heads, trains models for longer.

The rules of the verdicts were written before any result of the full preset was seen. m_h doubles
from one model to the next. The spectra therefore converge, as the sum of the distances D between
successive spectra does, if D falls like a power of m_h: the slope over seeds must be negative, over
all head sizes and over the larger half of them. Untrained weights have such a slope, too, so the
last two spectra must also be close to each other. The energy beyond m_h falls with m_h in every
spectrum, so that its order says nothing. But Theorem 4.1 says that the excess error is proportional
to it, and that is tested on head sizes that were not used to fit the factor. The exponent holds if
its interval contains the paper's. The paper's "training error" exceeds 1, so it must be a loss;
ours is the cross entropy on training images.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from attnrate.experiments.claims import (
    Claim,
    Verdict,
    at_least,
    at_most,
    below,
    claim_of,
    decided,
    judge,
)
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results, unfinished
from attnrate.experiments.kits.fits import PowerLaw, curve, fit_power_law, line, spread
from attnrate.experiments.kits.images import (
    PRESETS,
    ROUNDING,
    ImageOutcome,
    Profiled,
    image_job,
    largest_jobs,
    profiled,
)
from attnrate.figures.figure import Curves, Figure, Series, Table
from attnrate.spectra.measures import tails
from attnrate.statistics import Interval, mean, slope

#: Fig. 3(b) of the paper: m_h^-0.27 + 1.05
PAPER_EXPONENT, PAPER_CONSTANT = 0.27, 1.05
#: The paper's exponent is confirmed only if the upper end of the interval is at most this times the
#: lower end
_WIDEST = 8.0
#: Least numbers of values for a decision
_LEAST_DISTANCES, _LEAST_ERRORS, _LEAST_SIZES = 6, 8, 6
#: Least share of the variance that counts as explained
_EXPLAINED = 0.5
#: Spectra are close if their distance is at most this share of |σ|, or that of two seeds
_NEAR = 0.2
_SMALL = "These models are small and trained for a few epochs with Muon; the paper has a ViT-B/16."
_TOO_FEW = "This run has too few models to decide."
_TOO_WIDE = "The interval is too wide to decide."


@dataclass(frozen=True)
class Measure:
    """A measure of how good a model is: its name, its words, and how it is read."""

    name: str
    word: str
    of: Callable[[ImageOutcome], float]


TRAIN_LOSS = Measure("train_loss", "training loss", lambda found: found.train_loss)
TEST_LOSS = Measure("test_loss", "test loss", lambda found: found.test_loss)
TRAIN_ERROR = Measure("train_error", "training error", lambda found: found.train_error)
TEST_ERROR = Measure("test_error", "test error", lambda found: found.test_error)
MEASURES = (TRAIN_LOSS, TEST_LOSS, TRAIN_ERROR, TEST_ERROR)
#: Distances of successive spectra, by seed and larger m_h; one value per group of images
Distances = Mapping[int, Mapping[int, Sequence[float]]]
Laws = Mapping[Measure, PowerLaw | None]
V = TypeVar("V")


def plan(preset: Preset) -> Plan:
    """Plan one model for every m_h and seed."""
    run = PRESETS[preset]
    smaller = [
        image_job(preset, m_h, seed, profiled=True)
        for seed in range(run.seeds)
        for m_h in run.sizes[:-1]
    ]
    return smaller + largest_jobs(preset)


def conclude(results: Results) -> Conclusion:
    """Compare the spectra, fit the law of the errors, and test whether one predicts the other."""
    done = profiled(results)
    sizes = [one.m_h for one in done]
    laws = {
        measure: fit_power_law(sizes, [measure.of(one.found) for one in done])
        for measure in MEASURES
    }
    claims = (
        _converge_claim(done),
        _falls_claim(done),
        _exponent_claim(laws[TRAIN_LOSS]),
        _tail_claim(done),
    )
    if not done:
        return unfinished(results, claims, "images")
    figures = (_spectra_figure(done), _errors_figure(done, laws))
    tables = (_errors_table(done), _laws_table(laws), *_tails_table(done))
    return Conclusion(_paragraphs(done, claims), figures, tables, claims)


def _grouped(done: Sequence[Profiled], key: Callable[[Profiled], int]) -> dict[int, list[Profiled]]:
    """Group the models by `key`, in increasing order; each group is ordered by m_h."""
    found: dict[int, list[Profiled]] = {}
    for one in sorted(done, key=lambda one: (key(one), one.m_h)):
        found.setdefault(key(one), []).append(one)
    return found


def _by_size(done: Sequence[Profiled]) -> dict[int, list[Profiled]]:
    return _grouped(done, lambda one: one.m_h)


def _by_seed(done: Sequence[Profiled]) -> dict[int, list[Profiled]]:
    return _grouped(done, lambda one: one.job.seed)


def trained(one: Profiled) -> Sequence[Sequence[float]]:
    """Spectra of the first head of the last layer, one per group of images."""
    return one.spectra.last.groups


def untrained(one: Profiled) -> Sequence[Sequence[float]]:
    """The spectrum of the last layer's first head before training, over all images."""
    return (one.spectra.untrained_last,)


def _mean_spectrum(one: Profiled) -> np.ndarray:
    return np.asarray(np.mean(trained(one), 0))


def distances(
    done: Sequence[Profiled],
    spectra: Callable[[Profiled], Sequence[Sequence[float]]] = trained,
) -> dict[int, dict[int, list[float]]]:
    """Distances |σ - σ'| of successive models, by seed and by the larger m_h of the two.

    There is one value per group of images. Each is divided by |σ| of the seed's largest model,
    so that seeds can be compared.
    """
    found: dict[int, dict[int, list[float]]] = {}
    for seed, ours in _by_seed(done).items():
        whole = max(float(np.linalg.norm(np.mean(spectra(ours[-1]), 0))), 1e-300)
        for one, other in itertools.pairwise(ours):
            pairs = zip(spectra(one), spectra(other), strict=False)
            apart = [_apart(np.array(a), np.array(b)) / whole for a, b in pairs]
            found.setdefault(seed, {})[other.m_h] = apart
    return found


def _apart(sigma: np.ndarray, other: np.ndarray) -> float:
    """The distance of two spectra; the shorter one is padded with zeros."""
    longer = np.zeros((2, max(len(sigma), len(other))))
    longer[0, : len(sigma)], longer[1, : len(other)] = sigma, other
    return float(np.linalg.norm(longer[0] - longer[1]))


def _across(found: Mapping[int, Mapping[int, V]]) -> dict[int, list[V]]:
    """Collect the values of all seeds by head size."""
    sizes = sorted({m_h for by_size in found.values() for m_h in by_size})
    return {m_h: [by[m_h] for by in found.values() if m_h in by] for m_h in sizes}


def slopes(found: Distances, larger_half: bool = False) -> Interval:
    """The exponent of the distances as a power of m_h: fitted per seed, averaged over seeds.

    Distances of one seed share their models, so only seeds count as repetitions.
    """
    values = []
    for by_size in found.values():
        sizes = sorted(by_size)
        kept = sizes[len(sizes) // 2 :] if larger_half else sizes
        if len(kept) > 1:
            far = [max(float(np.mean(by_size[m_h])), 1e-300) for m_h in kept]
            values.append(slope([float(m_h) for m_h in kept], far).value)
    return mean(values)


def seeds_apart(done: Sequence[Profiled]) -> list[float]:
    """Distances between the largest model's spectra of every two seeds, as shares of |σ|."""
    if not done:
        return []
    sigma = [_mean_spectrum(one) for one in [*_by_size(done).values()][-1]]
    return [
        _apart(a, b) / max(float(np.linalg.norm(b)), 1e-300)
        for i, a in enumerate(sigma)
        for b in sigma[:i]
    ]


def predictions(done: Sequence[Profiled]) -> dict[int, dict[int, tuple[float, float]]]:
    """By seed and m_h: (the largest model's energy beyond m_h, the excess training loss).

    The energy is a share of the whole, averaged over all heads, under the softmax gauge. The
    excess is the loss of the model with m_h minus that of the seed's largest model.
    """
    found: dict[int, dict[int, tuple[float, float]]] = {}
    for seed, ours in _by_seed(done).items():
        largest = ours[-1]
        beyond = tails(np.array(largest.spectra.gauged))
        shares = np.square(beyond / np.maximum(beyond[..., :1], 1e-300))
        found[seed] = {
            one.m_h: (
                float(shares[..., one.m_h].mean()),
                one.found.train_loss - largest.found.train_loss,
            )
            for one in ours[:-1]
        }
    return found


def explained(pairs: Sequence[tuple[float, float]]) -> float:
    """The share of the variance of the excess that excess = κ · energy explains; at most 1.

    κ is fitted to the other head sizes. The comparison is with their mean excess, the best
    guess without a spectrum: 1 - Σ (excess - κ energy)² / Σ (excess - mean)². NaN for fewer
    than three pairs.
    """
    energy, excess = np.array(pairs, dtype=float).reshape(-1, 2).T
    if len(energy) < 3:
        return math.nan
    wrong = guessed = 0.0
    for left_out in range(len(energy)):
        kept = np.arange(len(energy)) != left_out
        size = float(energy[kept] @ energy[kept])
        factor = float(energy[kept] @ excess[kept]) / size if size else 0.0
        wrong += float(excess[left_out] - factor * energy[left_out]) ** 2
        guessed += float(excess[left_out] - excess[kept].mean()) ** 2
    return 1 - wrong / guessed if guessed else math.nan


def _closing(verdict: Verdict, enough: bool) -> str:
    return _SMALL if verdict != "open" else _TOO_WIDE if enough else _TOO_FEW


def _converge_claim(done: Sequence[Profiled]) -> Claim:
    found = distances(done)
    whole, larger = slopes(found), slopes(found, larger_half=True)
    last = mean([float(np.mean(by_size[max(by_size)])) for by_size in found.values()])
    between = seeds_apart(done)
    near = max(_NEAR, mean(between).value) if between else _NEAR
    enough = min(map(len, found.values()), default=0) >= _LEAST_DISTANCES
    verdicts = {below(whole, 0.0), below(larger, 0.0), at_most(last, near)} if enough else {"open"}
    verdict = judge(verdicts == {"holds"}, "does not hold" in verdicts)
    evidence = "fewer than two models are finished. "
    if whole.count:
        more = f", over the larger half {larger}" if larger.count else ""
        evidence = (
            f"the slope of the distance between successive spectra over m_h is {whole}{more} "
            "(limit: below 0). "
        )
    if last.count:
        evidence = evidence if whole.count else ""
        evidence += (
            f"The last distance is {last} of |σ| (limit: at most {near:.2g}, the larger of {_NEAR} "
            "and the distance of two seeds). "
        )
        if between:
            ends = f"{min(between):.3g} to {max(between):.3g}"
            evidence += f"The distance between two seeds of the largest model is {ends}. "
        before = distances(done, untrained)
        rest = mean([by_size[max(by_size)][0] for by_size in before.values()])
        early = f"the slope was {slopes(before)}, " if whole.count else ""
        evidence += f"Before training {early}the last distance was {rest}. "
    return claim_of(
        "fig3",
        "spectra-converge",
        "Sec. 5.2, Fig. 3(a)",
        "As m_h grows, the singular values of ρ̂ converge.",
        verdict,
        evidence + (_closing(verdict, enough) if last.count else ""),
        whole,
    )


def _falls_claim(done: Sequence[Profiled]) -> Claim:
    m_h = [float(one.m_h) for one in done]
    found = mean([])
    if len({*m_h}) > 1:  # a slope needs two different head sizes
        found = slope(m_h, [one.found.train_loss for one in done])
    enough = len(done) >= _LEAST_ERRORS
    verdict = below(found, 0.0) if enough else "open"
    said = f"the slope of log training loss over log m_h is {found}. "
    return claim_of(
        "fig3",
        "error-falls",
        "Sec. 5.2, Fig. 3(b)",
        "The training error decreases as m_h increases.",
        verdict,
        (said if found.count else "too few models are finished. ") + _closing(verdict, enough),
        found,
    )


def _exponent_claim(law: PowerLaw | None) -> Claim:
    verdict: Verdict = "open"
    found, evidence = mean([]), _TOO_FEW
    if law is not None:
        enough, b = law.b.count >= _LEAST_ERRORS, law.b
        inside = b.low <= PAPER_EXPONENT <= b.high
        narrow = law.bounded and b.high <= _WIDEST * b.low
        rises = not law.seen and law.a < 0 and law.p_flat <= 0.05
        verdict = judge(law.seen and inside and narrow, rises or (law.seen and not inside), enough)
        evidence = (
            f"training loss = {law.a:.3g} m_h^-b + {law.c:.3g} with b = {law} "
            f"(the paper's constant: {PAPER_CONSTANT}). "
        )
        if not law.seen:
            evidence += "A loss that is constant in m_h fits about as well, or the loss rises. "
        evidence += _closing(verdict, enough)
        low, high = (math.nan if end is None else end for end in law.limits[1:])
        found = Interval(b.value, low, high, b.count)
    return claim_of(
        "fig3",
        "exponent",
        "Sec. 5.2, Fig. 3(b)",
        f"The training error follows m_h^-{PAPER_EXPONENT} + const.",
        verdict,
        evidence,
        found,
    )


def _tail_claim(done: Sequence[Profiled]) -> Claim:
    by_seed = [[*pairs.values()] for pairs in predictions(done).values()]
    enough = min(map(len, by_seed), default=0) >= _LEAST_SIZES
    found = mean([share for share in map(explained, by_seed) if not math.isnan(share)])
    verdict = at_least(found, _EXPLAINED) if enough else "open"
    said = ""
    if found.count:
        said = (
            "share of the variance of the excess loss that is explained by the energy of the "
            "largest model's spectra beyond m_h, times a factor fitted to other head sizes: "
            f"{found} (limit: at least {_EXPLAINED}). "
        )
    return claim_of(
        "fig3",
        "tail-predicts",
        "Sec. 5.2, Theorem 4.1",
        "The decay of the singular values predicts the error of a smaller head size.",
        verdict,
        said + _closing(verdict, enough),
        found,
    )


def _paragraphs(done: Sequence[Profiled], claims: Sequence[Claim]) -> tuple[str, ...]:
    sizes = [*_by_size(done)]
    best = min(done, key=lambda one: one.found.test_error)
    return (
        f"{len(done)} ViTs with m_h from {sizes[0]} to {sizes[-1]}, with everything else equal, "
        f"the value size included; each saw {done[0].found.images} images of CIFAR-10 "
        f"{len(done[0].found.epochs)} times. {_SMALL} The least test error is "
        f"{best.found.test_error:.3f} (m_h = {best.m_h}).",
        decided(claims),
    )


def _spectra_figure(done: Sequence[Profiled]) -> Figure:
    """Draw the spectra by head size, and the distances between successive ones."""
    series = []
    for m_h, ours in _by_size(done).items():
        sigma = np.stack([_mean_spectrum(one) for one in ours])
        sigma = sigma[:, sigma.min(0) > ROUNDING * sigma.max()]
        k = tuple(float(place) for place in range(1, sigma.shape[1] + 1))
        low, high = (tuple(edge.tolist()) for edge in (sigma.min(0), sigma.max(0)))
        middle = tuple(sigma.mean(0).tolist())
        ends = (low, high) if len(ours) > 1 else (None, None)
        series.append(Series(f"m_h = {m_h}", k, middle, *ends))
    panels = [Curves("spectra", "k", "σ_k / T", tuple(series), "log", "log")]
    # for every seed, the mean over the groups of images
    apart, before = (
        {float(m): [float(np.mean(v)) for v in far] for m, far in _across(found).items()}
        for found in (distances(done), distances(done, untrained))
    )
    if apart:
        shown = [
            curve("to the next smaller m_h", [(m, spread(far)) for m, far in apart.items()]),
            line("before training", [(m, mean(far).value) for m, far in before.items()]),
        ]
        if between := seeds_apart(done):
            level = mean(between).value
            shown.append(line("between seeds", [(m, level) for m in apart], "theory"))
        panels.append(Curves("distances", "m_h", "share of |σ|", tuple(shown), "log", "log"))
    return Figure(
        "fig3a",
        "Spectra of the first head of the last layer (Fig. 3a)",
        "Singular values of the logits divided by the length T, averaged over test images; bars "
        "reach from the least to the largest seed.",
        tuple(panels),
    )


def _errors_figure(done: Sequence[Profiled], laws: Laws) -> Figure:
    """Draw losses and errors with their fitted laws, beside the paper's."""
    by_size = _by_size(done)
    sizes = tuple(map(float, by_size))
    paper = Series(
        f"paper: m_h^-{PAPER_EXPONENT} + {PAPER_CONSTANT}",
        sizes,
        tuple(m_h**-PAPER_EXPONENT + PAPER_CONSTANT for m_h in sizes),
        style="paper",
    )
    panels = []
    for title, measures, beside in (
        ("loss", (TRAIN_LOSS, TEST_LOSS), (paper,)),
        ("error", (TRAIN_ERROR, TEST_ERROR), ()),
    ):
        series: list[Series] = []
        for measure in measures:
            points = [
                (float(m_h), spread([measure.of(one.found) for one in ours]))
                for m_h, ours in by_size.items()
            ]
            series.append(curve(measure.word, points, group=measure.name))
            law = laws[measure]
            if law is not None and law.seen:
                x = tuple(float(v) for v in np.geomspace(sizes[0], sizes[-1], 40))
                label = f"{law.a:.2g} m_h^-{law.b.value:.2g} + {law.c:.2g}"
                fitted = tuple(law.at(v) for v in x)
                series.append(Series(label, x, fitted, style="theory", group=measure.name))
        panels.append(Curves(title, "m_h", title, (*series, *beside), "log"))
    return Figure(
        "fig3b",
        "Loss and error against the head size (Fig. 3b)",
        "Means over seeds, bars from the least to the largest; dashed: power laws with a constant.",
        tuple(panels),
    )


def _errors_table(done: Sequence[Profiled]) -> Table:
    """Tabulate all numbers by head size."""
    rows = []
    for m_h, ours in _by_size(done).items():
        near = _across(distances(done)).get(m_h, [])
        by_seed = str(mean([float(np.mean(v)) for v in near])) if near else None
        by_image = str(mean(near[0])) if near else None
        cells = [str(mean([each.of(one.found) for one in ours])) for each in MEASURES]
        rows.append((m_h, len(ours), *cells, by_seed, by_image))
    return Table(
        "Head size, errors, and distance from the spectrum of the next smaller model",
        (
            "m_h",
            "seeds",
            *(each.word for each in MEASURES),
            "distance, over seeds",
            "distance, seed 0, over images",
        ),
        tuple(rows),
        "With 95 % intervals where there is more than one value. Distances are shares of |σ| of "
        "the largest model. Over images: eight disjoint groups of them.",
    )


def _laws_table(laws: Laws) -> Table:
    rows = tuple(
        (measure.word, f"{law.a:.3g}", str(law), f"{law.c:.3g}", "yes" if law.seen else "no")
        for measure, law in laws.items()
        if law is not None
    )
    return Table(
        "y = a m_h^-b + c",
        ("y", "a", "b", "c", "falls with m_h"),
        (*rows, ("paper, training error", "1", f"{PAPER_EXPONENT}", f"{PAPER_CONSTANT}", None)),
        "The interval of b contains all exponents that fit about as well (F test). A second F test "
        "decides whether y falls with m_h at all; if not, a and b mean nothing and the law is not "
        "drawn.",
    )


def _tails_table(done: Sequence[Profiled]) -> tuple[Table, ...]:
    """Tabulate the largest model's energy beyond m_h beside the excess loss of smaller models."""
    rows = []
    for m_h, pairs in _across(predictions(done)).items():
        energy, excess = (str(mean(side)) for side in zip(*pairs, strict=True))
        rows.append((m_h, energy, excess))
    if not rows:
        return ()
    return (
        Table(
            "What the spectrum of the largest model predicts",
            ("m_h", "its energy beyond m_h", "excess training loss"),
            tuple(rows),
            "The energy is a share under the softmax gauge, averaged over heads. The excess is the "
            "training loss minus that of the largest model of the same seed.",
        ),
    )


EXPERIMENT = Experiment(
    "fig3",
    "Spectra and error of a ViT against the head size",
    "Sec. 5.2, Fig. 3",
    30,
    plan,
    conclude,
    parts=("fig3a", "fig3b"),
)
