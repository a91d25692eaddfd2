"""Reading a folder of recordings: at the model's rate, through its own feature extractor."""

import inspect
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.extras import is_installed, missing
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, Positive, by, checked
from attnrate.spectra.batches import first_line
from attnrate.spectra.inputs.batched import Batch, Batches
from attnrate.spectra.inputs.checks import (
    has_decoder,
    main_input,
    require_folder,
    require_known,
    require_names,
    spread,
)
from attnrate.spectra.inputs.decoders import require_writer, start_token, written
from attnrate.spectra.inputs.stacking import filler_of, stacked
from attnrate.spectra.load import LoadedModel, longest_of

_PLAIN = (".wav",)  # read by scipy, the others by soundfile
_PACKED = (".flac", ".ogg", ".mp3")
_EXTRACTORS = ("preprocessor_config.json", "processor_config.json")
Wave = Float[np.ndarray, " _"]


@checked
def read_sound(
    loaded: LoadedModel,
    folder: Annotated[str | os.PathLike[str], by(require_folder, "sound")],
    batch: Count = 8,
    limit: Count | None = None,
    seconds: Positive = 30.0,
) -> Batches:
    """Read the recordings of a folder as inputs of a model of sound.

    Channels are averaged, and the sound is resampled to the rate of the model's own feature
    extractor (its preprocessor_config.json), which turns it into what the model takes. Where the
    extractor does not fill recordings up to one length, as Whisper's does, those of several lengths
    are run one at a time, so that no silence is measured.

    A decoder reads what is said: the text in NAME.txt beside NAME.wav, by the model's own
    tokenizer. Where there is none, the model writes up to 32 tokens itself, the likeliest one in
    each step.

    Args:
        loaded: A model opened by `load_model`.
        folder: A folder; all .wav files in it and below it are taken, in the order of their names;
            also .flac, .ogg and .mp3 files, which need the package soundfile.
        batch: The number of recordings in a batch.
        limit: The largest number of recordings; all by default. They are spread evenly over the
            files, because folders are often sorted by speaker.
        seconds: The time after which a recording is cut off.

    Returns:
        Batches with input_features or input_values, and decoder_input_ids for a model with a
        decoder, as `profile` takes them.

    Raises:
        InputError: The folder has no recording, or one that cannot be read, or the model takes no
            sound.

    Examples:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from scipy.io import wavfile
        >>> from transformers import ASTConfig, ASTFeatureExtractor, ASTModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> length = {"max_length": 32, "num_mel_bins": 16}
        >>> ASTModel(ASTConfig(**sizes, **length, patch_size=8)).save_pretrained("tiny-ast")
        >>> _ = ASTFeatureExtractor(**length).save_pretrained("tiny-ast")
        >>> Path("speech").mkdir()
        >>> wavfile.write("speech/one.wav", 8000, np.zeros(4000, dtype=np.int16))
        >>> batches = ar.read_sound(ar.load_model("tiny-ast"), "speech")
        >>> next(iter(batches))["input_values"].shape
        torch.Size([1, 32, 16])

    """
    where = Path(folder)
    model = loaded.model
    kinds = (*_PLAIN, *_PACKED)
    every = sorted(path for path in where.rglob("*") if path.suffix.lower() in kinds)
    if not every:
        raise InputError("the folder has no recording", str(where), "Put .wav files there.")
    files = [every[number] for number in spread(len(every), limit)]
    main = main_input(model)
    if main not in ("input_values", "input_features"):
        what = "the model takes no sound; its main input is {value}"
        raise InputError(what, main, "Pass a model such as Whisper, wav2vec 2.0 or AST.")
    extract = _Extractor(_extractor(loaded), main, seconds)
    require_names(model, [main, *(["decoder_input_ids"] if has_decoder(model) else [])])
    lengths = _lengths(files, extract)
    said = _Said.of(loaded, files) if has_decoder(model) else None

    def make(start: int, end: int) -> Batch:
        made: Batch = {main: extract([extract.wave(path) for path in files[start:end]])}
        return made if said is None else made | said.tokens(made, files[start:end])

    alone = not extract.fixed and len({*lengths}) > 1
    return Batches(len(files), 1 if alone else batch, make)


@dataclass(frozen=True)
class _Extractor:
    """A feature extractor of transformers, which turns sound into what its model takes.

    Attributes:
        own: The feature extractor.
        name: The name of the model's main input.
        seconds: The time after which a recording is cut off.

    """

    own: Any
    name: str
    seconds: float

    @property
    def fixed(self) -> bool:
        """Whether it fills up all recordings to one length by itself."""
        takes = inspect.signature(self.own.__call__).parameters
        return "padding" not in takes or takes["padding"].default == "max_length"

    def wave(self, path: Path) -> Wave:
        """The sound of a file at the rate of the extractor, one channel, from -1 to 1."""
        from scipy.signal import resample_poly

        rate, values = _read(path)
        sound = values[: max(round(self.seconds * rate), 1)].mean(1)
        wanted = int(self.own.sampling_rate)
        if rate != wanted:
            common = gcd(rate, wanted)
            sound = resample_poly(sound, wanted // common, rate // common)
        return np.asarray(sound, dtype=np.float32)

    def __call__(self, waves: Sequence[Wave]) -> torch.Tensor:
        """What the model takes for these recordings."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self.own(
                    [*waves], sampling_rate=int(self.own.sampling_rate), return_tensors="pt"
                )[self.name]
        except Exception as problem:  # of any kind: extractors do not check their inputs
            raise InputError(
                f"the model's feature extractor cannot take these recordings "
                f"({type(problem).__name__}: {first_line(problem)}); their samples",
                [len(wave) for wave in waves],
                "Leave recordings out that are very short.",
            ) from problem
        values: torch.Tensor = found
        return values


def _extractor(loaded: LoadedModel) -> Any:
    import transformers

    remedy = "Put the preprocessor_config.json of the model there."
    held = [name for name in _EXTRACTORS if (loaded.folder / name).is_file()]
    if not held:
        what = "the model's folder has no feature extractor"
        raise InputError(what, str(loaded.folder), remedy)
    opener: Any = transformers.AutoFeatureExtractor
    try:
        found = opener.from_pretrained(
            loaded.folder, trust_remote_code=False, local_files_only=True
        )
    except Exception as problem:  # OSError without the file, KeyError and others for its content
        raise InputError(
            "the model's folder has no feature extractor that can be used "
            f"({first_line(problem)[:120]})",
            str(loaded.folder),
            remedy,
        ) from None
    if not isinstance(getattr(found, "sampling_rate", None), int):
        raise InputError(
            "the model's feature extractor is none for sound",
            type(found).__name__,
            remedy,
        )
    return found


def _read(path: Path) -> tuple[int, Float[np.ndarray, "samples channels"]]:
    """The rate of a file and its sound, from -1 to 1."""
    if path.suffix.lower() not in _PLAIN:
        import soundfile

        values, rate = soundfile.read(path, dtype="float32", always_2d=True)
        return int(rate), values
    from scipy.io import wavfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chunks that hold no sound
        rate, values = wavfile.read(path)
    if values.dtype == np.uint8:  # the only kind without a sign
        values = (values.astype(np.float32) - 128) / 128
    elif values.dtype.kind == "i":
        values = values.astype(np.float32) / -float(np.iinfo(values.dtype).min)
    return int(rate), values.astype(np.float32).reshape(len(values), -1)


def _lengths(files: Sequence[Path], extract: _Extractor) -> list[int]:
    """The number of samples of each file at the extractor's rate; an InputError names bad files."""
    packed = [path.name for path in files if path.suffix.lower() not in _PLAIN]
    if packed and not is_installed("soundfile"):
        raise missing("soundfile", "sound", "reading .flac, .ogg and .mp3", packed[0])
    bad, found = [], []
    with Progress("reading recordings", after=QUIET) as line:
        for number, path in enumerate(files, start=1):
            try:
                wave = extract.wave(path)
            except Exception:  # scipy and libsndfile each have their kinds
                wave = np.empty(0, dtype=np.float32)
            if not wave.size or not np.isfinite(wave).all():
                bad.append(path.name)
            found.append(len(wave))
            line.at(f"reading recordings: {number} of {len(files)}", number / len(files))
    what = "some recordings cannot be read, or hold no sound"
    require_none(what, bad[:10], "Repair or remove them.")
    return found


@dataclass(frozen=True)
class _Said:
    """What a decoder reads of recordings: what is said in them, or what the model writes.

    Attributes:
        model: The model.
        start: The tokens that its decoder begins with.
        texts: The token ids of what is said in a file, where a text beside it says so.
        filler: The token that fills up what is short.
        most: The largest number of tokens that the decoder takes.

    """

    model: nn.Module
    start: list[int]
    texts: dict[Path, np.ndarray]
    filler: int
    most: int

    @classmethod
    def of(cls, loaded: LoadedModel, files: Sequence[Path]) -> "_Said":
        """What is said in these files, by the texts beside them."""
        beside = {path: path.with_suffix(".txt") for path in files}
        told = {path: text for path, text in beside.items() if text.is_file()}
        start, filler, texts = [start_token(loaded.model)], 0, {}
        most = longest_of(loaded.model) or 448  # what Whisper's decoder takes
        if told:
            tokenizer = loaded.tokenizer()
            filler = filler_of(tokenizer)
            prefix = getattr(tokenizer, "prefix_tokens", None)
            start = prefix if prefix and prefix[0] == start[0] else start
            for path, text in told.items():
                texts[path] = _tokens(tokenizer, text, start, most)
                require_known(texts[path], f"{text.name}, as decoder_input_ids,", loaded.model)
        if len(told) < len(files):
            require_writer(loaded.model, next(path.name for path in files if path not in told))
        return cls(loaded.model, start, texts, filler, most)

    def tokens(self, heard: Batch, files: Sequence[Path]) -> Batch:
        """The decoder's inputs of a batch of recordings."""
        silent = [number for number, path in enumerate(files) if path not in self.texts]
        rows = {n: self.texts[path] for n, path in enumerate(files) if path in self.texts}
        if silent:
            some = {name: values[silent] for name, values in heard.items()}
            rows |= dict(zip(silent, written(self.model, some, self.start, self.most), strict=True))
        named = [{"decoder_input_ids": rows[number]} for number in range(len(files))]
        return stacked(self.model, named, self.filler)


def _tokens(tokenizer: Any, text: Path, start: list[int], most: int) -> np.ndarray:
    """The tokens of a text after those that a decoder begins with."""
    try:
        said = text.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InputError("the text is not in UTF-8", str(text), "Save it as UTF-8.") from None
    if not said:
        raise InputError("the text of a recording is empty", str(text), "Remove it.")
    found = tokenizer([said], add_special_tokens=False)["input_ids"][0]
    return np.array([*start, *found][:most], dtype=np.int64)
