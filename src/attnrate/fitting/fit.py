"""One model on one target: train by a recipe, measure the error on fresh inputs."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.fitting.recipe import Recipe, as_recipe, make_optimizer
from attnrate.models import Transformer
from attnrate.targets import AttentionTarget, ErrorEstimate, Target, error_of
from attnrate.theory.compile import compile_target

Tensor = torch.Tensor
#: Sequences for watching a fit, and for its final error
_WATCHED, _JUDGED = 512, 8192
#: Seeds of inputs are spread so that training, watching and judging never share any
_TRAINING, _WATCHING, _JUDGING = 1 << 40, 1 << 41, 1 << 42
#: Hidden units of the compiled networks that a warm start begins with
_WARM_UNITS = 128
#: A loss so many times the first one has diverged
_EXPLODED = 1e4


@dataclass(frozen=True)
class Look:
    """The error on the watched inputs at one moment of a fit."""

    step: int
    seconds: float
    error: float


@dataclass(frozen=True)
class Fit:
    """A trained model and how it came about.

    `error` is the mean squared error on fresh inputs, `seconds` the time of training without
    looking, `stopped` why it ended: "steps", "plateau" or "diverged".
    """

    error: float
    standard_error: float
    seconds: float
    steps: int
    stopped: str
    seed: int
    recipe: Recipe
    learning_rate: float
    curve: tuple[Look, ...] = field(repr=False)
    model: nn.Module = field(repr=False)

    @property
    def diverged(self) -> bool:
        """Whether every attempt diverged; such a fit must not enter an average."""
        return self.stopped == "diverged"

    def seconds_to(self, error: float) -> float | None:
        """The time until the watched error was first at or below `error`, or None."""
        return next((look.seconds for look in self.curve if look.error <= error), None)

    def __str__(self) -> str:
        return (
            f"mse {self.error:.3e} ± {self.standard_error:.1e} by {self.recipe.name}, seed "
            f"{self.seed}: {self.steps:,} steps, {self.seconds:.1f} s, stopped: {self.stopped}"
        )


def fit(
    target: Target,
    model: nn.Module | Callable[[], nn.Module],
    recipe: object = "strong",
    seed: object = 0,
    threads: object = 1,
    device: object = None,
    watch: Callable[[Look], object] | None = None,
    **changes: object,
) -> Fit:
    """Train `model` on `target`; the model passed in is left as it is, a copy is trained.

    `model` may be a function that makes one: it is called under `seed`, so that weights and data
    both follow from the seed. Settings of the recipe can be changed by name (steps=500). It trains
    on a GPU where there is one, unless `device` says otherwise; the result is on the CPU, in
    float32 as trained. `watch` is told of every look at the error.
    """
    chosen = as_recipe(recipe, **changes)
    number = require_whole("seed", seed, 0)
    workers = require_whole("threads", threads, 1)
    start = _initial(model, number)
    if chosen.start == "compiled":
        start = _compiled(target, start)
    start = start.float()
    place = _place(device)
    before = torch.get_num_threads()
    torch.set_num_threads(workers)
    try:
        for attempt in range(chosen.retries + 1):
            scale = 3.0**-attempt
            trained, run = _train(target, copy.deepcopy(start), chosen, number, place, scale, watch)
            if run.stopped != "diverged":
                break
        found = (
            ErrorEstimate(float("nan"), float("nan"))
            if run.stopped == "diverged"
            else error_of(trained, target, _JUDGED, _JUDGING + number, dtype=torch.float32)
        )
    finally:
        torch.set_num_threads(before)
    return Fit(
        error=found.value,
        standard_error=found.standard_error,
        seconds=run.seconds,
        steps=run.steps,
        stopped=run.stopped,
        seed=number,
        recipe=chosen,
        learning_rate=chosen.lr * scale,
        curve=tuple(run.curve),
        model=trained,
    )


def _place(device: object) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)  # type: ignore[call-overload, no-any-return]
    except (RuntimeError, TypeError):
        raise InputError("device is not known to torch", device, "Pass 'cpu' or 'cuda'.") from None


def _initial(model: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = model()
    if not isinstance(made, nn.Module):
        raise InputError("model must be a torch module, or a function that makes one", made)
    return made


def _compiled(target: Target, model: nn.Module) -> nn.Module:
    if not isinstance(model, Transformer) or not isinstance(target, AttentionTarget):
        raise InputError(
            "a warm start needs a Transformer and a target of the form of Eq. 8",
            (type(target).__name__, type(model).__name__),
            "Use the recipe 'strong'.",
        )
    return compile_target(target, model.m_h, _WARM_UNITS)


@dataclass
class _Run:
    """What a training run has to tell; filled in as it goes."""

    curve: list[Look]
    seconds: float = 0.0
    steps: int = 0
    stopped: str = "steps"


def _train(
    target: Target,
    model: nn.Module,
    recipe: Recipe,
    seed: int,
    place: torch.device,
    scale: float,
    watch: Callable[[Look], object] | None,
) -> tuple[nn.Module, _Run]:
    model = model.to(place).train()
    optimizer = make_optimizer(recipe, [p for p in model.parameters() if p.requires_grad])
    generator = torch.Generator().manual_seed(_TRAINING + seed)
    watched = target.sample(_WATCHED, _WATCHING + seed, torch.float32)
    truth = target(watched.double()).float().to(place)
    watched = watched.to(place)
    run, first, lowest = _Run([]), None, float("inf")
    # the error that a plateau is counted from, and the look that saw it
    mark, marked = float("inf"), 0
    kept = copy.deepcopy(model.state_dict())
    for step in range(recipe.steps):
        begin = time.perf_counter()
        x = target.inputs.draw(recipe.batch_at(step), target.length, generator).float()
        loss = nn.functional.mse_loss(model(x.to(place)), target(x).to(place))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step, scale)
        optimizer.step()
        run.seconds += time.perf_counter() - begin
        run.steps = step + 1
        last = step + 1 == recipe.steps
        if (step + 1) % recipe.check_every and not last:
            continue
        with torch.no_grad():
            error = float(nn.functional.mse_loss(model.eval()(watched), truth))
        model.train()
        first = error if first is None else first
        if not error <= _EXPLODED * first:
            run.stopped = "diverged"
            break
        look = Look(step + 1, run.seconds, error)
        run.curve.append(look)
        if watch is not None:
            watch(look)
        if error < lowest:
            lowest, kept = error, copy.deepcopy(model.state_dict())
        if error < mark * (1 - recipe.gain):
            mark, marked = error, len(run.curve)
        elif len(run.curve) - marked >= recipe.patience:
            run.stopped = "plateau"
            break
    model.load_state_dict(kept)
    return model.cpu().eval(), run
