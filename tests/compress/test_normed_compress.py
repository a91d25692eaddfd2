"""The one call over models with QK-norm: what shrinks, what is said, what is refused, and files."""

from pathlib import Path
from typing import Any

import pytest
import torch
from normed_tiny import tiny_normed
from rotary_tiny import tokens
from warm_commands import program

import attnrate as ar
from attnrate.compress import saved
from attnrate.compress.opened import open_folder
from attnrate.compress.result import Compressed
from attnrate.compress.trial import change, outputs

TEXT = {"input_ids": tokens(10, 20)}
ADDED = 2 * (4 + 2) * 12  # 2 layers, 4 query heads and 2 key heads of size 12


def compressed(name: str = "qwen3", **asked: Any) -> tuple[Any, Compressed]:
    model = tiny_normed(name, torch.float32)
    return model, ar.compress(model, TEXT, **asked)


def count(model: Any) -> int:
    return sum(x.numel() for x in model.parameters())


def test_the_cache_shrinks_and_the_weights_of_queries_and_keys_do_not() -> None:
    model, done = compressed(size=9)
    assert done.added == 9 * ADDED == done.parameters - done.parameters_before
    assert (done.parameters_before, done.parameters) == (count(model), count(done.model))
    # 2 key heads, keys of 9 instead of 12 and values of 12, 4 bytes
    assert [(x.bytes_before, x.bytes) for x in done.layers] == [(192, 168)] * 2
    cache = done.model(TEXT["input_ids"], use_cache=True).past_key_values
    row = sum(x[0, :, 0].numel() * 4 for y in cache.layers for x in (y.keys, y.values))
    assert row == done.bytes
    assert done.has_cache
    assert not done.rotary


def test_a_cut_of_the_cache_alone_may_pay_and_is_said_to_be_one() -> None:
    _, done = compressed(size=6, timing=0)  # fewer bytes than the keys of the whole model in 4 bits
    assert done.change < 0.3
    assert done.against is None
    said = str(done)
    assert said.startswith("Qwen3ForCausalLM: queries and keys of 6 dimensions instead of 12")
    assert f"({100 * 6 * ADDED / done.parameters_before:.1f} % more)" in said
    assert "288 bytes per token in the cache instead of 384" in said
    assert "only the cache shrinks, and 864 parameters that project them are added" in said
    assert "cache 25.0 % smaller" in repr(done)


def test_values_are_cut_out_of_the_weights_as_well() -> None:
    _, done = compressed(size=6, values=True)
    # 6 of 12 rows of values and columns of outputs; an output bias is new
    assert done.parameters_before - done.parameters == 2 * (6 * 24 * (2 + 4) - 24) - 6 * ADDED
    assert (done.bytes_before, done.bytes) == (384, 192)


def test_no_cut_and_no_cache_are_no_gain() -> None:
    _, whole = compressed(size=12)
    assert whole.added == 0
    assert whole.change < 1e-6
    assert whole.against == "it saves no parameters"
    _, both = compressed("gemma3", size=9)
    assert both.against != "it saves no parameters"


def test_a_model_that_sees_all_tokens_at_once_has_no_cache_to_shrink() -> None:
    model = tiny_normed("gemma3", torch.float32, use_bidirectional_attention=True)
    done = ar.compress(model.model, TEXT, size=9)
    assert not done.has_cache
    assert done.against == "it saves no parameters"
    assert "there is no cache to shrink" in str(done)
    assert ar.compress(tiny_normed("gemma3", torch.float32).model, TEXT, size=9).has_cache


def test_repair_helps_on_inputs_that_have_no_part_in_it() -> None:
    model = tiny_normed("qwen3", torch.float32)
    # with inputs and steps enough that what is learned holds for others
    inputs = {"input_ids": tokens(60, 20)}
    done = ar.compress(model, inputs, size=6, repair=150)
    assert done.repaired == (150, 0)
    assert done.change < done.change_cut
    assert all(layer.change <= layer.change_cut for layer in done.layers)
    assert any(layer.change < layer.change_cut for layer in done.layers)


def test_all_layers_are_repaired_together_too() -> None:
    _, done = compressed(size=6, together=6)
    assert done.repaired == (0, 6)
    assert done.change != done.change_cut


def test_sizes_are_any_from_one_to_that_of_the_heads() -> None:
    model, done = compressed(sizes=[1, 12])
    assert [x.size for x in done.layers] == [1, 12]
    assert [x.added for x in done.layers] == [ADDED // 2, 0]
    advice = ar.advise(ar.profile(model, TEXT, cut_inputs=2), budget=9)
    applied = advice.apply(model, TEXT)
    assert [x.size for x in applied.layers] == [x.size for x in advice.layers]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"size": 13}, r"have the size 12, and can be cut to a size from 1 to 12: got 13"),
        ({"size": 0}, "size must be a whole number of at least 1"),
        ({"size": 6, "shared": "model"}, r"shared is for rotary heads.*got 'model'.*Leave shared"),
        ({"size": 6, "shared": "layer"}, r"shared is for rotary heads"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ar.InputError, match=said):
        compressed(**asked)


def test_a_layer_that_looks_alike_and_does_more_is_refused() -> None:
    model = tiny_normed("qwen3", torch.float32)
    layer: Any = model.model.layers[0].self_attn
    own = layer.forward

    def doubled(*args: Any, **named: Any) -> Any:
        made = own(*args, **named)
        return 2 * made[0], made[1]

    layer.forward = doubled
    with pytest.raises(ar.InputError, match="changes its output by"):
        ar.compress(model, TEXT, size=9)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open folders again in this process, which needs no seconds."""

    def difference(model: Any, folder: Path, batch: Any) -> float:
        return change(outputs(model, [batch]), outputs(open_folder(folder), [batch]))

    monkeypatch.setattr(saved, "difference", difference)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", ["olmo2", "gemma3", "cohere"])
def test_every_family_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    _, done = compressed(name, sizes=[5, 12], values=True)
    opened = ar.load_model(done.save(tmp_path / "thin")).model
    mine, theirs = opened.state_dict(), done.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    with torch.no_grad():
        made, wanted = (x(**TEXT).logits for x in (opened, done.model))
    assert torch.equal(made, wanted)


@pytest.mark.usefixtures("at_once")
def test_a_folder_writes_the_same_text_in_a_fresh_process(tmp_path: Path) -> None:
    _, done = compressed(size=7, values=True)
    folder = done.save(tmp_path / "thin")
    ids = TEXT["input_ids"][:2, :6]
    (tmp_path / "opens.py").write_text(f"""
import torch
import attnrate as ar
model = ar.load_model({str(folder)!r}).model
print(model.generate(torch.tensor({ids.tolist()}), max_new_tokens=6, do_sample=False).tolist())
""")
    ran = program(tmp_path / "opens.py", models=True)
    assert ran.returncode == 0, ran.stderr
    wanted = done.model.generate(ids, max_new_tokens=6, do_sample=False)
    assert ran.stdout.strip().splitlines()[-1] == str(wanted.tolist())


def test_stock_llama_has_no_place_for_norms(tmp_path: Path) -> None:
    _, done = compressed(size=6, values=True)
    with pytest.raises(ar.InputError, match=r'format="llama" has no norms.*got .Qwen3ForCausalLM'):
        done.save(tmp_path / "thin", format="llama")
    assert [*tmp_path.iterdir()] == []
