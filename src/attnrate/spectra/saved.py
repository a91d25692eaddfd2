"""A profile as a file, with all that is known of it, and opened again."""

import os
from pathlib import Path
from typing import Annotated, Any

from attnrate.errors import InputError, require_choice
from attnrate.folders import as_path, filled_at_once
from attnrate.pages.facts import PAGE
from attnrate.settings import by, checked
from attnrate.spectra.arrays_file import read_packed, write_packed
from attnrate.spectra.packed import BrokenError, Facts, Packed, unpack
from attnrate.spectra.result import Profile
from attnrate.spectra.watching.unseen import Unseen
from attnrate.words import GAUGES

DATA = "moments.safetensors"
_KIND = "profile"
_COMMAND = "profile"


def save_data(profile: Profile, folder: str | os.PathLike[str]) -> Path:
    """Write a profile without a page, into a folder that is new, empty or of such a profile.

    Args:
        profile: The profile.
        folder: The path of the folder.

    Returns:
        The path of the file.

    """
    if (as_path(folder) / PAGE).exists():
        raise InputError(
            "the folder has the page of an earlier profile, which would no longer fit",
            str(folder),
            "Name another folder, or save the page as well.",
        )
    with filled_at_once(folder, _COMMAND) as fresh:
        write_data(profile, fresh)
    return as_path(folder) / DATA


def write_data(profile: Profile, folder: Path) -> None:
    """Write all arrays and facts of a profile into `moments.safetensors` in a folder."""
    packed = Packed()
    facts = {
        "model": profile.model,
        "family": profile.family,
        "gauge": profile.gauge,
        "digest": profile.digest,
        "made_by": dict(profile.made_by),
        "unseen": [[each.name, each.kind, each.why] for each in profile.unseen],
        "layers": packed.layers(profile.layers),
    }
    write_packed(folder / DATA, _KIND, facts, packed)


def _require_folder(name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError("a profile is opened from a folder", value, "Pass the folder's path.")
    return Path(value)


@checked
def load_profile(
    folder: Annotated[str | os.PathLike[str], by(_require_folder)],
) -> Profile:
    """Open a profile that was saved.

    All numbers are those of the profile that was saved, bit for bit, so that it can be advised on,
    joined and drawn as before. Nothing but `moments.safetensors` in the folder is read, and no code
    in it is run.

    Args:
        folder: A folder that `Profile.save` or `attnrate profile --out` has written.

    Returns:
        The profile.

    Raises:
        InputError: There is no profile in the folder, it was written by version 0.1.0, which kept
            no moments, or its file is damaged.

    Examples:
        >>> import torch
        >>> found = ar.profile(ar.Transformer(2, 1, n=8, m_h=4), torch.rand(4, 16, 2))
        >>> _ = found.save("kept-profile")
        >>> again = ar.load_profile("kept-profile")
        >>> bool((again.pooled(0, 0) == found.pooled(0, 0)).all())
        True

    """
    path = _file(Path(folder))
    try:
        return _profile(*read_packed(path, _KIND))
    except BrokenError as problem:
        raise InputError(
            f"{path.name} is no profile that attnrate has written ({problem})",
            str(path),
            "Copy the folder once more, or profile the model again.",
        ) from None


def _file(folder: Path) -> Path:
    """The file of a profile; an InputError that says what is in the folder instead."""
    try:
        if (folder / DATA).is_file():
            return folder / DATA
        if folder.is_file():
            raise InputError(
                "a profile is opened by its folder, this is a file",
                str(folder),
                "Pass the folder that it is in.",
            )
        if not folder.is_dir():
            raise InputError("there is no such folder", str(folder), "Check its path.")
        old = (folder / "profile.json").is_file()
    except (OSError, ValueError) as problem:
        raise InputError(f"this folder cannot be opened ({problem})", str(folder)) from None
    if old:
        raise InputError(
            "the profile.json of this folder was written by attnrate 0.1.0, which kept no moments, "
            "so that it cannot be opened",
            str(folder),
            "Profile the model again.",
        )
    raise InputError(
        f"the folder has no {DATA}",
        str(folder),
        "Pass a folder that Profile.save or attnrate profile --out has written.",
    )


def _profile(facts: Facts, arrays: dict[str, Any]) -> Profile:
    layers = unpack(facts.get("layers"), arrays)
    if not layers:
        raise BrokenError("it has no layers")
    made_by, unseen = facts.get("made_by"), facts.get("unseen")
    if not isinstance(made_by, dict) or not all(
        isinstance(each, str | bool | None) for each in made_by.values()
    ):
        raise BrokenError("it does not say what made it")
    if not isinstance(unseen, list) or not all(map(_is_unseen, unseen)):
        raise BrokenError("it does not say what was not seen")
    try:
        gauge = require_choice("gauge", facts.get("gauge"), GAUGES)
    except InputError:
        raise BrokenError("its gauge is not known") from None
    return Profile(
        model=_word(facts, "model"),
        family=_word(facts, "family"),
        gauge=gauge,
        layers=layers,
        made_by=made_by,
        unseen=tuple(Unseen(*each) for each in unseen),
        digest=None if facts.get("digest") is None else _word(facts, "digest"),
    )


def _is_unseen(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(x, str) for x in value)


def _word(facts: Facts, name: str) -> str:
    value = facts.get(name)
    if not isinstance(value, str):
        raise BrokenError(f"{name} is missing or of another type")
    return value
