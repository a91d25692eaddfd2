"""What Fig. 3 shows: its two figures and its tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnrate.experiments.experiment import Result, select
from attnrate.experiments.fig3_read import (
    MEASURES,
    PAPER_CONSTANT,
    PAPER_EXPONENT,
    ROUNDING,
    by_head_size,
    distances,
    head_sizes,
    mean_spectrum,
    predictions,
    seeds_apart,
    untrained,
)
from attnrate.experiments.kits.power_law import PowerLaw
from attnrate.figures.figure import Curves, Figure, Series, Table
from attnrate.statistics import mean


def spectra_figure(done: Sequence[Result]) -> Figure:
    """Spectra by head size, and distances between successive ones."""
    series = []
    for m_h in head_sizes(done):
        ours = select(done, m_h=m_h)
        sigma = np.stack([mean_spectrum(one) for one in ours])
        sigma = sigma[:, sigma.min(0) > ROUNDING * sigma.max()]
        k = tuple(float(place) for place in range(1, sigma.shape[1] + 1))
        low, high = (tuple(edge.tolist()) for edge in (sigma.min(0), sigma.max(0)))
        ends: dict[str, Any] = {"low": low, "high": high} if len(ours) > 1 else {}
        series.append(Series(f"m_h = {m_h}", k, tuple(sigma.mean(0).tolist()), **ends))
    by_size = by_head_size(distances(done))
    m_h_of = tuple(float(m_h) for m_h in by_size)
    means = tuple(mean(row).value for row in by_size.values())
    panels = [Curves("spectra", "k", "σ_k / T", tuple(series), "log", "log")]
    if m_h_of:
        edges = [(min(row), max(row)) for row in by_size.values()]
        low, high = zip(*edges, strict=True)
        line = Series("to the next smaller m_h", m_h_of, means, tuple(low), tuple(high))
        between = seeds_apart(done)
        seeds = Series("between seeds", m_h_of, (mean(between).value,) * len(m_h_of), None, None)
        before = by_head_size(distances(done, untrained))
        early = tuple(mean(row).value for row in before.values())
        start = Series("before training", m_h_of, early)
        shown = (line, start, *([Series(**{**vars(seeds), "style": "theory"})] if between else []))
        panels.append(Curves("distances", "m_h", "share of |σ|", shown, "log", "log"))
    return Figure(
        "fig3a",
        "Spectra of the first head of the last layer (Fig. 3a)",
        "Singular values of the logits over T, averaged over test images; bars reach from the "
        "least to the largest of the seeds.",
        tuple(panels),
    )


def errors_figure(done: Sequence[Result], fits: dict[str, PowerLaw | None]) -> Figure:
    """Losses and errors with their laws, beside the paper's."""
    sizes = head_sizes(done)
    places = tuple(float(m_h) for m_h in sizes)
    panels = []
    for title, names in (("loss", ("train_loss", "test_loss")), ("error", list(MEASURES)[2:])):
        series = []
        for name in names:
            found = [mean([o.values[name] for o in select(done, m_h=m)]) for m in sizes]
            values = [[o.values[name] for o in select(done, m_h=m)] for m in sizes]
            low, high = tuple(min(v) for v in values), tuple(max(v) for v in values)
            y = tuple(each.value for each in found)
            series.append(Series(MEASURES[name], places, y, low, high, group=name))
            law = fits[name]
            if law is not None and law.seen:
                x = tuple(float(v) for v in np.geomspace(sizes[0], sizes[-1], 40))
                label = f"{law.a:.2g} m_h^-{law.b.value:.2g} + {law.c:.2g}"
                fitted = tuple(law.at(v) for v in x)
                series.append(Series(label, x, fitted, style="theory", group=name))
        if title == "loss":
            drawn = tuple(m**-PAPER_EXPONENT + PAPER_CONSTANT for m in sizes)
            label = f"paper: m_h^-{PAPER_EXPONENT} + {PAPER_CONSTANT}"
            series.append(Series(label, places, drawn, style="paper"))
        panels.append(Curves(title, "m_h", title, tuple(series), "log"))
    return Figure(
        "fig3b",
        "Loss and error against the head size (Fig. 3b)",
        "Means over seeds, bars from the least to the largest; dashed, power laws with a constant.",
        tuple(panels),
    )


def tables(done: Sequence[Result], fits: dict[str, PowerLaw | None]) -> tuple[Table, ...]:
    """All numbers by head size, and the laws."""
    rows = []
    for m_h in head_sizes(done):
        ours = select(done, m_h=m_h)
        near = [by[m_h] for by in distances(done).values() if m_h in by]
        by_seed = str(mean([float(np.mean(v)) for v in near])) if near else None
        by_image = str(mean(near[0])) if near else None
        cells = [str(mean([one.values[name] for one in ours])) for name in MEASURES]
        rows.append((m_h, len(ours), *cells, by_seed, by_image))
    laws = tuple(
        (MEASURES[name], f"{law.a:.3g}", str(law), f"{law.c:.3g}", "yes" if law.seen else "no")
        for name, law in fits.items()
        if law is not None
    )
    errors = Table(
        "Head size, errors, and distance to the next smaller model's spectrum",
        (
            "m_h",
            "seeds",
            *MEASURES.values(),
            "distance, over seeds",
            "distance, seed 0, over images",
        ),
        tuple(rows),
        "With 95 % intervals where there is more than one value. Distances are shares of the "
        "largest model's spectrum; over images: eight disjoint groups.",
    )
    law_table = Table(
        "y = a m_h^-b + c",
        ("y", "a", "b", "c", "falls with m_h"),
        (*laws, ("paper, training error", "1", f"{PAPER_EXPONENT}", f"{PAPER_CONSTANT}", None)),
        "The interval of b holds all exponents that fit about as well (F test). Whether y falls "
        "with m_h at all is another F test; where it says no, a and b mean nothing, and the law is "
        "not drawn.",
    )
    return errors, law_table, *_foretold_table(done)


def _foretold_table(done: Sequence[Result]) -> tuple[Table, ...]:
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
