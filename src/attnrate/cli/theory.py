"""The commands pod and bound."""

import re
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnrate.cli.completing import words
from attnrate.cli.output import (
    Command,
    JsonOption,
    PlotOption,
    app,
    check_plot,
    fail,
    json_rows,
    print_json,
    print_lines,
    print_table,
    save,
)
from attnrate.errors import AccuracyWarning, InputError
from attnrate.words import GAUGES, NORMS, require_gauge, require_norm

if TYPE_CHECKING:
    from attnrate.targets import AttentionTarget

_SHOWN = 12
#: What --json says of a spectrum besides its values, and of its decay
_JSON_POD = ("rest", "error", "residual", "resolution", "converged", "evaluations")
_JSON_DECAY = ("law", "alpha", "rate", "order", "noise_floor", "interval", "reason")


_NEGATIVE = re.compile(r"-(?!-).*\b[uv]\b", re.DOTALL)


class CouplingCommand(Command):
    """A command that takes a coupling, which may begin with a minus sign."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; "-u*v" is a coupling and no option."""
        return super().parse_args(ctx, [f" {one}" if _NEGATIVE.match(one) else one for one in args])


@app.command(
    cls=CouplingCommand,
    epilog='Example: attnrate pod "1+2*sin(2*pi*u)*sin(2*pi*(u+v))" --plot spectrum.png',
)
def pod(
    expression: Annotated[
        str,
        typer.Argument(
            help="The coupling ρ(u, v): numbers, u, v, pi, + - * / ** and functions such as "
            "exp, sin, log, sqrt, abs, min, max.",
            metavar="RHO",
        ),
    ],
    u: Annotated[
        tuple[float, float],
        typer.Option(
            "--u", help="The interval of u (default: 0 1).", metavar="A B", show_default=False
        ),
    ] = (0.0, 1.0),
    v: Annotated[
        tuple[float, float] | None,
        typer.Option("--v", help="The interval of v (default: that of u).", metavar="A B"),
    ] = None,
    gauge: Annotated[
        str,
        typer.Option(
            help="softmax leaves out what softmax over v cannot see (the part of RHO that "
            "depends on u alone); none decomposes RHO as it is.",
            metavar="|".join(GAUGES),
            autocompletion=words(*GAUGES),
        ),
    ] = "none",
    rtol: Annotated[
        float, typer.Option(help="Accuracy, relative to the largest singular value.", metavar="X")
    ] = 1e-12,
    max_rank: Annotated[
        int, typer.Option(help="Largest number of singular values to compute.", metavar="N")
    ] = 512,
    max_evaluations: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many evaluations of RHO (default: 10 million).", metavar="N"
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds (default: no limit).", metavar="S"),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the singular values of a coupling RHO, their error and how they decay.

    The table has each singular value sigma_k with its tail (the error of the best approximation
    of rank k) and the share of the energy up to k. The exit code is 1 if the accuracy that was
    asked for is not reached; what was found is printed all the same.
    """
    from attnrate.theory.expression import parse_coupling
    from attnrate.theory.pod import pod as decompose

    check_plot(plot)
    modulo = require_gauge("gauge", gauge)
    rho = parse_coupling(expression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)  # said below, in the result
        result = decompose(
            rho,
            u,
            v,
            rtol=rtol,
            max_rank=max_rank,
            gauge=modulo,
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
                "gauge": modulo,
                "rank": result.rank,
                "sigma": result.sigma.tolist(),
                **{name: getattr(result, name) for name in _JSON_POD},
                "decay": {name: getattr(decay, name) for name in _JSON_DECAY},
            }
        )
    else:
        rows = []
        total = result.tail(0) ** 2 or 1.0
        for k, sigma in enumerate(result.sigma[:_SHOWN], start=1):
            tail = result.tail(k)
            rows.append((str(k), f"{sigma:.12g}", f"{tail:.4g}", f"{1 - tail**2 / total:.9f}"))
        if result.rank > _SHOWN:
            rows.append(("…", f"({result.rank - _SHOWN} more: --json)", "", ""))
        print_table(("k", "sigma", "tail beyond k", "energy up to k"), rows, rho.text)
        said = (
            str(decay).replace("none", "not determined", 1) if decay.law == "none" else str(decay)
        )
        print_lines(str(result), f"decay: {said}")
    if not result.converged:
        fail(f"the spectrum did not converge: it is uncertain by {result.error:.2g}", 1)


@app.command(
    cls=CouplingCommand, epilog="Example: attnrate bound --alpha 1 --rank 6 --m-h 1,2,4,6 --compile"
)
def bound(
    expression: Annotated[
        str | None,
        typer.Argument(
            help="The coupling ρ(u, v), written as for attnrate pod; or give --alpha and --rank.",
            metavar="RHO",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Without RHO: the target of Fig. 1, with sigma_k = k^-alpha for k up to --rank. "
            "With RHO: the exponent alpha of C1 in the printed bound.",
            metavar="X",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(help="Number of singular values of the target of Fig. 1.", metavar="N"),
    ] = None,
    length: Annotated[
        int, typer.Option(help="Length of the sequences (tau), in tokens.", metavar="N")
    ] = 16,
    u: Annotated[
        tuple[float, float] | None,
        typer.Option("--u", help="The interval of RHO's tokens (default: 0 1).", metavar="A B"),
    ] = None,
    m_h: Annotated[
        str, typer.Option("--m-h", help="Head sizes, with commas between them.", metavar="N,N,…")
    ] = "1,2,4,8",
    m_ff: Annotated[
        int | None,
        typer.Option(
            "--m-ff",
            help="Hidden units for each basis function (default: exact basis functions, so that "
            "the feed-forward term is zero).",
            metavar="N",
        ),
    ] = None,
    norm: Annotated[
        str,
        typer.Option(
            help="How the error is measured. mse: E mean_t |H - Ĥ|². l1: E Σ_t |H - Ĥ|, the norm "
            "of Theorem 4.1.",
            metavar="|".join(NORMS),
            autocompletion=words(*NORMS),
        ),
    ] = "mse",
    parameters: Annotated[
        int | None,
        typer.Option(
            help="Also find the best split of this many parameters between m_h and m_ff.",
            metavar="N",
        ),
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Also build the Transformer of the proof for each head size and measure its "
            "error.",
        ),
    ] = False,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bound the error of the best Transformer on a target, for several head sizes.

    The bound is Theorem 4.1 for a target with F = f = id: as it is proved (an upper bound on the
    error of the Transformer that --compile builds) and as it is printed (Eq. 17). "rank term" is
    the part of the bound as proved that a larger head makes smaller, "feed-forward" the part that
    more hidden units do. In the norm l1 the bound is their sum; in mse its root is the sum of their
    roots.
    """
    check_plot(plot)
    sizes = _sizes(m_h)
    chosen = require_norm("norm", norm)
    target = _target(expression, alpha, rank, length, u)
    from attnrate.theory.bound_curve import bound_curve
    from attnrate.theory.bounds import best_split

    split = None if parameters is None else best_split(target, parameters, chosen)
    curve = bound_curve(target, sizes, m_ff, chosen, alpha=alpha, compiled=compiled)
    rows = json_rows(curve.to_frame())
    if plot is not None:
        save(curve.plot(), plot)
    if as_json:
        best = None if split is None else {"m_h": split.m_h, "m_ff": split.m_ff}
        print_json({"target": target.name, "norm": chosen, "bounds": rows, "best_split": best})
        return
    columns = ["m_h", "as proved", "rank term", "feed-forward", "as printed"]
    keys = ("rigorous", "rank_term", "feedforward_term", "printed")
    cells = [[str(row["m_h"]), *(f"{row[key]:.4g}" for key in keys)] for row in rows]
    if compiled:
        columns.append("compiled")
        for line, row in zip(cells, rows, strict=True):
            line.append(f"{row['compiled']:.3g} ± {row['standard_error']:.1g}")
    print_table(columns, cells, f"{target.name}, {chosen}")
    trivial = rows[0]["trivial"]
    if any(row[key] > trivial for row in rows for key in ("rigorous", "printed")):
        print_lines(
            f"A bound above {trivial:.3g} says nothing: every model whose outputs lie in the range "
            "of the target's has a smaller error."
        )
    if split is not None:
        print_lines(f"best split: {split}")


def _target(
    expression: str | None,
    alpha: float | None,
    rank: int | None,
    length: int,
    u: tuple[float, float] | None,
) -> "AttentionTarget":
    """The target that the options describe: that of Fig. 1, or Eq. 8 with the coupling RHO."""
    spectral = alpha is not None and rank is not None
    if expression is not None and spectral and expression.strip().isdigit():
        raise InputError(
            "head sizes have commas between them, no spaces",
            expression,
            "Example: --m-h 1,2,4.",
        )
    if (expression is None) != spectral:
        given = {"RHO": expression, "--alpha": alpha, "--rank": rank}
        named = [f"{name} {value}" for name, value in given.items() if value is not None]
        raise InputError(
            "bound needs either a coupling RHO or both --alpha and --rank",
            " and ".join(named) or "none of them",
            'Example: attnrate bound "exp(-(u-v)**2)" or attnrate bound --alpha 1 --rank 6.',
        )
    name, unused = ("--u", u) if expression is None else ("--rank", rank)
    if unused is not None:
        way_out = {
            "--u": "--u is the interval of RHO; leave it out.",
            "--rank": "--rank goes with --alpha and without RHO; leave it out.",
        }
        raise InputError("the option {value} would do nothing", name, way_out[name])
    if expression is None:
        from attnrate.targets import spectral_target

        assert alpha is not None
        assert rank is not None
        return spectral_target(alpha, rank, length)
    from attnrate.targets import AttentionTarget, UniformInputs, identity
    from attnrate.theory.expression import parse_coupling

    rho = parse_coupling(expression)
    low, high = u or (0.0, 1.0)
    inputs = UniformInputs((low,), (high,))
    return AttentionTarget(identity, identity, rho, length, inputs, name=rho.text)


def _sizes(text: str) -> list[int]:
    """The head sizes of --m-h."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            "--m-h must be whole numbers with commas between them", text, "Example: --m-h 1,2,4"
        ) from None
