"""Reading inputs of a model from files, as batches: running text, a folder of images, arrays."""

import codecs
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models.vit import ViT
from attnrate.settings import Count, by, checked
from attnrate.shown import Shown
from attnrate.spectra.images import image_settings, require_readable
from attnrate.spectra.load import LoadedModel, ModelLike, longest_of, module_of, require_model
from attnrate.spectra.measures import counted

Tensor = torch.Tensor
Batch: TypeAlias = dict[str, Tensor]
Length = Annotated[int, by(require_whole, 2)]
_USUAL_LENGTH = 512  # tokens

_IMAGES = (".png", ".jpg", ".jpeg", ".webp")
_TOKENS = ("input_ids", "decoder_input_ids")
_MASKS = ("attention_mask", "decoder_attention_mask")
_LONGEST_WORD = 100  # characters
_BYTES_PER_TOKEN = 8  # more than most text needs; where it is not enough, the whole file is read


@dataclass(frozen=True, repr=False)
class Batches(Shown):
    """Batches of inputs that can be gone through any number of times.

    A batch is made when its turn comes, so that a large file does not fill the memory.

    Attributes:
        inputs: The number of inputs in all batches together.
        size: The number of inputs in a batch; the last may have fewer.
        make: Makes the batch of the inputs from a first number to before a last one.

    Examples:
        >>> import numpy as np, torch
        >>> np.savez("inputs.npz", x=np.zeros((5, 16, 2), dtype=np.float32))
        >>> batches = ar.read_arrays(ar.Transformer(2, 1), "inputs.npz", batch=2)
        >>> batches
        5 inputs in 3 batches
        >>> [len(batch["x"]) for batch in batches]
        [2, 2, 1]

    """

    inputs: int
    size: int
    make: Callable[[int, int], Batch]

    def __str__(self) -> str:
        return f"{counted(self.inputs, 'input')} in {len(self)} batch{'es' * (len(self) > 1)}"

    def __len__(self) -> int:
        return -(-self.inputs // self.size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, self.inputs, self.size):
            yield self.make(start, min(start + self.size, self.inputs))


def _require_file(name: str, value: object) -> Path:
    """`value` as the path of a file with something in it, or an InputError."""
    file = Path(value) if isinstance(value, str | os.PathLike) else None
    if file is None or not file.is_file():
        raise InputError("there is no such file of inputs", value, "Check the path.")
    if file.stat().st_size == 0:
        raise InputError("the file of inputs is empty", str(file), "Put something into it.")
    return file


def _require_images(name: str, value: object) -> Path:
    """`value` as the path of a folder, or an InputError."""
    where = Path(value) if isinstance(value, str | os.PathLike) else None
    if where is None or not where.is_dir():
        raise InputError("there is no such folder of images", value, "Pass the path of a folder.")
    return where


@checked
def read_text(
    loaded: LoadedModel,
    path: Annotated[str | os.PathLike[str], by(_require_file)],
    length: Length | None = None,
    batch: Count = 8,
    limit: Count | None = None,
    short: Literal["drop", "pad"] = "drop",
) -> Batches:
    """Read a text file and cut it into inputs of a language model.

    The text is tokenised by the model's own tokenizer, with the special tokens that the model is
    used to, and cut into pieces of one length.

    Args:
        loaded: A model opened by `load_model`, for its tokenizer.
        path: A text file in UTF-8.
        length: The number of tokens in a piece, special ones counted. By default 512, or the
            largest number that the model takes if that is smaller.
        batch: The number of pieces in a batch.
        limit: The largest number of pieces; all by default. They are spread evenly over the file,
            because neighbouring pieces are alike.
        short: What becomes of the last piece, which is usually shorter: "drop" leaves it out unless
            it is the only one, "pad" fills it up under an attention mask.

    Returns:
        Batches with input_ids and attention_mask, as `profile` takes them.

    Raises:
        InputError: The file has no text, the model has no fast tokenizer, or the pieces are longer
            than the model's positions.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=8)).save_pretrained("tiny-bert")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose", "is"]
        >>> _ = Path("tiny-bert/vocab.txt").write_text("\\n".join(words))
        >>> _ = Path("notes.txt").write_text("a rose is a rose is a rose")
        >>> loaded = ar.load_model("tiny-bert")
        >>> batches = ar.read_text(loaded, "notes.txt", length=6)
        >>> batches
        2 inputs in 1 batch
        >>> next(iter(batches))["input_ids"].tolist()
        [[2, 5, 6, 7, 5, 3], [2, 6, 7, 5, 6, 3]]

    """
    file = Path(path)
    if length is None:
        length = min(_USUAL_LENGTH, loaded.longest or _USUAL_LENGTH)
    _require_short("length", length, loaded.longest)
    _require_names(loaded.model, ["input_ids", "attention_mask"])
    tokenizer = loaded.tokenizer()
    if not tokenizer.is_fast:
        raise InputError(
            "the model's tokenizer cannot cut text",
            type(tokenizer).__name__,
            "Pass token ids in an .npz file.",
        )
    pieces = _pieces(tokenizer, file, length, limit)
    if len(pieces) > 1 and short == "drop" and len(pieces[-1]) < length:
        pieces = pieces[:-1]
    _require_known(np.concatenate(pieces), "input_ids", loaded.model)
    filler = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def make(start: int, end: int) -> Batch:
        chosen = pieces[start:end]
        width = max(map(len, chosen))
        ids = torch.full((len(chosen), width), int(filler or 0))
        mask = torch.zeros_like(ids)
        for row, piece in enumerate(chosen):
            ids[row, : len(piece)] = torch.from_numpy(piece)
            mask[row, : len(piece)] = 1
        return {"input_ids": ids, "attention_mask": mask}

    return Batches(len(pieces), batch, make)


@checked
def read_images(
    loaded: LoadedModel,
    folder: Annotated[str | os.PathLike[str], by(_require_images)],
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
    files = [every[number] for number in _spread(len(every), limit)]
    name = "images" if isinstance(loaded.model, ViT) else "pixel_values"
    _require_names(loaded.model, [name])
    look = image_settings(loaded)
    require_readable(files)

    def make(start: int, end: int) -> Batch:
        pixels = [look.pixels(path) for path in files[start:end]]
        return {name: torch.from_numpy(np.stack(pixels))}

    return Batches(len(files), batch, make)


@checked
def read_arrays(
    model: Annotated[ModelLike, by(require_model)],
    path: Annotated[str | os.PathLike[str], by(_require_file)],
    batch: Count = 8,
    limit: Count | None = None,
) -> Batches:
    """Read the arrays of an .npz file as inputs of a model.

    Args:
        model: A torch module, or a model opened by `load_model`.
        path: A file that numpy.savez has written. Its arrays have the names of the arguments of
            the model's forward, and the first axis of each counts the inputs.
        batch: The number of inputs in a batch.
        limit: The largest number of inputs, taken from the beginning; all by default.

    Returns:
        Batches of tensors by the names of the arrays, as `profile` takes them.

    Raises:
        InputError: The names are not those of the model's arguments, the arrays do not fit
            together, or they hold values that the model does not know.

    Examples:
        >>> import numpy as np
        >>> np.savez("inputs.npz", x=np.zeros((5, 16, 2), dtype=np.float32))
        >>> ar.read_arrays(ar.Transformer(2, 1), "inputs.npz")
        5 inputs in 1 batch

    """
    module = module_of(model)
    arrays = _arrays(Path(path))
    _require_names(module, list(arrays))
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1 or min(counts.values()) == 0:
        raise InputError(
            "every array needs the same number of inputs, at least one, along its first axis",
            counts,
            "Stack the inputs along axis 0.",
        )
    tensors = {name: _tensor(name, array, module) for name, array in arrays.items()}
    inputs = min(counts.values())

    def make(start: int, end: int) -> Batch:
        return {name: tensor[start:end] for name, tensor in tensors.items()}

    return Batches(inputs if limit is None else min(inputs, limit), batch, make)


def _spread(count: int, most: int | None) -> list[int]:
    """The numbers of at most `most` things, spread evenly over `count`; all if `most` is None."""
    taken = count if most is None else min(most, count)
    return [number * count // taken for number in range(taken)]


def _pieces(tokenizer: Any, file: Path, length: int, most: int | None) -> list[np.ndarray]:
    """The text as pieces of token ids: all, or `most` of them spread evenly over the file."""
    window = length * _BYTES_PER_TOKEN
    size = file.stat().st_size
    if most is not None and size > most * window:
        pieces = [_window(tokenizer, file, start, window, length) for start in _spread(size, most)]
        if min(map(len, pieces)) == length:
            return pieces
    pieces = _cut(tokenizer, _text(file), length)
    return [pieces[number] for number in _spread(len(pieces), most)]


def _window(tokenizer: Any, file: Path, start: int, window: int, length: int) -> np.ndarray:
    """A piece of tokens from byte `start` on.

    More text than `window` bytes is read where these give fewer than `length` tokens.
    """
    for width in (window, 8 * window):
        piece = _cut(tokenizer, _text(file, start, width), length)[0]
        if len(piece) == length:
            break
    return piece


def _cut(tokenizer: Any, text: str, length: int) -> list[np.ndarray]:
    cut = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True)
    return [np.array(piece, dtype=np.int64) for piece in cut["input_ids"]]


def _text(file: Path, start: int = 0, count: int = -1) -> str:
    """`count` bytes of a file from byte `start` on, as text from the first whole word.

    By default the whole file.
    """
    with file.open("rb") as opened:
        opened.seek(start)
        raw = opened.read(count)
    skipped = 0
    while start and skipped < min(3, len(raw)) and raw[skipped] & 0b1100_0000 == 0b1000_0000:
        skipped += 1  # the rest of a character that begins before `start`
    try:
        # a character that is cut in two at the end is left out
        text = codecs.getincrementaldecoder("utf-8")().decode(raw[skipped:], final=count < 0)
    except UnicodeDecodeError as problem:
        raise InputError(
            f"the file is no text in UTF-8 (byte {start + skipped + problem.start})",
            str(file),
            "Save it as UTF-8, or pass an .npz file with --inputs.",
        ) from None
    if start:
        # on to the next word, where the script has spaces between words
        gap = re.search(r"\s", text[:_LONGEST_WORD])
        text = text[gap.end() :].lstrip() if gap else text
    if count < 0 and not text.strip():
        raise InputError("the file has no text", str(file), "Put some text into it.")
    return text


def _arrays(file: Path) -> dict[str, np.ndarray]:
    remedy = "Write it with numpy.savez(FILE, input_ids=..., attention_mask=...)."
    try:
        # opened here: numpy leaves a file open that turns out to be broken
        with file.open("rb") as opened_file:
            opened = np.load(opened_file, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise InputError("the file holds one array without a name", str(file), remedy)
            arrays = {name: np.asarray(opened[name]) for name in opened.files}
    except (InputError, KeyboardInterrupt):
        raise
    except MemoryError:
        raise InputError(
            "an array of the file is larger than the memory, or says so", str(file), remedy
        ) from None
    except Exception:  # zip, zlib, lzma and numpy's own readers each have their kinds
        what = "the file holds no plain arrays (objects are pickles, which are refused)"
        raise InputError(what, str(file), remedy) from None
    if not arrays:
        raise InputError("the file holds no array", str(file), remedy)
    return arrays


def _require_names(model: nn.Module, names: list[str]) -> None:
    takes = inspect.signature(model.forward).parameters
    free = any(argument.kind is argument.VAR_KEYWORD for argument in takes.values())
    known = [name for name in takes if takes[name].kind is not takes[name].VAR_KEYWORD]
    wrong = [name for name in names if name not in known]
    # a model that takes any argument (**kwargs) still has a main input with a known name
    if wrong and (not free or hasattr(model, "main_input_name")):
        raise InputError("the model takes no inputs of these names", wrong, f"It takes {known}.")
    main = getattr(model, "main_input_name", None)
    if isinstance(main, str) and main not in names and "inputs_embeds" not in names:
        raise InputError("the model's main input is missing", names, f"Add {main}.")
    paired = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    if paired and not {"decoder_input_ids", "decoder_inputs_embeds"} & set(names):
        raise InputError("the decoder has no input", names, "Add decoder_input_ids.")


def _tensor(name: str, array: np.ndarray, model: nn.Module) -> Tensor:
    kind = array.dtype.kind
    if kind not in "fbiu":
        raise InputError(f"the array {name} holds no numbers", str(array.dtype), "Pass numbers.")
    if kind == "f" and not np.isfinite(array).all():
        raise InputError(f"the array {name} holds nan or inf", name, "Remove such inputs.")
    if name in _MASKS:
        empty = np.flatnonzero(~array.reshape(len(array), -1).astype(bool).any(-1))
        if empty.size:
            raise InputError(
                f"{empty.size} inputs are nothing but padding ({name} is 0)",
                empty[:10].tolist(),
                "Leave these inputs out.",
            )
    if name in _TOKENS:
        if kind not in "iu":
            raise InputError(f"{name} must be whole numbers", str(array.dtype), "Pass int64.")
        if array.ndim != 2 or array.shape[1] == 0:
            raise InputError(
                f"{name} must be of shape (inputs, tokens)", array.shape, "Reshape it."
            )
        _require_short(name, array.shape[1], longest_of(model))
        _require_known(array, name, model)
    return torch.from_numpy(array.astype({"f": np.float32, "b": np.bool_}.get(kind, np.int64)))


def _require_known(ids: np.ndarray, name: str, model: nn.Module) -> None:
    config: Any = getattr(model, "config", None)
    count = None if config is None else getattr(config.get_text_config(), "vocab_size", None)
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or (count is not None and most >= count):
        raise InputError(
            f"{name} has tokens outside the vocabulary",
            [least, most],
            f"The model knows 0 to {'...' if count is None else count - 1}.",
        )


def _require_short(name: str, tokens: int, longest: int | None) -> None:
    if longest is not None and tokens > longest:
        raise InputError(
            f"{name} is longer than the model's positions, which are at most {longest} tokens",
            tokens,
            f"Cut the inputs to {longest} tokens.",
        )
