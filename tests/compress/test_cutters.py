"""Thin layers that are tried: what they change is what a model cut by itself changes."""

from typing import Any

import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import small

from attnrate.compress.cutters import ContentCutter, RotaryCutter, changes
from attnrate.compress.rotary_run import cut_rotary
from attnrate.compress.run import cut
from attnrate.progress import Progress

Tensor = torch.Tensor
IDS = {"input_ids": tokens(6, 14)}
LLAMA = [f"model.layers.{i}.self_attn" for i in range(2)]


def output(model: Any, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        made = model(**batch)
    whole = made if isinstance(made, Tensor) else made[0]
    kept = batch.get("attention_mask")
    return whole if kept is None else whole[kept.bool()]


def relative(made: Tensor, whole: Tensor) -> float:
    return float((made - whole).double().norm() / whole.double().norm())


@pytest.mark.parametrize("name", ["bert", "mpnet", "vit", "own-vit", "own-seq2seq"])
@pytest.mark.parametrize("values", [False, True])
def test_all_layers_at_once_change_what_the_cut_model_changes(name: str, values: bool) -> None:
    given = small(name)
    cutter = ContentCutter.of(given.model, [given.batch], values)
    sizes = {layer: 3 + number for number, layer in enumerate(cutter.known.found.projections)}
    sizes = {layer: min(size, 5) for layer, size in sizes.items()}
    whole = output(given.model, given.batch)
    ways = {"it": lambda: cutter.together(sizes)}
    found = changes(given.model, [given.batch], ways, Progress(), "")["it"]
    made = cut(given.model, [given.batch], sizes, sizes if values else None).model
    assert found == pytest.approx(relative(output(made, given.batch), whole), rel=1e-3)
    # the model is whole again
    assert torch.equal(output(given.model, given.batch), whole)


def test_a_layer_alone_is_cut_while_the_others_are_whole() -> None:
    given = small("bert")
    halves = [{k: v[part] for k, v in given.batch.items()} for part in (slice(2), slice(2, 4))]
    cutter = ContentCutter.of(given.model, halves, False)
    one, two = cutter.known.found.projections
    ways = {name: (lambda name=name: cutter.alone(name, 3)) for name in (one, two)}
    found = changes(given.model, halves, ways, Progress(), "")
    whole = torch.cat([output(given.model, half) for half in halves])
    for name, way in ways.items():
        cuts = way()
        model = small("bert").model
        for path, part in cuts.items():
            above, _, last = path.rpartition(".")
            setattr(model.get_submodule(above), last, part)
        made = torch.cat([output(model, half) for half in halves])
        assert found[name] == pytest.approx(relative(made, whole), rel=1e-4)
    assert found[one] != pytest.approx(found[two], rel=1e-2)


@pytest.mark.parametrize("shared", ["head", "layer", "model"])
@pytest.mark.parametrize("values", [False, True])
def test_a_rotary_decoder_loses_the_pairs_that_its_cut_loses(shared: Any, values: bool) -> None:
    model = tiny_llama(torch.float32)
    cutter = RotaryCutter.of(model, [IDS], values, shared)
    own = (8, 8) if shared == "model" else (8, 4)
    sizes = dict(zip(LLAMA, own, strict=True))
    whole = output(model, IDS)
    ways = {"it": lambda: cutter.together(sizes)}
    found = changes(model, [IDS], ways, Progress(), "")["it"]
    made = cut_rotary(model, [IDS], sizes, sizes if values else {}, shared).model
    assert found == pytest.approx(relative(output(made, IDS), whole), rel=1e-4)
    assert torch.equal(output(model, IDS), whole)


def test_a_rotary_layer_of_its_whole_size_changes_nothing() -> None:
    model = tiny_llama(torch.float32)
    cutter = RotaryCutter.of(model, [IDS], True, "head")
    found = changes(model, [IDS], {0: lambda: cutter.alone(LLAMA[0], 12)}, Progress(), "")
    assert found[0] < 1e-5
