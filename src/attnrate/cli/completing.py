"""Shell completion: the words that a shell offers after TAB. Heavy imports wait for the TAB.

`attnrate --install-completion` sets it up. Each function takes the word that is being typed and
gives what it could become.
"""

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import fields
from typing import Literal

import typer

#: A function from the word that is being typed to what it could become
Complete = Callable[[str], list[str]]

#: Words that help lists; they are written here because help and TAB must not wait for torch
EXPERIMENTS = (
    "fig1",
    "fig2",
    "fig3",
    "table1-cifar",
    "table1-translation",
    "table2",
    "table3",
    "fig4",
    "fig5",
    "fig6",
    "mixing-rank",
    "gravity",
    "ordering",
    "mff",
    "open-questions",
    "propositions",
    "rank-one",
    "translation-order",
    "positions",
    "cost",
    "memory",
    "hybrids",
)
TARGET_KINDS = (
    "centre_of_gravity",
    "delay",
    "gravity",
    "irregular",
    "linear",
    "nearest_point",
    "selection",
    "spectral",
)
MODEL_KINDS = (
    "convolution",
    "coupling",
    "gru",
    "hybrid",
    "linear_rnn",
    "relative",
    "state_space",
    "transformer",
)
MATCHES: tuple[Literal["name", "depth"], ...] = ("name", "depth")
ENGINES = ("local", "ray", "ray://")


def words(*known: str) -> Complete:
    """Make a function that completes one of a few known words."""

    def complete(typed: str) -> list[str]:
        return _starting(typed, known)

    return complete


def weight_names(typed: str) -> list[str]:
    """Complete the short name of a model that `attnrate data weights` fetches."""
    from attnrate.data.weights import WEIGHTS

    return _starting(typed, WEIGHTS)


def series_names(typed: str) -> list[str]:
    """Complete the short name of a time series that `attnrate data series` fetches."""
    from attnrate.data.series_table import SERIES

    return _starting(typed, SERIES)


def settings(context: typer.Context, typed: str) -> list[str]:
    """Complete a setting NAME=VALUE of a fit: its name, or the value of a `kind` or a recipe."""
    before: list[str] = [*(context.params.get("settings") or ())]
    if before[-1:] == ["="]:  # bash splits NAME=VALUE into three words
        return _starting(typed, _values(before[-2]))
    name, given, value = typed.partition("=")
    if given:
        return [f"{name}={word}" for word in _starting(value, _values(name))]
    return _starting(typed, _setting_names())


def begin_value(environment: MutableMapping[str, str]) -> None:
    """Let the word that bash completes be the empty one after "=" where "=" is the last word."""
    typed = environment.get("COMP_WORDS", "").split("\n")
    place = environment.get("COMP_CWORD", "")
    if place.isdigit() and typed[int(place) :] == ["="]:
        environment["COMP_CWORD"] = str(int(place) + 1)


def _starting(typed: str, known: Iterable[str]) -> list[str]:
    """The known words that begin with what was typed."""
    return [word for word in known if word.startswith(typed)]


def _values(name: str) -> Iterable[str]:
    """The words that a setting of that name can have, where they are few."""
    if name == "target.kind":
        return TARGET_KINDS
    if name == "model.kind":
        return MODEL_KINDS
    if name == "recipe.name":
        from attnrate.fitting.recipe import RECIPES

        return RECIPES
    return ()


def _setting_names() -> list[str]:
    """The names of settings that every fit has, each with its equals sign."""
    recipe = [f"recipe.{name}=" for name in recipe_names()]
    return ["target.kind=", "model.kind=", *recipe, "seed="]


def recipe_names() -> list[str]:
    """The names of the settings of a training."""
    from attnrate.fitting.recipe import Recipe

    return [field.name for field in fields(Recipe)]
