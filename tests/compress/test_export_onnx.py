"""Cut models as files of ONNX: what onnxruntime computes from them, and what is refused or kept."""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import Small, small, words
from tokenizers import Tokenizer, models

import attnrate as ar
from attnrate.compress import export_onnx, onnx_graph
from attnrate.compress.export_onnx import require_exportable, trials
from attnrate.compress.onnx_graph import axes_of, graph_inputs, resized
from attnrate.compress.result import Compressed
from attnrate.models.multihead import Multihead
from attnrate.spectra.check import output_of

Tensor = torch.Tensor
HERE = Path(__file__).resolve().parents[2]


def compressed(one: Small, sizes: list[int], **more: Any) -> Compressed:
    inputs = {key: torch.cat([value] * 4) for key, value in one.batch.items()}
    return ar.compress(one.model, inputs, sizes=sizes, **more)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compressed, Path]:
    """BERT with a tokenizer, cut to another size in each layer by token ids alone, as ONNX."""
    place = tmp_path_factory.mktemp("onnx")
    small("bert").model.save_pretrained(place / "whole")
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(place / "whole/tokenizer.json"))
    ids = torch.cat([words()["input_ids"]] * 4)
    done = ar.compress(
        ar.load_model(place / "whole"), {"input_ids": ids}, sizes=[5, 3], values=True
    )
    return done, done.save(place / "thin", format="onnx")


def of_one_layer(name: str) -> Small:
    """A small model without its other layers, since torch takes long to follow each."""
    one = small(name)
    above = getattr(one.model, "encoder", one.model)
    last = "layer" if hasattr(above, "layer") else "layers"
    setattr(above, last, getattr(above, last)[:1])
    return one


def run(folder: Path, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What onnxruntime computes from a folder."""
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    found = session.run(None, {name: x.numpy() for name, x in inputs.items()})
    names = [each.name for each in session.get_outputs()]
    return {name: torch.from_numpy(x) for name, x in zip(names, found, strict=True)}


def weights(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a graph's weights."""
    graph = onnx.load(folder / "model.onnx").graph
    return {
        x.name: tuple(x.dims) for x in graph.initializer if x.data_type == onnx.TensorProto.FLOAT
    }


def written(monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]) -> None:
    """Put other files in the place of those that the exporter writes."""
    monkeypatch.setattr(export_onnx, "write_graph", lambda _model, _batch, folder: write(folder))


@pytest.mark.parametrize("lengths", [(9, 4, 6, 2, 9), (1,), (30, 17), (2, 2, 1)])
@pytest.mark.parametrize("left", [False, True])
def test_onnxruntime_computes_the_cut_model_for_any_number_and_length_of_padded_texts(
    lengths: tuple[int, ...], left: bool, text: tuple[Compressed, Path]
) -> None:
    done, folder = text
    batch = words(lengths=lengths)
    if left:
        batch = {name: x.flip(1) for name, x in batch.items()}
    made, seen = run(folder, batch), batch["attention_mask"].bool()
    with torch.no_grad():
        wanted = done.model(**batch)
    assert [*made] == ["last_hidden_state", "pooler_output"]
    hidden = made["last_hidden_state"][seen], wanted.last_hidden_state[seen]
    assert torch.allclose(*hidden, rtol=1e-4, atol=1e-5)
    if not left:  # the pooler reads the first place, which may not be padding
        assert torch.allclose(made["pooler_output"], wanted.pooler_output, rtol=1e-4, atol=1e-5)


def test_the_graph_has_the_sizes_of_each_layer_and_no_other_weights(
    text: tuple[Compressed, Path],
) -> None:
    done, folder = text
    graph = onnx.load(folder / "model.onnx").graph
    shapes = [*weights(folder).values()]
    # three heads of 5, then of 3; queries, keys and values out of 24 features
    assert [shapes.count((24, 3 * size)) for size in (5, 3)] == [3, 3]
    assert [shapes.count((3 * size, 24)) for size in (5, 3)] == [1, 1]
    large = [int(np.prod(shape)) for shape in shapes if int(np.prod(shape)) > 1]
    assert sum(large) == done.parameters
    axes = [[d.dim_param for d in x.type.tensor_type.shape.dim] for x in graph.input]
    assert axes == [["batch", "sequence"]] * 2
    assert {node.op_type for node in graph.node}.isdisjoint({"IsNaN", "Pad"})


def test_the_folder_has_the_tokenizer_and_says_what_was_cut(text: tuple[Compressed, Path]) -> None:
    done, folder = text
    assert {path.name for path in folder.iterdir()} == {
        *("model.onnx", "compressed.json", "config.json", "tokenizer.json"),
    }
    said = json.loads((folder / "compressed.json").read_text())
    assert [(layer["m_h"], layer["size"]) for layer in said["layers"]] == [(8, 5), (8, 3)]
    axes = ["batch", "sequence"]
    assert said["inputs"] == {"input_ids": axes, "attention_mask": axes}
    assert said["report"]["change"] == done.change
    assert said["opened"]["difference"] < 1e-5
    assert [each["input_ids"] for each in said["opened"]["tried"]] == [[2, 11], [3, 7], [1, 17]]
    # nothing of the machine on which it was written
    for path in folder.iterdir():
        for private in (str(HERE), sys.prefix, str(folder.parent), "site-packages"):
            assert private.encode() not in path.read_bytes(), (path.name, private)
    assert [*folder.parent.glob(".attnrate-*")] == []


def test_load_model_says_that_it_is_onnx_and_how_it_is_run(text: tuple[Compressed, Path]) -> None:
    with pytest.raises(ar.InputError, match=r"a file of ONNX.*InferenceSession.*'input_ids'"):
        ar.load_model(text[1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), [("mpnet", True), ("vit", False), ("own-vit", False)])
def test_other_encoders_are_computed_too_and_stay_as_they_are(
    name: str, values: bool, tmp_path: Path
) -> None:
    one = of_one_layer(name)
    done = compressed(one, [5], values=values)
    done.model.train()
    before = {key: x.clone() for key, x in done.model.state_dict().items()}
    config = getattr(done.model, "config", None)
    attends = getattr(config, "_attn_implementation", None)
    folder = done.save(tmp_path / "thin", format="onnx")
    assert all(part.training for part in done.model.modules())
    assert all(torch.equal(x, before[key]) for key, x in done.model.state_dict().items())
    assert getattr(config, "_attn_implementation", None) == attends
    assert all("attend" not in vars(part) for part in done.model.modules())
    done.model.eval()
    inputs = {key: x[[0, 1, 2, 0, 1, 3, 3]] for key, x in one.batch.items()}
    with torch.no_grad():
        wanted = output_of(done.model(**inputs))
    made = output_of(run(folder, inputs))
    kept = inputs["attention_mask"].bool() if "attention_mask" in inputs else slice(None)
    assert torch.allclose(made[kept], wanted[kept], rtol=1e-4, atol=1e-5)
    # keys of 5 are not filled up to the values, which were not cut
    operators = {node.op_type for node in onnx.load(folder / "model.onnx").graph.node}
    assert operators.isdisjoint({"IsNaN", "Pad"})


class Pieces(torch.nn.Module):
    """A module of a user's own, which attends by attnrate's layer."""

    def __init__(self, picky: bool = False) -> None:
        super().__init__()
        self.attention, self.picky = Multihead(12, 2, 6), picky

    def forward(self, x: Tensor) -> Tensor:
        made = self.attention(x)
        return made if not self.picky or float(made.sum()) < 1e9 else -made


X = torch.randn(10, 9, 12, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compressed, Path, Any]:
    """Such a module cut and written, and what torch's exporter has made of it."""
    made: list[Any] = []
    done = ar.compress(Pieces(), X, size=4)
    folder = tmp_path_factory.mktemp("pieces") / "thin"
    real = onnx_graph._program
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_graph, "_program", lambda *given: made.append(real(*given)) or made[0])
        done.save(folder, format="onnx")
    return done, folder, made[0]


def test_a_class_of_the_users_own_is_written_too(pieces: tuple[Compressed, Path, Any]) -> None:
    done, folder, _ = pieces
    with torch.no_grad():
        wanted = done.model(X)
    assert torch.allclose(run(folder, {"x": X})["output"], wanted, rtol=1e-4, atol=1e-6)


def test_large_weights_lie_in_a_file_beside_the_graph(
    pieces: tuple[Compressed, Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, inside, program = pieces
    monkeypatch.setattr(onnx_graph, "_program", lambda *_: program)
    monkeypatch.setattr(onnx_graph, "_LARGE", 100)
    folder = done.save(tmp_path / "thin", format="onnx")
    names = {"model.onnx", "model.onnx.data", "compressed.json"}
    assert {path.name for path in folder.iterdir()} == names
    # biases are so small that they stay in the graph
    matrices = sum(x.nbytes for x in done.model.parameters() if x.dim() == 2)
    assert (folder / "model.onnx.data").stat().st_size == matrices
    assert torch.equal(*(run(each, {"x": X})["output"] for each in (inside, folder)))


@pytest.mark.slow
def test_a_model_that_torch_cannot_follow_leaves_nothing_and_gives_the_reason(
    tmp_path: Path,
) -> None:
    done = ar.compress(Pieces(picky=True), X, size=4)
    with pytest.raises(ar.ExportError, match="cannot write this Pieces as a graph of ONNX"):
        done.save(tmp_path / "thin", format="onnx")
    assert [*tmp_path.iterdir()] == []


def test_a_file_of_another_model_is_kept_apart(
    text: tuple[Compressed, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = (text[1] / "model.onnx").read_bytes()
    written(monkeypatch, lambda folder: (folder / "model.onnx").write_bytes(file))
    other = compressed(small("bert"), [4, 4], values=True)
    with pytest.raises(ar.ExportError, match=r"other outputs, by .* kept in .*thin\.differs"):
        other.save(tmp_path / "thin", format="onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["thin.differs"]
    said = json.loads((tmp_path / "thin.differs" / "compressed.json").read_text())
    assert said["opened"]["difference"] > 1e-4


def test_a_file_that_runs_for_one_number_of_inputs_alone_is_refused(
    text: tuple[Compressed, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, folder = text
    made = onnx.load(folder / "model.onnx")
    for each in made.graph.input:
        each.type.tensor_type.shape.dim[0].dim_value = 2
    written(monkeypatch, lambda fresh: onnx.save(made, fresh / "model.onnx"))
    with pytest.raises(ar.ExportError, match=r"cannot be opened again: .*Got: 3 Expected: 2"):
        done.save(tmp_path / "thin", format="onnx")
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_was_cut_off_is_refused(
    text: tuple[Compressed, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, folder = text
    half = (folder / "model.onnx").read_bytes()[:5000]
    written(monkeypatch, lambda fresh: (fresh / "model.onnx").write_bytes(half))
    with pytest.raises(ar.ExportError, match="cannot be opened again"):
        done.save(tmp_path / "thin", format="onnx")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("large", [2**31, 100])
def test_a_disk_that_fills_leaves_nothing(
    large: int,
    pieces: tuple[Compressed, Path, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, _, program = pieces
    monkeypatch.setattr(onnx_graph, "_program", lambda *_: program)
    monkeypatch.setattr(onnx_graph, "_LARGE", large)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(ar.StoreError, match="could not be written"):
            done.save(tmp_path / "thin", format="onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_package_that_is_missing_is_named_with_the_command(
    package: str,
    text: tuple[Compressed, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = rf"needs the package {package}, .*pip install .*pip install 'attnrate\[onnx\]'"
    with pytest.raises(ar.InputError, match=said):
        text[0].save(tmp_path / "thin", format="onnx")


def test_what_writes_token_by_token_is_refused_with_the_other_formats(tmp_path: Path) -> None:
    done = ar.compress(tiny_llama(torch.float32), {"input_ids": tokens(10, 20)}, size=8)
    said = 'is for encoders, and .LlamaForCausalLM. writes token by token.*in the format "attnrate"'
    with pytest.raises(ar.InputError, match=said):
        done.save(tmp_path / "thin", format="onnx")
    with pytest.raises(ar.InputError, match=r"Seq2Seq. writes token by token"):
        require_exportable(small("own-seq2seq").model)
    with pytest.raises(ar.InputError, match="is for encoders"):  # without its language head, too
        require_exportable(tiny_llama(torch.float32).model)
    assert [*tmp_path.iterdir()] == []


def test_number_formats_that_onnxruntime_lacks_are_refused() -> None:
    with pytest.raises(ar.InputError, match=r"computes in: got 'bfloat16'.*float32"):
        require_exportable(small("bert").model.bfloat16())


def test_a_graph_is_tried_on_padding_another_number_and_other_lengths() -> None:
    model = small("bert").model
    given, padded, single = trials(model, {"input_ids": tokens(2, 9) % 50})
    assert {x.shape for x in given.values()} == {(2, 9)}
    assert given["attention_mask"].all()
    assert {x.shape for x in padded.values()} == {(3, 6)}
    assert padded["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6, [1] * 6]
    assert padded["input_ids"][0, 3:].tolist() == [model.config.pad_token_id] * 3
    assert {x.shape for x in single.values()} == {(1, 14)}
    most = model.config.max_position_embeddings
    assert trials(model, {"input_ids": torch.ones(1, most).long()})[2]["input_ids"].shape == (
        1,
        most,
    )


def test_only_numbers_of_inputs_and_tokens_may_change() -> None:
    ids = torch.ones(3, 5).long()
    named = {"input_ids": ids, "position_ids": ids[:1], "scores": torch.ones(3, 5)}
    axes = {0: "batch", 1: "sequence"}
    assert axes_of(named) == {
        "input_ids": axes,
        "position_ids": {1: "sequence"},
        "scores": {0: "batch"},
    }
    assert axes_of({"x": ids}) == {"x": axes}
    assert axes_of({"x": ids.float()}) == {"x": {0: "batch"}}
    longer = resized(named, 4, 7)
    assert [tuple(x.shape) for x in longer.values()] == [(4, 7), (1, 7), (4, 5)]


def test_a_mask_of_pairs_of_tokens_has_no_place_in_a_graph() -> None:
    one = small("bert")
    mask = torch.ones(4, 1, 11, 11)
    with pytest.raises(ar.InputError, match=r"attention_mask of a graph.*\(4, 1, 11, 11\)"):
        graph_inputs(one.model, {**one.batch, "attention_mask": mask})
