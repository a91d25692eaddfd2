"""Fig. 3: a ViT's spectra and its error on CIFAR-10 as the head size m_h grows.

The paper has a ViT-B/16. Here thirty models are trained for this figure and Table 1, so each is
small and sees the images a few times only: its errors are larger, and what is compared is how they
depend on m_h. Fig. 2, which asks what trained heads are like, trains them for longer.

The rules of the verdicts were written before any result of the full preset was seen. m_h doubles
from one model to the next, so distances D between successive spectra sum up, and the spectra
converge, just when D falls like a power of m_h: the slope over seeds must be negative, over all
head sizes and over the larger half. Weights that nobody has trained have such a slope, too, so the
last two spectra must also be near each other. The energy beyond m_h falls with m_h in any spectrum,
so that its order says nothing; Theorem 4.1 says that the excess error is proportional to it, and
that is tried on head sizes that did not make the factor. The exponent decides by whether its
interval holds the paper's. The paper's "training error" is above 1, so it is a loss: ours is the
cross entropy on training images.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnrate.experiments.claims import Claim, Verdict, at_least, at_most, below, decided
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results, unfinished
from attnrate.experiments.kits.fits import PowerLaw, curve, fit_power_law, spread
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
#: An interval of the exponent that reaches further than this times its lower end decides nothing
#: in favour
_WIDEST = 8.0
#: Fewer values than these cannot decide
_LEAST_DISTANCES, _LEAST_ERRORS, _LEAST_SIZES = 6, 8, 6
#: Less would explain less than half of the variance
_EXPLAINED = 0.5
#: Spectra so far apart, as a share of the largest one, are near; or as far as two seeds are
_NEAR = 0.2
_SMALL = "The models are small, and trained by Muon for a few epochs; the paper's is a ViT-B/16."
_TOO_FEW = "This run has too few models to decide."
_TOO_WIDE = "The interval is too wide to decide."


@dataclass(frozen=True)
class Measure:
    """How good a model is: one number of its outcome, under its name."""

    name: str
    word: str
    of: Callable[[ImageOutcome], float]


TRAIN_LOSS = Measure("train_loss", "training loss", lambda found: found.train_loss)
TEST_LOSS = Measure("test_loss", "test loss", lambda found: found.test_loss)
TRAIN_ERROR = Measure("train_error", "training error", lambda found: found.train_error)
TEST_ERROR = Measure("test_error", "test error", lambda found: found.test_error)
MEASURES = (TRAIN_LOSS, TEST_LOSS, TRAIN_ERROR, TEST_ERROR)
#: By seed and larger m_h: how far successive spectra are apart, one value a group of images
Distances = Mapping[int, Mapping[int, Sequence[float]]]
Laws = Mapping[Measure, PowerLaw | None]


def plan(preset: Preset) -> Plan:
    """A model for every m_h and seed."""
    run = PRESETS[preset]
    smaller = [
        image_job(preset, m_h, seed, profiled=True)
        for seed in range(run.seeds)
        for m_h in run.sizes[:-1]
    ]
    return smaller + largest_jobs(preset)


def conclude(results: Results) -> Conclusion:
    """Distances between spectra, the law of the errors, and whether one tells the other."""
    done = profiled(results)
    laws = {measure: _law(done, measure) for measure in MEASURES}
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


def _law(done: Sequence[Profiled], measure: Measure) -> PowerLaw | None:
    return fit_power_law([one.m_h for one in done], [measure.of(one.found) for one in done])


def head_sizes(done: Sequence[Profiled]) -> list[int]:
    """The head sizes of which there is a model."""
    return sorted({one.m_h for one in done})


def _of_size(done: Sequence[Profiled], m_h: int) -> list[Profiled]:
    return [one for one in done if one.m_h == m_h]


def _by_seed(done: Sequence[Profiled]) -> dict[int, list[Profiled]]:
    """The models of every seed, from the smallest m_h to the largest."""
    return {
        seed: sorted((one for one in done if one.job.seed == seed), key=lambda one: one.m_h)
        for seed in sorted({one.job.seed for one in done})
    }


def trained(one: Profiled) -> Sequence[Sequence[float]]:
    """Spectra of the first head of the last layer, one a group of images."""
    return one.spectra.last.groups


def untrained(one: Profiled) -> Sequence[Sequence[float]]:
    """The spectrum of the first head of the last layer before training, over all images."""
    return (one.spectra.untrained_last,)


def _mean_spectrum(one: Profiled) -> np.ndarray:
    return np.asarray(np.mean(trained(one), 0))


def distances(
    done: Sequence[Profiled],
    spectra: Callable[[Profiled], Sequence[Sequence[float]]] = trained,
) -> dict[int, dict[int, list[float]]]:
    """By seed and larger m_h: |σ - σ'| of successive models, one value a group of images.

    They are shares of |σ| of that seed's largest model, so that they compare over seeds.
    """
    found: dict[int, dict[int, list[float]]] = {}
    for seed, ours in _by_seed(done).items():
        if len(ours) < 2:
            continue
        whole = float(np.linalg.norm(np.mean(spectra(ours[-1]), 0)))
        found[seed] = {}
        for one, other in itertools.pairwise(ours):
            pairs = zip(spectra(one), spectra(other), strict=False)
            apart = [_apart(np.array(a), np.array(b)) / max(whole, 1e-300) for a, b in pairs]
            found[seed][other.m_h] = apart
    return found


def _apart(sigma: np.ndarray, other: np.ndarray) -> float:
    """The distance of two spectra; the shorter one goes on with zeros."""
    longer = np.zeros((2, max(len(sigma), len(other))))
    longer[0, : len(sigma)], longer[1, : len(other)] = sigma, other
    return float(np.linalg.norm(longer[0] - longer[1]))


def _by_head_size(found: Distances) -> dict[int, list[float]]:
    """Distances by the larger m_h, the mean over groups of images for every seed."""
    sizes = sorted({m_h for by_size in found.values() for m_h in by_size})
    return {
        m_h: [float(np.mean(by_size[m_h])) for by_size in found.values() if m_h in by_size]
        for m_h in sizes
    }


def slopes(found: Distances, larger_half: bool = False) -> Interval:
    """The exponent of distances as a power of m_h: one a seed, and the mean over seeds.

    Distances of one seed share their models, so that only seeds count as repetitions.
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
    """How far spectra of the largest model are apart over pairs of seeds, as shares of |σ|."""
    if not done:
        return []
    sigma = [_mean_spectrum(one) for one in _of_size(done, head_sizes(done)[-1])]
    return [
        _apart(a, b) / max(float(np.linalg.norm(b)), 1e-300)
        for i, a in enumerate(sigma)
        for b in sigma[:i]
    ]


def predictions(done: Sequence[Profiled]) -> dict[int, dict[int, tuple[float, float]]]:
    """By seed and smaller m_h: the largest model's energy beyond m_h and the excess of the loss.

    The energy is a share, the mean over all heads, with the rows' means, which softmax does not
    see, taken out.
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
    """How much of the excess the energy explains, where excess = κ · energy: at most 1.

    κ comes from the other head sizes and so does the mean excess, which is what one would guess
    without a spectrum: 1 - Σ (excess - κ energy)² / Σ (excess - mean)². NaN for fewer than three.
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


def _claim(
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    limits: tuple[float | None, float | None, float | None],
) -> Claim:
    return Claim(name, f"Sec. 5.2, {place}", statement, "fig3", verdict, evidence, *limits)


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
    verdict: Verdict = "open"
    if "does not hold" in verdicts:
        verdict = "does not hold"
    elif verdicts == {"holds"}:
        verdict = "holds"
    evidence = "no two models are finished. "
    if whole.count:
        more = f", over the larger half {larger}" if larger.count else ""
        evidence = (
            f"the slope of the distance between successive spectra over m_h is {whole}{more} "
            "(asked: below 0). "
        )
    if last.count:
        evidence = evidence if whole.count else ""
        evidence += (
            f"The last distance is {last} of the spectrum (asked: at most {near:.2g}; {_NEAR}, or "
            "as far as two seeds are apart). "
        )
        if between:
            ends = f"{min(between):.3g} to {max(between):.3g}"
            evidence += f"Two seeds of the largest model are {ends} apart. "
        before = distances(done, untrained)
        rest = mean([by_size[max(by_size)][0] for by_size in before.values()])
        early = f"the slope was {slopes(before)}, " if whole.count else ""
        evidence += f"Before training {early}the last distance was {rest}. "
    return _claim(
        "fig3-spectra-converge",
        "Fig. 3(a)",
        "As m_h grows, the singular values of ρ̂ converge.",
        verdict,
        evidence + (_closing(verdict, enough) if last.count else ""),
        whole.limits,
    )


def _falls_claim(done: Sequence[Profiled]) -> Claim:
    m_h = [float(one.m_h) for one in done]
    found = mean([])
    if len({*m_h}) > 1:  # of values at one place there is no slope
        found = slope(m_h, [one.found.train_loss for one in done])
    enough = len(done) >= _LEAST_ERRORS
    verdict = below(found, 0.0) if enough else "open"
    said = f"the slope of log training loss over log m_h is {found}. "
    return _claim(
        "fig3-error-falls",
        "Fig. 3(b)",
        "The training error decreases as m_h increases.",
        verdict,
        (said if found.count else "too few models are finished. ") + _closing(verdict, enough),
        found.limits,
    )


def _exponent_claim(law: PowerLaw | None) -> Claim:
    verdict: Verdict = "open"
    evidence = _TOO_FEW
    if law is not None:
        enough = law.b.count >= _LEAST_ERRORS
        evidence = (
            f"training loss = {law.a:.3g} m_h^-b + {law.c:.3g} with b = {law} "
            f"(the paper's constant: {PAPER_CONSTANT}). "
        )
        if not law.seen:
            evidence += "A loss that does not depend on m_h fits about as well, or it rises. "
        if enough and law.seen:
            if not law.b.low <= PAPER_EXPONENT <= law.b.high:
                verdict = "does not hold"
            elif law.bounded and law.b.high <= _WIDEST * law.b.low:
                verdict = "holds"
        elif enough and law.a < 0 and law.p_flat <= 0.05:
            verdict = "does not hold"
        evidence += _closing(verdict, enough)
    return _claim(
        "fig3-exponent",
        "Fig. 3(b)",
        f"The training error follows m_h^-{PAPER_EXPONENT} + const.",
        verdict,
        evidence,
        (None, None, None) if law is None else law.limits,
    )


def _tail_claim(done: Sequence[Profiled]) -> Claim:
    by_seed = [[*pairs.values()] for pairs in predictions(done).values()]
    enough = min(map(len, by_seed), default=0) >= _LEAST_SIZES
    found = mean([share for share in map(explained, by_seed) if not math.isnan(share)])
    verdict = at_least(found, _EXPLAINED) if enough else "open"
    said = ""
    if found.count:
        said = (
            "share of the variance of the excess loss that is foretold by the energy of the "
            f"largest model's spectra beyond m_h times a factor of other head sizes: {found} "
            f"(asked: at least {_EXPLAINED}). "
        )
    return _claim(
        "fig3-tail-predicts",
        "Theorem 4.1",
        "The decay of the singular values tells the error that a smaller head size leaves.",
        verdict,
        said + _closing(verdict, enough),
        found.limits,
    )


def _paragraphs(done: Sequence[Profiled], claims: Sequence[Claim]) -> tuple[str, ...]:
    sizes = head_sizes(done)
    best = min(done, key=lambda one: one.found.test_error)
    return (
        f"{len(done)} ViTs with m_h from {sizes[0]} to {sizes[-1]}, everything else alike, values "
        f"of full size in all; each saw {done[0].found.images} images of CIFAR-10 "
        f"{len(done[0].found.epochs)} times. {_SMALL} The least test error is "
        f"{best.found.test_error:.3f} (m_h = {best.m_h}).",
        decided(claims),
    )


def _spectra_figure(done: Sequence[Profiled]) -> Figure:
    """Spectra by head size, and distances between successive ones."""
    series = []
    for m_h in head_sizes(done):
        ours = _of_size(done, m_h)
        sigma = np.stack([_mean_spectrum(one) for one in ours])
        sigma = sigma[:, sigma.min(0) > ROUNDING * sigma.max()]
        k = tuple(float(place) for place in range(1, sigma.shape[1] + 1))
        low, high = (tuple(edge.tolist()) for edge in (sigma.min(0), sigma.max(0)))
        middle = tuple(sigma.mean(0).tolist())
        ends = (low, high) if len(ours) > 1 else (None, None)
        series.append(Series(f"m_h = {m_h}", k, middle, *ends))
    panels = [Curves("spectra", "k", "σ_k / T", tuple(series), "log", "log")]
    by_size = _by_head_size(distances(done))
    if by_size:
        m_h_of = tuple(float(m_h) for m_h in by_size)
        near = [(float(m_h), spread(values)) for m_h, values in by_size.items()]
        shown = [curve("to the next smaller m_h", near)]
        before = _by_head_size(distances(done, untrained))
        early = tuple(mean(row).value for row in before.values())
        shown.append(Series("before training", m_h_of, early))
        between = seeds_apart(done)
        if between:
            level = (mean(between).value,) * len(m_h_of)
            shown.append(Series("between seeds", m_h_of, level, style="theory"))
        panels.append(Curves("distances", "m_h", "share of |σ|", tuple(shown), "log", "log"))
    return Figure(
        "fig3a",
        "Spectra of the first head of the last layer (Fig. 3a)",
        "Singular values of the logits over T, averaged over test images; bars reach from the "
        "least to the largest of the seeds.",
        tuple(panels),
    )


def _errors_figure(done: Sequence[Profiled], laws: Laws) -> Figure:
    """Losses and errors with their laws, beside the paper's."""
    sizes = head_sizes(done)
    places = tuple(float(m_h) for m_h in sizes)
    paper = Series(
        f"paper: m_h^-{PAPER_EXPONENT} + {PAPER_CONSTANT}",
        places,
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
            values = [spread([measure.of(one.found) for one in _of_size(done, m)]) for m in sizes]
            points = [*zip(places, values, strict=True)]
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
        "Means over seeds, bars from the least to the largest; dashed, power laws with a constant.",
        tuple(panels),
    )


def _errors_table(done: Sequence[Profiled]) -> Table:
    """All numbers by head size."""
    rows = []
    for m_h in head_sizes(done):
        ours = _of_size(done, m_h)
        near = [by[m_h] for by in distances(done).values() if m_h in by]
        by_seed = str(mean([float(np.mean(v)) for v in near])) if near else None
        by_image = str(mean(near[0])) if near else None
        cells = [str(mean([each.of(one.found) for one in ours])) for each in MEASURES]
        rows.append((m_h, len(ours), *cells, by_seed, by_image))
    return Table(
        "Head size, errors, and distance to the next smaller model's spectrum",
        (
            "m_h",
            "seeds",
            *(each.word for each in MEASURES),
            "distance, over seeds",
            "distance, seed 0, over images",
        ),
        tuple(rows),
        "With 95 % intervals where there is more than one value. Distances are shares of the "
        "largest model's spectrum; over images: eight disjoint groups.",
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
        "The interval of b holds all exponents that fit about as well (F test). Whether y falls "
        "with m_h at all is another F test; where it says no, a and b mean nothing, and the law is "
        "not drawn.",
    )


def _tails_table(done: Sequence[Profiled]) -> tuple[Table, ...]:
    """What the largest model's spectra have beyond m_h, beside what smaller models miss."""
    by_seed = predictions(done)
    sizes = sorted({m_h for pairs in by_seed.values() for m_h in pairs})
    rows = []
    for m_h in sizes:
        pairs = [pairs[m_h] for pairs in by_seed.values() if m_h in pairs]
        energy, excess = (str(mean([pair[side] for pair in pairs])) for side in (0, 1))
        rows.append((m_h, energy, excess))
    if not rows:
        return ()
    return (
        Table(
            "What the spectrum of the largest model foretells",
            ("m_h", "its energy beyond m_h", "excess training loss"),
            tuple(rows),
            "Energy is a share, row means out, averaged over heads; the excess is over the largest "
            "model of the same seed.",
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
