"""The inputs of profile and compress: which options go together, and what they read."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnrate.cli.counts import parse_count
from attnrate.errors import InputError

if TYPE_CHECKING:
    from attnrate.spectra.inputs.batched import Batches, BatchStream
    from attnrate.spectra.load import LoadedModel

_USUAL_LIMIT = 64  # inputs
_PROFILED = (
    "Pass --text FILE, --images DIR, --sound DIR or --inputs FILE.npz. Where there are none, "
    "--weights-only shows what can be known from the weights alone."
)
_OTHERS = (
    "Pass --text FILE, --images DIR or --inputs FILE.npz. A folder of attnrate train needs none."
)


@dataclass(frozen=True)
class GivenInputs:
    """What the options of inputs say: a file or folder, what to read of it, and how much.

    Attributes:
        text: A file of running text, or a table.
        images: A folder of images.
        sound: A folder of recordings.
        inputs: A file of arrays.
        column: The column of a table that holds the texts.
        length: The number of tokens per input.
        batch: The number of inputs in a batch.
        limit: The largest number of inputs.
        tokens: The number of tokens, as people write it.
        needed_by: What needs the inputs, for messages.

    """

    text: Path | None
    images: Path | None
    sound: Path | None
    inputs: Path | None
    column: str | None
    length: int | None
    batch: int
    limit: int | None
    tokens: str | None
    needed_by: str = "a profile"

    @property
    def named(self) -> list[str]:
        """The options that name inputs."""
        kinds = ("text", "images", "sound", "inputs")
        return [f"--{name}" for name in kinds if getattr(self, name) is not None]

    def require_fitting(self, needed: bool = True) -> None:
        """Raise an InputError unless inputs of one kind were given, and options that go with it.

        Without `needed` there may be none.
        """
        named = self.named
        if len(named) > 1 or (needed and not named):
            raise InputError(
                f"{self.needed_by} needs inputs of one kind",
                named or "none",
                _PROFILED if self.needed_by == "a profile" else _OTHERS,
            )
        for name in ("column", "length", "tokens"):
            value = getattr(self, name)
            if self.text is None and value is not None:
                raise InputError(f"--{name} is for --text", value, f"Leave --{name} out.")
        self._budget()
        from attnrate.spectra.inputs.files import table_kind

        if self.text is not None and self.column is not None and table_kind(self.text) is None:
            raise InputError(
                f"--column is for tables, and {self.text.name} is none by the ending of its name",
                self.column,
                "Tables end in .jsonl, .json, .csv, .tsv or .parquet.",
            )

    def require_there(self) -> None:
        """Raise an InputError unless the file or folder of the inputs is there."""
        from attnrate.spectra.inputs.checks import require_file, require_folder

        for folder, things in ((self.images, "images"), (self.sound, "sound")):
            if folder is not None:
                require_folder("folder", folder, things)
        for file in (self.text, self.inputs):
            if file is not None:
                require_file("path", file)

    def _budget(self) -> int | None:
        """The number of tokens to read."""
        return None if self.tokens is None else parse_count("tokens", self.tokens)

    def read(self, loaded: "LoadedModel") -> "Batches | BatchStream":
        """Read the inputs, in batches."""
        limit = _USUAL_LIMIT if self.limit is None and self.tokens is None else self.limit
        if self.images is not None:
            from attnrate.spectra.inputs.images import read_images

            return read_images(loaded, self.images, self.batch, limit)
        if self.sound is not None:
            from attnrate.spectra.inputs.sound import read_sound

            return read_sound(loaded, self.sound, self.batch, limit)
        if self.inputs is not None:
            from attnrate.spectra.inputs.arrays import read_arrays

            return read_arrays(loaded.model, self.inputs, self.batch, limit)
        assert self.text is not None  # require_fitting has seen one of the four
        from attnrate.spectra.inputs.files import table_kind
        from attnrate.spectra.inputs.running import read_text
        from attnrate.spectra.inputs.tables import read_table

        length, batch, tokens = self.length, self.batch, self._budget()
        if table_kind(self.text) is None:
            return read_text(loaded, self.text, length, batch, limit, tokens=tokens)
        return read_table(loaded, self.text, self.column, length, batch, limit, tokens)
