"""Opening a trained model from a folder or a hub: whole, finite, and without code of its own."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.extras import install_command, is_installed, missing
from attnrate.progress import QUIET, Progress, aside
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.spectra.batches import first_line, longest, not_finite, require_module
from attnrate.spectra.checkpoint import (
    WITHOUT_RUNNING,
    gguf_file,
    local_folder,
    open_checkpoint,
    require_source,
)
from attnrate.training.checkpoint import holds_model, read_model

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# heads of a task, which attention does not need; checkpoints often come without them
_UNUSED = re.compile(r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|mask_token)(\.|$)")
_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tekken.json"),
)
_NO_TOKENIZER = "Put its tokenizer.json there, or pass token ids in an .npz file."
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


@dataclass(frozen=True, repr=False)
class LoadedModel(Shown):
    """A model opened from files, with what is needed to make inputs for it.

    Attributes:
        model: The torch module: without the head of its task, in float32, in evaluation mode, on
            the CPU.
        name: The name of its folder, or its id on the hub.
        folder: The folder with its files.
        longest: The largest number of tokens that it takes; None if there is no such limit.
        gguf: The name of its .gguf file; None if its weights are in safetensors files.

    Examples:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=50)).save_pretrained("tiny-bert")
        >>> loaded = ar.load_model("tiny-bert")
        >>> loaded
        tiny-bert: BertModel with ... parameters, from tiny-bert, at most 512 tokens

    """

    model: nn.Module
    name: str
    folder: Path
    longest: int | None
    gguf: str | None = None

    def __str__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        kind = type(self.model).__name__
        most = "" if self.longest is None else f", at most {self.longest:,} tokens"
        return f"{self.name}: {kind} with {count:,} parameters, from {self.folder}{most}"

    def tokenizer(self) -> Any:
        """The tokenizer of the model's folder.

        Returns:
            A tokenizer of transformers.

        Raises:
            InputError: The folder has no tokenizer, or none that transformers can open.

        """
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


ModelLike: TypeAlias = nn.Module | LoadedModel


def module_of(model: ModelLike) -> nn.Module:
    """The torch module of a model, whether it was opened by `load_model` or made by the user."""
    return model.model if isinstance(model, LoadedModel) else model


def require_model(name: str, value: object) -> ModelLike:
    """`value` itself, or an InputError when it is neither a torch module nor an opened model."""
    return value if isinstance(value, LoadedModel) else require_module(value)


@checked
def load_model(source: Annotated[str | os.PathLike[str], by(require_source)]) -> LoadedModel:
    """Open a trained model from a folder or from the Hugging Face hub.

    The folder has config.json and safetensors files, or one .gguf file, or it is a folder of
    `train`. All but the last need the package transformers. Nothing of the model's own code is
    run: pickled checkpoints and models that bring code are refused. So are models with tensors that
    are missing, which transformers would fill with random numbers, or not finite.

    Args:
        source: The path of the folder or of a weights file in it, or the id of a model on the hub,
            such as "sentence-transformers/all-MiniLM-L6-v2".

    Returns:
        The model with its name, its folder and its tokenizer, for `profile` and `read_text`.

    Raises:
        InputError: There is no such model, it is not whole, or it cannot be opened safely.

    Examples:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=50)).save_pretrained("tiny-bert")
        >>> ar.load_model("tiny-bert").longest
        512

    """
    folder = local_folder(source)
    name = str(source) if folder is None else folder.resolve().name
    with Progress(f"opening {name}", after=QUIET):
        if folder is None:
            folder = from_hub(str(source))
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
    return LoadedModel(model.float().eval(), name, folder, longest_of(model), gguf)


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
    """Build the model and fill it with the tensors of a .gguf file.

    from_pretrained of transformers could do this too, but needs the package accelerate.
    """
    if not is_installed("gguf"):
        raise missing("gguf", "hf", "a .gguf file", str(file))
    with _opening(file) as transformers:
        from transformers import modeling_gguf_pytorch_utils
        from transformers.initialization import no_init_weights

        config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
        with no_init_weights():
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        reader: Any = modeling_gguf_pytorch_utils
        read = reader.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)
        lacking = model.load_state_dict(read["tensors"], strict=False).missing_keys
    _require_all(lacking, file)
    return cast(nn.Module, model.base_model)


def from_hub(name: str) -> Path:
    """Download a model from the Hugging Face hub, or find it where it was downloaded before.

    An InputError says that there is no such model, or why the hub cannot be reached.
    """
    if not _HUB_NAME.fullmatch(name):
        raise InputError("there is no such folder", name, "Pass the path of a model's folder.")
    _transformers()
    from huggingface_hub import snapshot_download

    try:
        # on a terminal the hub's own progress bars are shown: a download can be long
        hush = aside() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
        with hush, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Path(
                snapshot_download(
                    name, allow_patterns=list(_HUB_FILES), ignore_patterns=["*/*", "consolidated*"]
                )
            )
    except Exception as problem:  # the client raises errors of many kinds
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
    remedy: str = "Check config.json against the weights, or profile a live torch.nn.Module. "
    + WITHOUT_RUNNING,
) -> Iterator[Any]:
    """transformers without its progress bars, notes and warnings; its errors become InputErrors.

    Args:
        path: The file or folder that is opened.
        what: What the InputError says first.
        remedy: What the InputError advises.

    Yields:
        The package transformers.

    """
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
    except ImportError as problem:
        said = f"{what}, because a package that it needs is not installed ({_said(problem)})"
        raise InputError(
            said, str(path), f"Install it: {install_command('transformers', 'hf')}"
        ) from None
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
        raise missing("transformers", "hf", "opening a model", "transformers") from None
    return transformers


def _require_all(lacking: Any, path: Path) -> None:
    needed = sorted(name for name in lacking if not _UNUSED.search(name))
    require_none(
        f"{len(needed)} tensors of the model are missing from its files",
        needed[:5],
        f"Check that {path.name} holds the weights that its config.json describes.",
    )


def longest_of(model: nn.Module) -> int | None:
    """The largest number of tokens that a model takes, or None if there is no limit.

    It is the number of learned positions, or else what the model's config says.
    """
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
