"""A model from a folder or a hub, ready to be run: whole, finite, and without code of its own."""

import io
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.spectra.batches import first_line, longest, not_finite
from attnrate.spectra.checkpoint import gguf_file, local_folder, open_checkpoint
from attnrate.training.kept import holds_model, read_model

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# heads of a task that attention does not pass through; checkpoints often come without them
_UNUSED = re.compile(r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|mask_token)(\.|$)")
_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tekken.json"),
)
_NO_TOKENIZER = "Put its tokenizer.json there, or pass token ids in an .npz file."
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


@dataclass(frozen=True)
class Loaded:
    """A model with what its inputs are made by.

    `longest` is how many tokens it can take, None if there is no limit of that kind.
    """

    model: nn.Module = field(repr=False)
    name: str
    folder: Path
    longest: int | None
    gguf: str | None = None

    def tokenizer(self) -> Any:
        """The tokenizer of the folder, or an InputError when it has none."""
        asked = {} if self.gguf is None else {"gguf_file": self.gguf}
        # without these files transformers makes an empty tokenizer for some families
        held = [name for name in _TOKENIZERS if (self.folder / name).is_file()]
        if not held and self.gguf is None:
            raise InputError("the model's folder has no tokenizer", str(self.folder), _NO_TOKENIZER)
        what = "the model's folder has no tokenizer that can be used"
        with _opening(self.folder, what, _NO_TOKENIZER) as transformers:
            return transformers.AutoTokenizer.from_pretrained(
                self.folder, trust_remote_code=False, local_files_only=True, **asked
            )


def load(source: object) -> Loaded:
    """Open a model: a folder with config.json and safetensors, one with a .gguf, or a hub id.

    A folder of `train` is one, too.

    The model comes without the head of its task, in float32, in eval mode, on the CPU. Pickled
    checkpoints and models with code of their own are refused; so are tensors that are missing
    (transformers would fill them with random numbers) or not finite.
    """
    folder = local_folder(source)
    name = str(source) if folder is None else folder.resolve().name
    if folder is None:
        folder = _from_hub(str(source))
    quantised = gguf_file(source, folder)
    if holds_model(folder):
        model = read_model(folder)
    elif quantised is None:
        open_checkpoint(folder)
        model = _from_safetensors(folder)
    else:
        model = _from_gguf(quantised)
    bad = not_finite(model)
    said = f"{len(bad)} tensors of the model hold nan or inf"
    require_none(said, bad[:5], "Train or download the model again.")
    gguf = None if quantised is None else quantised.name
    return Loaded(model.float().eval(), name, folder, longest_of(model), gguf)


def _from_safetensors(folder: Path) -> nn.Module:
    with _opening(folder) as transformers:
        model, found = transformers.AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    _require_all(found["missing_keys"], folder)
    return cast(nn.Module, model)


def _from_gguf(file: Path) -> nn.Module:
    """Built and filled here: from_pretrained would want accelerate for the same thing."""
    with _opening(file) as transformers:
        from transformers import modeling_gguf_pytorch_utils
        from transformers.initialization import no_init_weights

        config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
        with no_init_weights():
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        reader: Any = modeling_gguf_pytorch_utils
        read = reader.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)
        missing = model.load_state_dict(read["tensors"], strict=False).missing_keys
    _require_all(missing, file)
    return cast(nn.Module, model.base_model)


def _from_hub(name: str) -> Path:
    if not _HUB_NAME.fullmatch(name):
        raise InputError("there is no such folder", name, "Pass the path of a model's folder.")
    _transformers()
    from huggingface_hub import snapshot_download

    try:
        # the hub's own bars are welcome on a terminal: a download can be long
        hush = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
        with hush, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Path(
                snapshot_download(
                    name, allow_patterns=list(_HUB_FILES), ignore_patterns=["*/*", "consolidated*"]
                )
            )
    except Exception as problem:  # the hub's client has many kinds, and those of its own client
        raise InputError(
            f"there is no such folder, and the hub did not give a model of that name "
            f"({_said(problem)})",
            name,
            "Check the spelling and the network, or pass the path of a local folder.",
        ) from None


@contextmanager
def _opening(
    path: Path,
    what: str = "transformers cannot open the model",
    remedy: str = "Check config.json against the weights, or profile a live torch.nn.Module.",
) -> Iterator[Any]:
    """The library without its bars, notes and warnings; what it raises becomes an InputError."""
    transformers = _transformers()
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield transformers
    except (InputError, MemoryError):
        raise
    except Exception as problem:  # of any kind: KeyError for a model type, RuntimeError for shapes
        said = f"{what} ({type(problem).__name__}: {_said(problem)})"
        raise InputError(said, str(path), remedy) from None
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise InputError(
            "transformers is needed to open a model", "transformers", 'Install "attnrate[hf]".'
        ) from None
    return transformers


def _require_all(missing: Any, path: Path) -> None:
    needed = sorted(name for name in missing if not _UNUSED.search(name))
    require_none(
        f"{len(needed)} tensors of the model are missing from its files",
        needed[:5],
        f"Check that {path.name} holds the weights that its config.json describes.",
    )


def longest_of(model: nn.Module) -> int | None:
    """How many tokens: as many as learned positions, else what the settings say."""
    learned = longest(model)
    config: Any = getattr(model, "config", None)
    if learned is not None or config is None:
        return learned
    text = config.get_text_config(decoder=True)
    for key in ("max_position_embeddings", "max_target_positions", "n_positions"):
        value = getattr(text, key, None)
        if isinstance(value, int):
            return value
    return None


def _said(problem: Exception) -> str:
    return first_line(problem)[:200].rstrip(".")
