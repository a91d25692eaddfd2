"""Reading a folder of images: resized, cropped and normalised as the model takes them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.extras import missing
from attnrate.models.vit import ViT
from attnrate.settings import Count, by, checked
from attnrate.spectra.checkpoint import read_json
from attnrate.spectra.inputs.batched import Batch, Batches
from attnrate.spectra.inputs.checks import require_folder, require_names, spread
from attnrate.spectra.load import LoadedModel
from attnrate.training.feed import PIXEL_DEVIATION, PIXEL_MEAN

# families that stretch their positions to any image size
_ANY_SIZE = ("dinov2", "dinov2_with_registers")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp")


@checked
def read_images(
    loaded: LoadedModel,
    folder: Annotated[str | os.PathLike[str], by(require_folder, "images")],
    batch: Count = 8,
    limit: Count | None = None,
) -> Batches:
    """Read the images of a folder as inputs of a vision model.

    They are resized, cropped and normalised as the model's preprocessor_config.json says. Without
    that file they get the size in the model's config, and values from -1 to 1. A ViT of `train`
    gets what it was trained on.

    Args:
        loaded: A model opened by `load_model`.
        folder: A folder; all .png, .jpg and .webp files in it and below it are taken, in the order
            of their names.
        batch: The number of images in a batch.
        limit: The largest number of images; all by default. They are spread evenly over the files,
            because folders are often sorted by class.

    Returns:
        Batches with pixel_values, or images for a ViT of `train`, as `profile` takes them.

    Raises:
        InputError: The folder has no image, or one that cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from PIL import Image
        >>> from transformers import ViTConfig, ViTModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8)).save_pretrained("tiny-vit")
        >>> Path("photos").mkdir()
        >>> for name in ("one", "two"):
        ...     Image.fromarray(np.zeros((50, 40, 3), np.uint8)).save(f"photos/{name}.png")
        >>> batches = ar.read_images(ar.load_model("tiny-vit"), "photos")
        >>> next(iter(batches))["pixel_values"].shape
        torch.Size([2, 3, 32, 32])

    """
    where = Path(folder)
    every = sorted(path for path in where.rglob("*") if path.suffix.lower() in _IMAGES)
    if not every:
        raise InputError("the folder has no image", str(where), "Put .png, .jpg or .webp there.")
    files = [every[number] for number in spread(len(every), limit)]
    name = "images" if isinstance(loaded.model, ViT) else "pixel_values"
    require_names(loaded.model, [name])
    look = image_settings(loaded)
    require_readable(files)

    def make(start: int, end: int) -> Batch:
        pixels = [look.pixels(path) for path in files[start:end]]
        return {name: torch.from_numpy(np.stack(pixels))}

    return Batches(len(files), batch, make)


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
