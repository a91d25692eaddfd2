"""Images as a vision model takes them: resized, cropped and normalised, without torchvision."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.extras import missing
from attnrate.models.vit import ViT
from attnrate.spectra.checkpoint import read_json
from attnrate.spectra.load import LoadedModel
from attnrate.training.feed import PIXEL_DEVIATION, PIXEL_MEAN

# families that stretch their positions to any image size
_ANY_SIZE = ("dinov2", "dinov2_with_registers")


@dataclass(frozen=True)
class ImageSettings:
    """How an image becomes pixel values.

    Attributes:
        height: The height at the end, in pixels.
        width: The width at the end, in pixels.
        shortest: The length, in pixels, that the shorter side gets before the middle of the image
            is cut out; None stretches the image to `height` x `width` instead.
        resample: The way of resizing, as a number of Pillow.
        factor: What the values 0 to 255 are multiplied by.
        mean: What is subtracted from each channel after that.
        std: What each channel is divided by after that.

    """

    height: int
    width: int
    shortest: int | None
    resample: int
    factor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def pixels(self, path: Path) -> Float[np.ndarray, "3 height width"]:
        """The image in a file as an array that the model takes."""
        from PIL import Image

        with Image.open(path) as opened:
            image = opened.convert("RGB")
        if self.shortest is None:
            image = image.resize((self.width, self.height), self.resample)
        else:
            scale = self.shortest / min(image.size)
            width, height = (max(round(scale * side), 1) for side in image.size)
            image = image.resize((width, height), self.resample)
            left, top = (width - self.width) // 2, (height - self.height) // 2
            image = image.crop((left, top, left + self.width, top + self.height))
        values = np.asarray(image, dtype=np.float64) * self.factor
        values = (values - np.array(self.mean)) / np.array(self.std)
        return np.ascontiguousarray(values.transpose(2, 0, 1), dtype=np.float32)


def image_settings(loaded: LoadedModel) -> ImageSettings:
    """The settings in the model's preprocessor_config.json, or usual ones without that file.

    A ViT of `train` gets the settings that it was trained with.
    """
    if isinstance(loaded.model, ViT):
        side = loaded.model.settings.image
        return ImageSettings(side, side, None, 2, 1.0, PIXEL_MEAN, PIXEL_DEVIATION)
    config: Any = getattr(loaded.model, "config", None)
    wanted = _pair(getattr(config, "image_size", None))
    path = loaded.folder / "preprocessor_config.json"
    said = read_json(path) if path.is_file() else {}
    size = said.get("size") if said.get("do_resize", True) else None
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    end = _pair(said.get("crop_size")) if said.get("do_center_crop") else None
    end = end or _pair(size) or wanted or (224, 224)
    if wanted is not None and end != wanted and config.model_type not in _ANY_SIZE:
        raise InputError(
            "preprocessor_config.json makes images of another size than the model takes",
            end,
            f"The model takes {wanted}; put that size into the file.",
        )
    normalised = said.get("do_normalize", True)
    return ImageSettings(
        *end,
        shortest=shortest,
        resample=int(said.get("resample", 2)),
        factor=float(said.get("rescale_factor", 1 / 255)) if said.get("do_rescale", True) else 1.0,
        mean=tuple(said.get("image_mean", (0.5,) * 3)) if normalised else (0.0,) * 3,
        std=tuple(said.get("image_std", (0.5,) * 3)) if normalised else (1.0,) * 3,
    )


def _pair(size: Any) -> tuple[int, int] | None:
    if isinstance(size, dict):
        side = size.get("shortest_edge")
        return _pair([size.get("height", side), size.get("width", side)])
    if isinstance(size, int):
        return size, size
    if isinstance(size, (list, tuple)) and len(size) == 2 and all(isinstance(n, int) for n in size):
        return size[0], size[1]
    return None


def require_readable(files: list[Path]) -> None:
    """Raise an InputError with the names of the files that cannot be read as images."""
    try:
        from PIL import Image
    except ImportError:
        raise missing("pillow", "hf", "reading images", files[0].name) from None
    bad = []
    for path in files:
        try:
            with Image.open(path) as image:
                image.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            bad.append(path.name)
    if bad:
        raise InputError(f"{len(bad)} images cannot be read", bad, "Repair or remove them.")
