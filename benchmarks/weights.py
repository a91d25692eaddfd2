"""Heads as `--weights-only` reads them beside those of the models, of all types of transformers.

    python benchmarks/weights.py [MODEL_TYPE ...]

A model of each type is built with its default settings and without weights (torch's device "meta").
Its attention layers are found by the names of its tensors, their heads by its config.json, and both
are compared with what the attention modules themselves say. No number of heads may be another one;
a layer whose heads are not known is left out, which is counted.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # behind Python's own folders, where profile.py must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import torch

import _report
from attnrate.errors import InputError
from attnrate.spectra.fused import projections_of
from attnrate.spectra.places import find_places, settings_of
from attnrate.spectra.weight_files import WeightFiles

#: What attention modules call their number of heads
_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads")
_SIZES = ("head_dim", "attention_head_size", "head_size")


class Unfilled(WeightFiles):
    """The tensors of a model without numbers: shapes alone."""

    def read(self, name: str, axes: int = 2) -> torch.Tensor:
        """A tensor of that name; an InputError where it has another number of axes."""
        found = self.tensor(name)
        if found.dim() != axes:
            raise InputError(f"{name} has another number of axes", tuple(found.shape))
        return found


def built(kind: str) -> tuple[torch.nn.Module, Unfilled] | None:
    """A model of a type with its default settings; None where it cannot be built from them."""
    import transformers

    try:
        config: Any = transformers.CONFIG_MAPPING[kind]()
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            settings = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except Exception:  # of any kind: no model of this type, a package that is not installed
        return None
    tensors = dict(model.named_parameters())
    return model, Unfilled(kind, frozenset(tensors), settings, tensors.__getitem__, {})


def own_heads(model: torch.nn.Module, layer: str, rows: int) -> int | None:
    """The number of heads that a layer's module says, by itself or by the size of its heads."""
    try:
        module = model.get_submodule(layer)
    except AttributeError:
        return None
    counts = [getattr(module, name, None) for name in _COUNTS]
    sizes = [getattr(module, name, None) for name in _SIZES]
    said = [count for count in counts if isinstance(count, int)]
    said += [rows // size for size in sizes if isinstance(size, int) and size and rows % size == 0]
    return said[0] if said else None


def compare(kind: str, counts: Counter[str]) -> list[str]:
    """Compare all layers of a model; the layers whose heads are wrong."""
    made = built(kind)
    if made is None:
        return []
    model, files = made
    counts["models"] += 1
    try:
        places, _ = find_places(files)
    except InputError:
        return []
    counts["models with attention of known names"] += 1
    wrong, whole = [], True
    for place in places:
        try:
            said = settings_of(place.layer, files.settings)
            query = projections_of(files, place, said, None, None)[0].query
        except InputError:
            counts["layers left out"] += 1
            whole = False
            continue
        own = own_heads(model, place.layer, query.shape[0] * query.shape[1])
        if own is None:
            counts["layers whose module does not say its heads"] += 1
        elif own == len(query):
            counts["layers whose heads are right"] += 1
        else:
            wrong.append(f"{kind} {place.layer}: {len(query)} read, {own} there are")
    counts["models of which all layers are read"] += whole
    return wrong


def main() -> int:
    import transformers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    kinds = parser.parse_args().kinds or list(transformers.CONFIG_MAPPING.keys())
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for kind in kinds:
        wrong += compare(kind, counts)
    for what, count in counts.items():
        print(f"{count:6,}  {what}")
    print("\n".join(wrong))
    met = _report.all_required({"no number of heads is wrong": not wrong})
    _report.machine("torch", "transformers")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
