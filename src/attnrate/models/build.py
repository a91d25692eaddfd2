"""From a table of settings to a model for the tokens of a target."""

from typing import Any

from attnrate.models.base import MODELS, SequenceModel
from attnrate.settings import Table
from attnrate.targets import Target


def complete_model(settings: Table) -> dict[str, Any]:
    """The model's settings with all defaults spelled out; InputError for what is not known."""
    return MODELS.complete(settings)


def build_model(settings: Table, target: Target) -> SequenceModel:
    """The model with these settings, for tokens of the target; its weights as torch draws them.

    A model that needs to know the length, and whose settings do not have it, is made for that of
    the target.
    """
    full = complete_model(settings)
    if full.get("length", 0) is None and MODELS.of(full).needs_length(full):
        full["length"] = target.length
    model: SequenceModel = MODELS.make(full, target.d, target.out)
    return model
