"""The page of a reproduction: the verdicts first, then a section for each experiment."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attnrate.experiments.record import Record
from attnrate.figures.figure import Figure
from attnrate.files import safe_name, safe_names
from attnrate.report.skeleton import render
from attnrate.report.words import VERDICTS, about_open, evidence

INTRO = (
    "What the theory of Jiang & Li, “Approximation Rate of the Transformer Architecture for "
    "Sequence Modeling”, says about attention, tested by computation. Each claim of the paper "
    "below has the run that decides it, with its figures and numbers."
)
#: Where the figures lie, seen from the page
FIGURES = "figures"


def render_page(records: Sequence[Record], title: str, intro: str = INTRO) -> str:
    """One HTML file that tells what the experiments found; its figure files lie in figures/."""
    ids = safe_names(record.name for record in records)
    claim_ids = iter(safe_names(claim.name for record in records for claim in record.claims))
    figures: dict[str, Figure] = {}
    sections = []
    for place, record in zip(ids, records, strict=True):
        drawn = []
        for figure in record.conclusion.figures:
            spot = f"plot-{len(figures) + 1}"
            figures[spot] = figure
            drawn.append(
                {
                    "id": spot,
                    "file": f"{FIGURES}/{safe_name(figure.name)}",
                    "figure": figure,
                    "panels": len(figure.panels),
                }
            )
        claims = [
            {"id": f"claim-{next(claim_ids)}", "claim": claim, "evidence": evidence(claim)}
            for claim in record.claims
        ]
        sections.append({"id": f"experiment-{place}", "record": record, "claims": claims})
        sections[-1]["figures"] = drawn
    found: Counter[str] = Counter(claim.verdict for record in records for claim in record.claims)
    return render(
        "page.html.j2",
        figures,
        title=title,
        intro=intro,
        sections=sections,
        counts=[(verdict, found[verdict]) for verdict in VERDICTS],
        about_open=about_open(records),
        failures=sum(record.failed is not None for record in records),
        facts=facts_of([{"preset": one.preset, **one.provenance} for one in records]),
    )


def facts_of(made: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What is said of the making of results, each value once; of their times the last."""
    facts: dict[str, dict[str, None]] = {}
    for one in made:
        for name, value in _flat(one):
            facts.setdefault(name, {})[value] = None
    if "finished" in facts:
        facts["finished"] = {max(facts["finished"]): None}
    if "git_commit" in facts:
        changed = facts.pop("git_changed", {"False": None})
        mark = " with changes" if "True" in changed else ""
        facts["commit"] = {commit[:10] + mark: None for commit in facts.pop("git_commit")}
    return [(name, ", ".join(values)) for name, values in facts.items()]


def _flat(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in provenance.items():
        if isinstance(value, Mapping):
            found += _flat(value)
        elif isinstance(value, list):
            found += [pair for each in value for pair in _flat({name: each})]
        elif value not in (None, ""):
            found.append((str(name), str(value)))
    return found
