"""Models of transformers: from the hub, from safetensors files and from .gguf files.

Nothing of a model's own code is run, transformers prints nothing, and its errors become ours.
"""

import io
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.extras import install_command, is_installed, missing
from attnrate.progress import aside
from attnrate.spectra.batches import first_line
from attnrate.spectra.checkpoint import WITHOUT_RUNNING, Checkpoint
from attnrate.spectra.placement import Placement, own_folder, remove_with, require_computes
from attnrate.spectra.quantised import quantised_by, require_quantised, unpack

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
# heads of a task, which attention does not need; checkpoints often come without them
_UNUSED = re.compile(r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|mask_token)(\.|$)")


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
            f"({_reason(problem)})",
            name,
            "Check the spelling and the network, or pass the path of a local folder.",
        ) from None


def from_safetensors(
    folder: Path, checkpoint: Checkpoint, placement: Placement, head: bool = False
) -> nn.Module:
    """The model of a folder, filled by transformers from its safetensors files.

    With `head` it has the head of its task, and none of the head's tensors may be missing.
    """
    method = quantised_by(checkpoint.config)
    options = placement.options()
    if method is not None:
        require_quantised(method, placement, str(folder))
        options = {"device_map": {"": placement.device}} | options
    if placement.dtype is None:
        _require_own_dtype(checkpoint, placement)
    written = None if placement.offload is None else own_folder(placement.offload, folder.name)
    try:
        with opening(folder) as transformers:
            kind = _class_of(checkpoint, transformers) if head else transformers.AutoModel
            model, found = kind.from_pretrained(
                folder,
                dtype=placement.dtype or "auto",
                use_safetensors=True,
                **({} if head else {"trust_remote_code": False}),
                local_files_only=True,
                output_loading_info=True,
                offload_folder=written,
                **options,
            )
            unpack(model)
        _require_all(found["missing_keys"], folder, head)
    except BaseException:
        if written is not None:
            shutil.rmtree(written, ignore_errors=True)
        raise
    if written is not None:
        remove_with(model, written)
    return cast(nn.Module, model)


def _class_of(checkpoint: Checkpoint, transformers: Any) -> Any:
    """The class of transformers that config.json names; an InputError where there is none."""
    named = checkpoint.config.get("architectures") or [None]
    kind = getattr(transformers, str(named[0]), None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise InputError(
            "config.json names no class of transformers in architectures",
            named,
            "Open the model without its head (head=False).",
        )
    return kind


def _require_own_dtype(checkpoint: Checkpoint, placement: Placement) -> None:
    """Raise an InputError when the device cannot compute in the checkpoint's own number format."""
    own = checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype")
    dtype = getattr(torch, own, None) if isinstance(own, str) else None
    if isinstance(dtype, torch.dtype):
        require_computes(placement.device, dtype)


def from_gguf(file: Path, dtype: torch.dtype) -> nn.Module:
    """Build the model and fill it with the tensors of a .gguf file, unpacked.

    from_pretrained of transformers could do this too, but needs the package accelerate.
    """
    if not is_installed("gguf"):
        raise missing("gguf", "hf", "a .gguf file", str(file))
    with opening(file) as transformers:
        from transformers import modeling_gguf_pytorch_utils
        from transformers.initialization import no_init_weights

        config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
        with no_init_weights():
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        reader: Any = modeling_gguf_pytorch_utils
        read = reader.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)
        lacking = model.load_state_dict(read["tensors"], strict=False).missing_keys
    _require_all(lacking, file)
    return cast(nn.Module, model.base_model)


@contextmanager
def opening(
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
        said = f"{what}, because a package that it needs is not installed ({_reason(problem)})"
        raise InputError(
            said, str(path), f"Install it: {install_command('transformers', 'hf')}"
        ) from None
    except Exception as problem:  # of any kind: KeyError for a model type, RuntimeError for shapes
        said = f"{what} ({type(problem).__name__}: {_reason(problem)})"
        if "offload_folder" in str(problem):  # weights that have to be written anew
            remedy = "Pass offload, a folder, as well."
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


def _require_all(lacking: Any, path: Path, head: bool = False) -> None:
    needed = sorted(name for name in lacking if head or not _UNUSED.search(name))
    require_none(
        f"{len(needed)} tensors of the model are missing from its files",
        needed[:5],
        f"Check that {path.name} holds the weights that its config.json describes.",
    )


def _reason(problem: Exception) -> str:
    return first_line(problem)[:200].rstrip(".")
