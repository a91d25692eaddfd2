"""Images as a model wants them: resized, cropped and normalised, without torchvision."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.models.vit import ViT
from attnrate.spectra.checkpoint import read_json
from attnrate.spectra.load import Loaded
from attnrate.training.feed import PIXEL_DEVIATION, PIXEL_MEAN

# these stretch their positions to the image; their config has the size that they were trained on
_ANY_SIZE = ("dinov2", "dinov2_with_registers")


@dataclass(frozen=True)
class ImageSettings:
    """How an image becomes pixel values: height and width at the end, what is cropped, the norm.

    `shortest` scales the shorter side to that many pixels before the middle is cut out; without it
    the image is stretched to `height` x `width`.
    """

    height: int
    width: int
    shortest: int | None
    resample: int
    factor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def pixels(self, path: Path) -> Float[np.ndarray, "3 height width"]:
        """The image in a file as the model wants it."""
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


def image_settings(loaded: Loaded) -> ImageSettings:
    """What preprocessor_config.json in the model's folder says, or sane settings without it.

    A model of our own takes what `train` has shown to it.
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
    """An InputError that names the files which are no images, before any work is done."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError("Pillow is needed to read images", "PIL", "Install pillow.") from None
    bad = []
    for path in files:
        try:
            with Image.open(path) as image:
                image.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            bad.append(path.name)
    if bad:
        raise InputError(f"{len(bad)} images cannot be read", bad, "Repair or remove them.")
