"""A first example: a spectrum, a bound, a compiled Transformer, and one figure (demo.png)."""

import numpy as np
from matplotlib.figure import Figure

import attnrate as ar


def rho(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 1 + 2 * np.sin(2 * np.pi * u) * np.sin(2 * np.pi * (u + v))


def spectra() -> None:
    print("1. The spectrum of a coupling (App. D.3: the paper estimates 1.265, 0.5, 0.4)")
    print(ar.pod(rho, (0, 1)))
    print("   What softmax cannot see is left out with gauge='softmax':")
    print(ar.pod(rho, (0, 1), gauge="softmax"))


def heads(sizes: range) -> dict[str, list[float]]:
    """Error of the compiled Transformer and the bound, for Fig. 1's target with alpha=1, r=6."""
    target = ar.spectral_target(alpha=1.0, rank=6)
    curves: dict[str, list[float]] = {"proved": [], "exact": [], "networks": []}
    for m_h in sizes:
        curves["proved"].append(ar.jackson_bound(target, m_h).value)
        curves["exact"].append(ar.error_of(ar.compile_target(target, m_h), target).value)
        curves["networks"].append(ar.error_of(ar.compile_target(target, m_h, 128), target).value)
    return curves


def draw(sizes: range, curves: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    floor = 1e-9  # an error of rounding size is drawn at the bottom of the figure
    styles = {
        "proved": ("bound, as proved (exact bases)", "--", 1.2),
        "networks": ("compiled, 128 ReLU units", "s-", 1.2),
        "exact": ("compiled, exact bases (rounding from m_h = 6 on)", "o-", 2.0),
    }
    for name, (label, style, width) in styles.items():
        shown = np.maximum(curves[name], floor)
        colour = {"exact": "#1b4965", "networks": "#ca6702"}.get(name, "0.35")
        axes.semilogy(sizes, shown, style, lw=width, ms=5, color=colour, label=label)
    axes.axvline(6, color="0.75", lw=1, zorder=0)
    axes.text(6.05, 3e-3, "rank of the target", rotation=90, color="0.45", va="center")
    axes.set_xlabel("head size m_h")
    axes.set_ylabel("mean squared error")
    axes.set_ylim(bottom=floor / 3)
    axes.set_title("How large attention has to be: σₖ = 1/k, rank 6, τ = 16", fontsize=11)
    axes.legend(frameon=False)
    return figure


def main() -> None:
    spectra()
    sizes = range(1, 9)
    print("\n2. Theorem 4.1 and the Transformer of its proof (Fig. 1: sigma_k = 1/k, rank 6)")
    curves = heads(sizes)
    print("   m_h   bound, mse   compiled, exact bases   compiled, 128 units")
    for i, m_h in enumerate(sizes):
        row = f"{curves['proved'][i]:10.3g}   {curves['exact'][i]:21.3g}"
        print(f"   {m_h:3d}   {row}   {curves['networks'][i]:19.3g}")
    draw(sizes, curves).savefig("demo.png", dpi=150)
    print("\ndrew demo.png")


if __name__ == "__main__":
    main()
