"""The commands pod and bound."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from attnrate.cli.output import JsonOption, app, busy, check_plot, fail, print_json, save
from attnrate.errors import AccuracyWarning, InputError

if TYPE_CHECKING:
    from attnrate.targets import AttentionTarget

_SHOWN = 12
#: What --json says of a spectrum besides its values, and of its decay
_JSON_POD = ("rest", "error", "residual", "resolution", "converged", "evaluations")
_JSON_DECAY = ("law", "alpha", "rate", "order", "noise_floor", "interval", "reason")

UOption = Annotated[tuple[float, float], typer.Option("--u", help="Interval of u.", metavar="A B")]
VOption = Annotated[
    tuple[float, float] | None, typer.Option("--v", help="Interval of v; as u.", metavar="A B")
]
GaugeOption = Annotated[
    str | None, typer.Option("--gauge", help="softmax: leave out what softmax cannot see.")
]


@app.command(
    epilog='Example: attnrate pod "1+2*sin(2*pi*u)*sin(2*pi*(u+v))" --plot spectrum.png',
)
def pod(
    expression: Annotated[str, typer.Argument(help="The coupling, of u and v.", metavar="RHO")],
    u: UOption = (0.0, 1.0),
    v: VOption = None,
    gauge: GaugeOption = None,
    rtol: Annotated[float, typer.Option(help="Accuracy, relative to sigma_1.")] = 1e-12,
    max_rank: Annotated[int, typer.Option(help="Most singular values to return.")] = 512,
    max_evaluations: Annotated[
        int | None, typer.Option(help="Evaluations of RHO after which it ends; 10 million.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Seconds after which it ends; no limit.")
    ] = None,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the spectrum into this file.", metavar="FILE")
    ] = None,
) -> None:
    """Singular values of a coupling RHO of u and v, with their error and their decay."""
    from attnrate.theory.expression import parse_coupling
    from attnrate.theory.pod import pod as decompose

    check_plot(plot)
    rho = parse_coupling(expression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)  # said below, in the result
        result = decompose(
            rho,
            u,
            v,
            rtol=rtol,
            max_rank=max_rank,
            gauge=gauge,
            max_evaluations=max_evaluations,
            max_seconds=max_seconds,
        )
    decay = result.decay()
    if plot is not None:
        save(result.plot(), plot)
    if as_json:
        print_json(
            {
                "rho": rho.text,
                "u": u,
                "v": v or u,
                "gauge": gauge,
                "rank": result.rank,
                "sigma": result.sigma.tolist(),
                **{name: getattr(result, name) for name in _JSON_POD},
                "decay": {name: getattr(decay, name) for name in _JSON_DECAY},
            }
        )
    else:
        table = Table("k", "sigma", "tail beyond k", "energy up to k", title=rho.text)
        total = result.tail(0) ** 2 or 1.0
        for k, sigma in enumerate(result.sigma[:_SHOWN], start=1):
            tail = result.tail(k)
            table.add_row(str(k), f"{sigma:.12g}", f"{tail:.4g}", f"{1 - tail**2 / total:.9f}")
        if result.rank > _SHOWN:
            table.add_row("…", f"({result.rank - _SHOWN} more)", "", "")
        console = Console()
        console.print(table)
        console.print(str(result), highlight=False, markup=False, soft_wrap=True)
        console.print(f"decay: {decay}", highlight=False, markup=False, soft_wrap=True)
    if not result.converged:
        fail(f"the spectrum did not converge: it is uncertain by {result.error:.2g}", 1)


@app.command(epilog="Example: attnrate bound --alpha 1 --rank 6 --m-h 1,2,4,6 --compile")
def bound(
    expression: Annotated[
        str | None,
        typer.Argument(help="The coupling, of u and v; or give --alpha and --rank.", metavar="RHO"),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="sigma_k = k^-alpha (Fig. 1); of RHO, the exponent of C1.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="How many such sigma_k.")] = None,
    length: Annotated[int, typer.Option(help="Length tau of the sequences.")] = 16,
    u: Annotated[
        tuple[float, float] | None,
        typer.Option("--u", help="Interval of RHO's tokens; 0 1.", metavar="A B"),
    ] = None,
    m_h: Annotated[str, typer.Option("--m-h", help="Head sizes, e.g. 1,2,4.")] = "1,2,4,8",
    m_ff: Annotated[int | None, typer.Option("--m-ff", help="Units; none: exact bases.")] = None,
    norm: Annotated[str, typer.Option(help="l1: E Σ|H-Ĥ|; mse: E mean|H-Ĥ|².")] = "l1",
    parameters: Annotated[
        int | None, typer.Option(help="Split this many parameters between m_h and m_ff.")
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Also compile each and measure its error.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Theorem 4.1 for a target with F = f = id: the bound as proved and as printed."""
    sizes = _sizes(m_h)
    target = _target(expression, alpha, rank, length, u)
    from attnrate.targets import error_of
    from attnrate.theory.bounds import best_split, jackson_bound
    from attnrate.theory.compile import compile_target

    rows: list[dict[str, Any]] = []
    with busy("bounding"):
        split = None if parameters is None else best_split(target, parameters, norm)
        for size in sizes:
            proved = jackson_bound(target, size, m_ff, norm)
            printed = jackson_bound(target, size, m_ff, norm, form="printed", alpha=alpha)
            row = {
                "m_h": size,
                "m_ff": m_ff,
                "rigorous": proved.value,
                "rank_term": proved.rank_term,
                "feedforward_term": proved.feedforward_term,
                "printed": printed.value,
                "trivial": proved.trivial,
            }
            if compiled:
                found = error_of(compile_target(target, size, m_ff), target, norm=norm)
                row |= {"compiled": found.value, "standard_error": found.standard_error}
            rows.append(row)
    if as_json:
        best = None if split is None else {"m_h": split.m_h, "m_ff": split.m_ff}
        print_json({"target": target.name, "norm": norm, "bounds": rows, "best_split": best})
        return
    headers = ["m_h", "as proved", "rank term", "feed-forward", "as printed"]
    table = Table(*headers, *(["compiled"] if compiled else []), title=f"{target.name}, {norm}")
    for row in rows:
        cells = [str(row["m_h"])]
        keys = ("rigorous", "rank_term", "feedforward_term", "printed")
        cells += [f"{row[key]:.4g}" for key in keys]
        if compiled:
            cells.append(f"{row['compiled']:.3g} ± {row['standard_error']:.1g}")
        table.add_row(*cells)
    console = Console()
    console.print(table)
    if all(row["rigorous"] > row["trivial"] for row in rows):
        console.print(f"Every bound is above {rows[0]['trivial']:.3g}, which any model reaches.")
    if split is not None:
        console.print(f"best split: {split}", highlight=False, soft_wrap=True)


def _target(
    expression: str | None,
    alpha: float | None,
    rank: int | None,
    length: int,
    u: tuple[float, float] | None,
) -> "AttentionTarget":
    spectral = alpha is not None and rank is not None
    if (expression is None) != spectral:
        raise InputError(
            "bound needs either a coupling RHO or both --alpha and --rank",
            {"RHO": expression, "--alpha": alpha, "--rank": rank},
            'Example: attnrate bound "exp(-(u-v)**2)" or attnrate bound --alpha 1 --rank 6.',
        )
    name, unused = ("--u", u) if expression is None else ("--rank", rank)
    if unused is not None:
        raise InputError(
            "this option would do nothing", name, "--u goes with RHO, --rank with --alpha alone."
        )
    if expression is None:
        from attnrate.targets import spectral_target

        assert alpha is not None
        assert rank is not None
        return spectral_target(alpha, rank, length)
    from attnrate.theory.expression import parse_coupling

    rho = parse_coupling(expression)
    import torch

    from attnrate.targets import AttentionTarget, FunctionCoupling, UniformInputs, identity

    def on_tensors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(rho(a[..., 0].double().numpy(), b[..., 0].double().numpy()))

    low, high = u or (0.0, 1.0)
    inputs = UniformInputs((low,), (high,))
    coupling = FunctionCoupling(on_tensors, 1, rho.text)
    return AttentionTarget(identity, identity, coupling, length, inputs, name=rho.text)


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            "--m-h must be whole numbers with commas between them", text, "Example: --m-h 1,2,4"
        ) from None
