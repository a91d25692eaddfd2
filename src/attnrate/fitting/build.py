"""From the plain settings of a trial to its target, model and recipe, and to complete settings."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from importlib import import_module
from typing import Any

import torch

from attnrate.errors import InputError, hint, require_whole
from attnrate.fitting.job import Sized, canonical, plain
from attnrate.fitting.train import LARGEST_SEED
from attnrate.fitting.trial import Trial
from attnrate.fitting.warm import compiled_within
from attnrate.targets import Target, move_to_end, swap_ends, uniform_kernel

_TARGETS = {
    "spectral": "spectral_target",
    "linear": "linear_target",
    "nearest_point": "nearest_point",
    "centre_of_gravity": "centre_of_gravity",
    "selection": "selection",
    "gravity": "gravity",
}
_MODELS = {
    "transformer": "Transformer",
    "coupling": "CouplingTransformer",
    "linear_rnn": "LinearRNN",
    "gru": "GRU",
    "state_space": "StateSpace",
    "convolution": "CausalConvolution",
}
# Arguments that are no plain values, or that the target or the engine decides.
_NOT_SETTINGS = {"inputs", "d", "out", "device", "dtype", "generator", "f_hat", "F_hat"}
_ALTERATIONS = ("permute", "mix")
_ORDERS = {"swap_ends": swap_ends, "move_to_end": move_to_end}
_K = 10  # positions that Tables 1 and 2 move


def complete(trials: Iterable[Trial]) -> list[Sized[Trial]]:
    """Every trial with all of its settings spelled out, after building each part once.

    Spelled out, a key stands for what is computed and not for what a version's defaults happened
    to be. Building finds a wrong setting now instead of in the middle of a sweep. The size is the
    number of parameters times that of the tokens it is trained on: roughly what a fit costs.
    """
    targets: dict[str, Target] = {}
    sizes: dict[str, int] = {}
    warm: set[str] = set()
    completed: list[Sized[Trial]] = []
    for trial in trials:
        target_settings = complete_target(trial.target)
        model_settings = complete_model(trial.model)
        recipe = build_recipe(trial.recipe)
        of_target = canonical(target_settings)
        if of_target not in targets:
            targets[of_target] = build_target(target_settings)
        target = targets[of_target]
        of_model = canonical([model_settings, target.d, target.out, target.length])
        if of_model not in sizes:
            sizes[of_model] = _tried(model_settings, target)
        of_both = canonical([target_settings, model_settings])
        if recipe.start == "compiled" and of_both not in warm:
            compiled_within(target, _trial_model(model_settings, target))
            warm.add(of_both)
        seed = require_whole("seed", trial.seed, 0, LARGEST_SEED)
        whole = Trial(target_settings, model_settings, complete_recipe(trial.recipe), seed)
        tokens = target.length * recipe.sequences
        completed.append(Sized(whole, sizes[of_model] * tokens))
    return completed


def _tried(settings: Mapping[str, Any], target: Target) -> int:
    """The parameters of the model, after it has read two inputs of the target."""
    model = _trial_model(settings, target).eval()
    with torch.no_grad():
        model(target.sample(2, 0, torch.float32))
    return sum(p.numel() for p in model.parameters())


def _trial_model(settings: Mapping[str, Any], target: Target) -> torch.nn.Module:
    """A model to try things on; the caller's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        return build_model(settings, target)


def build(trial: Trial) -> tuple[Target, Callable[[], torch.nn.Module], Any]:
    """The target, a function that makes the model, which `fit` calls under a seed, the recipe."""
    target = build_target(trial.target)
    make_model = functools.partial(build_model, complete_model(trial.model), target)
    return target, make_model, build_recipe(trial.recipe)


def build_target(settings: Mapping[str, Any]) -> Target:
    """The target with these settings: a kind, its arguments, and perhaps `permute` and `mix`."""
    settings = complete_target(settings)
    kind = settings["kind"]
    given = {k: v for k, v in settings.items() if k not in ("kind", *_ALTERATIONS)}
    if kind == "linear" and isinstance(given["kernel"], dict):
        given["kernel"] = uniform_kernel(given["length"], given["kernel"]["uniform"])
    target: Target = _constructor("targets", _TARGETS[kind])(**given)
    if "permute" in settings:
        target = target.permuted(_order(settings["permute"], target.length))
    if "mix" in settings:
        target = target.mixed(settings["mix"]["theta"], settings["mix"]["causal"])
    return target


def build_model(settings: Mapping[str, Any], target: Target) -> torch.nn.Module:
    """The model with these settings, for tokens of the target; its weights as torch draws them.

    A model that needs to know the length, and is not told, is made for that of the target.
    """
    settings = complete_model(settings)
    given = {key: value for key, value in settings.items() if key != "kind"}
    positioned = given.get("position", "none") != "none"
    sees_all = settings["kind"] == "convolution" and given["layers"] is None
    if (positioned or sees_all) and given["length"] is None:
        given["length"] = target.length
    make = _constructor("models", _MODELS[settings["kind"]])
    model: torch.nn.Module = make(target.d, target.out, **given)
    return model


def build_recipe(settings: Mapping[str, Any]) -> Any:
    """The recipe of that name ("strong" if none is given), with its fields replaced as told."""
    from attnrate.fitting.recipe import RECIPES

    name = settings.get("name", "strong")
    if name not in RECIPES:
        raise InputError("recipe.name is not known", name, hint(str(name), RECIPES))
    recipe: Any = RECIPES[name]
    known = [field.name for field in fields(recipe)]
    for key, value in settings.items():
        if key not in known:
            raise InputError(f"recipe.{key} is not known", value, hint(key, known))
    # JSON has no tuples, and a frozen recipe should hold no lists.
    changes = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
    return replace(recipe, **changes)


def complete_target(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The target's settings with defaults filled in; InputError for a name it does not know."""
    kind = _kind("target", settings, _TARGETS)
    known = _parameters(_constructor("targets", _TARGETS[kind]))
    full = _filled("target", settings, known, ("kind", *_ALTERATIONS))
    if kind == "linear":
        full["kernel"] = _kernel(full["kernel"])
    if "permute" in settings:
        full["permute"] = _permutation(settings["permute"])
    if "mix" in settings:
        full["mix"] = _mix(settings["mix"])
    return full


def complete_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The model's settings with defaults filled in; InputError for a name it does not know."""
    kind = _kind("model", settings, _MODELS)
    known = _parameters(_constructor("models", _MODELS[kind]))
    return _filled("model", settings, known, ("kind",))


def complete_recipe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's settings with defaults filled in; InputError for a name it does not know."""
    full: dict[str, Any] = plain("recipe", asdict(build_recipe(settings)))
    return full


def _kind(part: str, settings: Mapping[str, Any], known: Mapping[str, str]) -> str:
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in known:
        what = f"{part}.kind is " + ("missing" if kind is None else "not known")
        raise InputError(what, kind, hint(str(kind), known))
    return kind


def _constructor(room: str, name: str) -> Callable[..., Any]:
    made: Callable[..., Any] = getattr(import_module(f"attnrate.{room}"), name)
    return made


def _parameters(constructor: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(constructor).parameters
    return {name: p for name, p in parameters.items() if name not in _NOT_SETTINGS}


def _filled(
    part: str,
    settings: Mapping[str, Any],
    known: Mapping[str, inspect.Parameter],
    besides: tuple[str, ...],
) -> dict[str, Any]:
    for name, value in settings.items():
        if name not in known and name not in besides:
            raise InputError(
                f"{part}.{name} is not known for {part}.kind = {settings['kind']!r}",
                value,
                hint(name, [*known, *besides]),
            )
    full = {"kind": settings["kind"]}
    for name, parameter in known.items():
        if name in settings:
            full[name] = settings[name]
        elif parameter.default is inspect.Parameter.empty:
            raise InputError(f"{part}.{name} is missing", dict(settings), f"Set {part}.{name}.")
        else:
            full[name] = parameter.default
    return full


def _kernel(kernel: object) -> object:
    if not isinstance(kernel, Mapping):
        return kernel
    if [*kernel] != ["uniform"]:
        raise InputError("target.kernel as a table must be {uniform = SEED}", dict(kernel))
    return {"uniform": require_whole("target.kernel.uniform", kernel["uniform"], 0)}


def _permutation(permute: object) -> object:
    """A list of positions as it is, a named order with the number of positions that it moves."""
    if isinstance(permute, list):
        return permute
    named = {permute: _K} if isinstance(permute, str) else permute
    if not isinstance(named, Mapping) or len(named) != 1 or not {*named} <= {*_ORDERS}:
        name = next(iter(named)) if isinstance(named, Mapping) and named else permute
        raise InputError("target.permute is not known", permute, hint(str(name), _ORDERS))
    return {name: require_whole(f"target.permute.{name}", k, 1) for name, k in named.items()}


def _order(permute: object, length: int) -> object:
    if not isinstance(permute, dict):
        return permute
    ((name, k),) = permute.items()
    return _ORDERS[name](length, k)


def _mix(mix: object) -> dict[str, Any]:
    known = ("theta", "causal")
    if not isinstance(mix, Mapping):
        raise InputError("target.mix must be a table", mix, "As {theta = [0.5, 0.5]}.")
    for name, value in mix.items():
        if name not in known:
            raise InputError(f"target.mix.{name} is not known", value, hint(name, known))
    if "theta" not in mix:
        raise InputError("target.mix.theta is missing", dict(mix), "Set the filter's weights.")
    causal = mix.get("causal", True)
    if not isinstance(causal, bool):
        raise InputError("target.mix.causal must be true or false", causal)
    return {"theta": mix["theta"], "causal": causal}
