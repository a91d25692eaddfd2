"""Quantised checkpoints: what their config.json asks of this machine, said before they are read."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from attnrate.errors import InputError
from attnrate.extras import is_installed
from attnrate.spectra.placement import Placement

#: The packages with which transformers opens checkpoints, by the method in their config.json: as
#: pip knows them, and as they are imported
_PACKAGES = {
    "compressed-tensors": ("compressed-tensors", "compressed_tensors"),
    "bitsandbytes": ("bitsandbytes", "bitsandbytes"),
    "gptq": ("gptqmodel", "gptqmodel"),
    "awq": ("gptqmodel", "gptqmodel"),
    "auto-round": ("auto-round", "auto_round"),
    "hqq": ("hqq", "hqq"),
    "quanto": ("optimum-quanto", "optimum.quanto"),
    "torchao": ("torchao", "torchao"),
    "aqlm": ("aqlm", "aqlm"),
    "vptq": ("vptq", "vptq"),
}
_ON_GPU = ("bitsandbytes",)


def quantised_by(config: Mapping[str, Any]) -> str | None:
    """The method by which a checkpoint was quantised, as its config.json has it; None for none."""
    found = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(found, Mapping):
        return None
    if found.get("load_in_8bit") or found.get("load_in_4bit"):
        return "bitsandbytes"  # whose earliest checkpoints do not name the method
    return str(found.get("quant_method", "a method without a name"))


def require_quantised(method: str, placement: Placement, path: str) -> None:
    """Raise an InputError when a quantised checkpoint cannot be opened in that place here."""
    if placement.offload is not None:
        raise InputError(
            f"a checkpoint that was quantised by {method} is opened in memory as a whole, so it "
            "does not go with offload",
            path,
            "Leave out offload, or take the model before it was quantised.",
        )
    if method in _ON_GPU and placement.device.type != "cuda":
        raise InputError(
            f"a checkpoint that was quantised by {method} needs a GPU, and this was to be opened "
            f"on the device {str(placement.device)!r}",
            path,
            "Pass device=cuda on a machine with a GPU, or take the model before it was quantised.",
        )
    package, module = _PACKAGES.get(method, (None, ""))
    if package is not None and not _is_there(module):
        raise InputError(
            f"a checkpoint that was quantised by {method} needs {package}, which is not installed",
            path,
            f"Install it: pip install {package}",
        )


def unpack(model: nn.Module) -> None:
    """Unpack the weights of a model of compressed-tensors; any other model is left as it is.

    The model would do it by itself when it first runs, with a progress bar.
    """
    quantiser: Any = getattr(model, "hf_quantizer", None)
    compressor = getattr(quantiser, "compressor", None)
    if compressor is not None and quantiser.quantization_config.is_quantization_compressed:
        compressor.decompress_model(model)


def _is_there(module: str) -> bool:
    """Whether a module can be imported, also one of a package that is not installed."""
    try:
        return is_installed(module)
    except ModuleNotFoundError:  # the package that `optimum.quanto` is in
        return False
