"""Cutting the keys of a rotary decoder: perplexity beside rivals, and files of stock Llama.

    python benchmarks/compress_rotary.py [--work FOLDER] [--quick] [--out FILE]

SmolLM2-135M (30 layers x 9 heads x 64, 3 key heads; its weights were rounded to 4 bits) on
held-out text of Wikipedia. All cuts see the same calibration text. Rivals are written from their
formulas: pairs by norm (MHA2MLA's rule: the mean of |q_j| times that of |k_j|, summed over the
query heads of the group) and PCA across key heads (of each frequency: keys of all heads of a layer
are turned into their principal components, which commutes with the rotation, and as many components
are kept as the cut has pairs, the largest of the layer). Everything measured is kept in FOLDER, so
that a run that was stopped goes on where it was; FILE gets it as JSON at the end.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where profile.py of this folder would stand for the module
    sys.path.append(sys.path.pop(0))

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

import _report
from attnrate.compress.export_llama import export_llama
from attnrate.compress.modules.llama import replaced, thinned
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.rotary import PairCut, RotaryMaps, cut_pairs, with_pairs
from attnrate.compress.rotary_moments import Felt, felt
from attnrate.compress.rotary_repair import Example, examples, repair
from attnrate.compress.rotary_values import ValueCut, cut_values
from attnrate.data.text import sample_text
from attnrate.data.weights import model_weights
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.estimate import Gram
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
CALIBRATION, HELD_OUT = (24, 256), (16, 512)
STEPS = 200
AT_ONCE = 4  # inputs in a batch
SECONDS = "seconds"  # the name of the times among the results


@dataclass(frozen=True)
class Seen:
    """What the calibration text showed of a layer."""

    felt: Felt
    norms: Tensor  # (groups, pairs): by MHA2MLA's rule
    across: Tensor  # (pairs, groups, groups): second moments of keys across key heads


def open_model(work: Path) -> tuple[nn.Module, Any]:
    """SmolLM2 in float32 with its language head, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    folder = work / "smollm2"
    if not folder.exists():
        source = model_weights("smollm2")
        file = next(source.glob("*.gguf")).name
        opened = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
        config = opened.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        plain = LlamaForCausalLM(config)
        plain.load_state_dict(opened.state_dict())
        AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(folder)
        plain.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def pieces(tokenizer: Any, start: float, stop: float, count: int, length: int) -> Tensor:
    """Pieces of running text, begun at paragraphs spread evenly over a part of it."""
    text = sample_text().read_text(encoding="utf-8")
    found = []
    for i in range(count):
        at = text.index("\n", int(len(text) * (start + (stop - start) * i / count))) + 1
        ids = tokenizer(text[at : at + 12 * length], return_tensors="pt").input_ids
        found.append(ids[0, :length])
    return torch.stack(found)


def batches(ids: Tensor) -> list[dict[str, Tensor]]:
    return [{"input_ids": ids[i : i + AT_ONCE]} for i in range(0, len(ids), AT_ONCE)]


def look(model: nn.Module, ids: Tensor, file: Path) -> dict[str, Seen]:
    """What the calibration text shows of every layer, from a file if it was looked at before."""
    if not file.exists():
        sums: dict[str, list[Any]] = {}

        def see(site: Site, call: Call) -> None:
            new = [felt(call, (None, None), site.module.o_proj.weight), *_rivals(call)]  # type: ignore
            known = sums.get(site.name)
            sums[site.name] = (
                new
                if known is None
                else [known[0].joined(new[0]), known[1] + new[1], known[2] + new[2]]
            )

        watcher = Watcher(model)
        for number, batch in enumerate(batches(ids), start=1):
            start = time.perf_counter()
            watcher.see(batch, see)
            print(f"  moments of batch {number}: {time.perf_counter() - start:.0f} s", flush=True)
        torch.save({name: _plain(*each) for name, each in sums.items()}, file)
    kept = torch.load(file, weights_only=True)
    return {
        name: Seen(
            Felt(x["weights"], x["outputs"], Gram(*x["attended"]), x["groups"], x["queries"]),
            x["norms"],
            x["across"],
        )
        for name, x in kept.items()
    }


def _rivals(call: Call) -> tuple[Tensor, Tensor]:
    query, key = call.query.detach().double(), call.key.detach().double()
    groups, half = key.shape[1], key.shape[-1] // 2

    def size(x: Tensor) -> Tensor:
        return x.unflatten(-1, (2, half)).square().sum(-2).sqrt().mean((0, 2))

    parts = key.unflatten(-1, (2, half))
    of_group = size(query).unflatten(0, (groups, -1)).sum(1)
    return of_group * size(key), torch.einsum("igtpj,ihtpj->jgh", parts, parts)


def _plain(one: Felt, norms: Tensor, across: Tensor) -> dict[str, Any]:
    moments = one.attended
    return {
        "weights": one.weights,
        "outputs": one.outputs,
        "attended": (moments.spread, moments.mean, moments.count),
        "groups": one.groups,
        "queries": one.queries,
        "norms": norms,
        "across": across,
    }


def perplexity(model: nn.Module, ids: Tensor) -> float:
    with torch.no_grad():
        losses = [float(model(input_ids=one[None], labels=one[None]).loss) for one in ids]
    return math.exp(sum(losses) / len(losses))


Cut = PairCut | RotaryMaps


def thin(
    model: nn.Module, pairs: Mapping[str, Cut], values: Mapping[str, ValueCut] | None = None
) -> dict[str, nn.Module]:
    return {
        name: thinned(part, pairs[name], values and values[name])
        for name, part in attention_layers(model).items()
    }


def by_norm(seen: Mapping[str, Seen], count: int) -> dict[str, PairCut]:
    made = {}
    for name, one in seen.items():
        pairs = one.norms.topk(count, -1).indices.sort(-1).values
        made[name] = with_pairs(one.felt.weights, pairs, refit=False)
    return made


def across_heads(model: nn.Module, seen: Mapping[str, Seen], count: int) -> dict[str, Tensor]:
    """W_K of each layer with its keys projected onto their principal components across heads."""
    made = {}
    for name, layer in attention_layers(model).items():
        weight = layer.k_proj.weight.detach()  # type: ignore[union-attr]
        groups = seen[name].felt.groups
        value, vector = torch.linalg.eigh(seen[name].across)
        least = value.flatten().topk(groups * count).values.min()
        keep = (value >= least).double()
        P = (vector * keep[:, None, :]) @ vector.mT
        parts = weight.double().reshape(groups, 2, len(P), -1)
        made[name] = torch.einsum("jgh,hpjd->gpjd", P, parts).reshape(weight.shape).float()
    return made


def gammas(seen: Mapping[str, Seen], kind: str = "weights") -> dict[str, Tensor]:
    return {name: getattr(one.felt, kind) for name, one in seen.items()}


def ours(seen: Mapping[str, Seen], size: int, kind: str = "weights", **more: Any) -> dict[str, Any]:
    return cut_pairs(gammas(seen, kind), {n: x.felt.groups for n, x in seen.items()}, size, **more)


class Repairs:
    """The maps of all layers after repair, each kept in a file of its own."""

    def __init__(self, model: nn.Module, ids: Tensor, work: Path) -> None:
        self.model, self.ids, self.work = model, ids, work
        self.given: dict[str, list[Example]] = {}

    def of(self, cuts: Mapping[str, PairCut], what: str) -> dict[str, RotaryMaps]:
        folder = self.work / f"repair-{what}"
        folder.mkdir(exist_ok=True)
        missing = [name for name in cuts if not (folder / name).exists()]
        if missing and not self.given:
            self.given = examples(Watcher(self.model), batches(self.ids), cuts)
        for name in missing:
            begun = time.perf_counter()
            generator = torch.Generator().manual_seed(0)
            layer = self.model.get_submodule(name)
            done = repair(layer, cuts[name], self.given[name], generator, STEPS)
            facts = (time.perf_counter() - begun, done.before, done.after)
            maps = (done.maps.pairs, done.maps.queries, done.maps.keys)
            torch.save({"maps": maps, "facts": facts}, folder / name)
            print("  {}: {:.0f} s, {:.3f} to {:.3f}".format(name, *facts), flush=True)
        kept = {name: torch.load(folder / name, weights_only=True) for name in cuts}
        slowest = max(x["facts"][0] for x in kept.values())
        print(f"  repair ({what}): at most {slowest:.0f} s a layer", flush=True)
        return {name: RotaryMaps(*x["maps"]) for name, x in kept.items()}


class Results:
    """Perplexities by names, each measured once and kept in a file with the seconds it took."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        if name not in self.kept:
            start = time.perf_counter()
            self.kept[name] = measure()
            seconds = time.perf_counter() - start
            self.kept.setdefault(SECONDS, {})[name] = round(seconds, 1)
            self.file.write_text(json.dumps(self.kept, indent=1))
            print(f"{name}: {self.kept[name]} ({seconds:.0f} s)", flush=True)
        return self.kept[name]

    def seconds(self, name: str) -> float | None:
        """How long a measurement took, without what was in the folder already; None if unknown."""
        found: float | None = self.kept.get(SECONDS, {}).get(name)
        return found


@dataclass(frozen=True)
class Row:
    """A cut and what became of the perplexity.

    Attributes:
        kept: The pairs that are kept, of `pairs`.
        value_size: The size of values.
        way: The way of the cut.
        perplexity: The perplexity after it.
        growth: The growth of the perplexity, as a share of that of the whole model.
        seconds: How long it took to measure, with its repair; None if that is not known.

    """

    kept: int
    way: str
    perplexity: float
    growth: float
    seconds: float | None
    pairs: int = 32
    value_size: int = 64
    model: str = "smollm2"


def stock(
    model: nn.Module,
    seen: Mapping[str, Seen],
    maps: Mapping[str, Cut],
    held_out: Tensor,
    work: Path,
) -> dict[str, float]:
    """Keys and values to 48 as stock Llama: perplexity, difference of logits and cache."""
    values = {
        name: cut_values(
            seen[name].felt.attended,
            part.o_proj.weight,  # type: ignore[union-attr]
            seen[name].felt.groups,
            48,
        )
        for name, part in attention_layers(model).items()
    }
    with torch.no_grad():
        layers = model(input_ids=held_out[:1], use_cache=True).past_key_values.layers
    whole = sum(x.nbytes for layer in layers for x in (layer.keys, layer.values))
    with replaced(model, thin(model, maps, values)), TemporaryDirectory(dir=work) as folder:
        found = perplexity(model, held_out)
        files = export_llama(model, Path(folder) / "stock", held_out[:1])
    return {
        "perplexity": found,
        "difference": files.difference,
        "cache": files.cache * held_out.shape[1] / whole,
        "parameters": files.parameters,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("compress-rotary"))
    parser.add_argument("--quick", action="store_true", help="half of the held-out text")
    parser.add_argument(
        "--out", type=_report.out_file, help="write what was measured into this file"
    )
    given = parser.parse_args()
    begun = time.perf_counter()
    given.work.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    model, tokenizer = open_model(given.work)
    calibration = pieces(tokenizer, 0.0, 0.5, *CALIBRATION)
    held_out = pieces(tokenizer, 0.5, 1.0, *HELD_OUT)[:: 2 if given.quick else 1]
    seen = look(model, calibration, given.work / "moments.pt")
    results = Results(given.work / ("quick.json" if given.quick else "results.json"))

    def with_layers(made: Callable[[], Mapping[str, Cut]]) -> float:
        with replaced(model, thin(model, made())):
            return perplexity(model, held_out)

    def with_keys(count: int) -> float:
        layers = attention_layers(model)
        before: dict[str, Tensor] = {}
        for name, weight in across_heads(model, seen, count).items():
            before[name] = layers[name].k_proj.weight.data  # type: ignore[union-attr]
            layers[name].k_proj.weight.data = weight  # type: ignore[union-attr]
        found = perplexity(model, held_out)
        for name, weight in before.items():
            layers[name].k_proj.weight.data = weight  # type: ignore[union-attr]
        return found

    whole = results.of("whole", lambda: perplexity(model, held_out))
    repairs = Repairs(model, calibration, given.work)
    ways: dict[str, Callable[[int], float]] = {
        "pairs by norm": lambda c: with_layers(lambda: by_norm(seen, c)),
        "refit": lambda c: with_layers(lambda: ours(seen, 2 * c)),
        "no refit": lambda c: with_layers(lambda: ours(seen, 2 * c, refit=False)),
        "PCA across key heads": with_keys,
        "refit, outputs": lambda c: with_layers(lambda: ours(seen, 2 * c, "outputs")),
    }
    rows = [Row(32, "whole", whole, 0.0, results.seconds("whole"))]

    def row(count: int, way: str, name: str, measure: Callable[[], float]) -> None:
        found = results.of(name, measure)
        rows.append(Row(count, way, found, found / whole - 1, results.seconds(name)))

    def stock_row(way: str, name: str, maps: Callable[[], Mapping[str, Cut]]) -> dict[str, float]:
        one = results.of(name, lambda: stock(model, seen, maps(), held_out, given.work))
        growth = one["perplexity"] / whole - 1
        rows.append(Row(24, way, one["perplexity"], growth, results.seconds(name), value_size=48))
        return dict(one)

    for way, measure in ways.items():
        for count in (24, 16):
            row(count, way, f"{count} of 32, {way}", lambda m=measure, c=count: m(c))
    pairs = ours(seen, 48, shared="model")
    row(24, "one set for all layers", "24 of 32, one set", lambda: with_layers(lambda: pairs))
    as_llama = stock_row("stock Llama", "stock", lambda: pairs)
    for count in (24, 16):
        row(
            count,
            "repair",
            f"{count} of 32, repair",
            lambda c=count: with_layers(lambda: repairs.of(ours(seen, 2 * c), str(c))),
        )
    repaired = stock_row(
        "stock Llama, repaired", "stock, repaired", lambda: repairs.of(pairs, "stock")
    )
    growth = {(each.kept, each.way): each.growth for each in rows}
    print(f"\nperplexity of the whole model: {whole:.2f}; growth of it:")
    for each in rows[1:]:
        values = f", values to {each.value_size} of 64" if each.value_size < 64 else ""
        print(f"  {each.kept} of 32 pairs{values}, {each.way}: {each.growth:+.1%}")
    print(
        f"  parameters as stock Llama: {as_llama['parameters']:,}, "
        f"repaired {repaired['parameters']:,}"
    )
    share = {count: growth[count, "refit"] / growth[count, "pairs by norm"] for count in (24, 16)}
    requirements = {
        f"24 of 32 pairs: growth {share[24]:.2f} of that by norm, at most 0.6": share[24] <= 0.6,
        f"16 of 32 pairs: growth {share[16]:.2f} of that by norm, at most 0.4": share[16] <= 0.4,
        f"24 of 32 pairs, repaired: {growth[24, 'repair']:+.1%}, at most +4 %": (
            growth[24, "repair"] <= 0.04
        ),
        f"16 of 32 pairs, repaired: {growth[16, 'repair']:+.1%}, at most +15 %": (
            growth[16, "repair"] <= 0.15
        ),
        f"stock Llama's cache is {as_llama['cache']:.2f} of the whole one, 0.75": (
            abs(as_llama["cache"] - 0.75) < 1e-6
        ),
        f"its logits differ by {as_llama['difference']:.1e} of their size, at most 1e-4": (
            as_llama["difference"] <= 1e-4
        ),
    }
    met = _report.all_required(requirements)
    facts = _report.machine("torch", "transformers", threads=1)
    if given.out:
        measured = {
            "rows": [asdict(each) for each in rows],
            "texts": {"calibration": list(calibration.shape), "held_out": list(held_out.shape)},
            "stock": {"as it is": as_llama, "repaired": repaired},
        }
        _report.write(given.out, _report.finding(measured, requirements, begun, facts))
    sys.exit(not met)


if __name__ == "__main__":
    main()
