"""Profiling a model: one pass for the spectra, a second over a few inputs for what cuts cost.

For each call of an attention layer, estimate.py takes the second moments of queries and keys and
turns them into the spectra of each input; the sums of the moments give the pooled spectrum. No
matrix of size T × T is formed. Only the few inputs on which cuts are measured are kept. They have
no part in making the cuts, so that what is measured holds for inputs that come later.
"""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from torch import nn

from attnrate.errors import AccuracyWarning, InputError
from attnrate.fitting.engines import require_engine
from attnrate.fitting.provenance import provenance
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, Natural, by, checked
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch, Inputs, count_of, require_inputs
from attnrate.spectra.cut import Cut, Loss, losses
from attnrate.spectra.digest import weights_digest
from attnrate.spectra.inputs.given import as_batches
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.load import LoadedModel, ModelLike, module_of, require_model
from attnrate.spectra.measures import SHARES, rank_of, tails
from attnrate.spectra.picked import Layers, Picked, require_layers
from attnrate.spectra.result import Profile
from attnrate.spectra.resume import State, require_resume
from attnrate.spectra.runners import Held, Work, runner_of
from attnrate.spectra.watching.unseen import Unseen
from attnrate.spectra.watching.watcher import Watcher
from attnrate.words import Gauge, GaugeLike, require_gauge

#: Frames between a public function that is `checked` and whoever calls it
_CHECKED_FRAMES = 4


@checked
def profile(
    model: Annotated[ModelLike, by(require_model)],
    inputs: Annotated[Inputs, by(require_inputs)],
    gauge: GaugeLike = "softmax",
    *,
    layers: Annotated[Layers | None, by(require_layers)] = None,
    cut_inputs: Natural = 8,
    name: str | None = None,
    resume: Annotated[str | os.PathLike[str] | None, by(require_resume)] = None,
    engine: Annotated[str, by(require_engine)] = "local",
    workers: Count | None = None,
    progress: bool | None = None,
) -> Profile:
    """Measure what each attention head of a trained model uses of its dimensions.

    The model is run on the inputs in evaluation mode; it is not changed. For each head the singular
    values of its logits, the matrix that goes into softmax, say how many dimensions the head uses.
    What smaller heads would cost is measured by cutting them for real. See docs/profile.md for the
    definitions and for the models that are known.

    Args:
        model: A torch module, or a model opened by `load_model`.
        inputs: A batch (a dictionary of tensors by the names of the model's arguments, or a tensor
            for a model with one argument), several batches one after another (a list, a
            DataLoader, a generator), or texts for a model of `load_model`: strings, chats, rows of
            a dataset. `Inputs` says more.
        gauge: "softmax" takes out of the logits what softmax cannot see, the mean of each row;
            "none" leaves it in. Both are computed; this one is shown.
        layers: Numbers or names of the attention layers to profile; all by default.
        cut_inputs: The number of inputs on which cuts are measured. They are the first ones, and
            have no part in making the cuts; some inputs are always left to make cuts from. 0
            measures no cuts.
        name: The model's name in tables and figures; the name of its folder or class by default.
        resume: A folder that keeps what is finished, so that a run that was killed can be gone on
            with: the same call, with the same inputs in the same order, then skips the finished
            batches. The folder is removed at the end. None keeps nothing.
        engine: Where the model runs: "local" is this process, "ray" a Ray cluster (that of
            RAY_ADDRESS, or else one made on this machine), "ray://HOST:PORT" the cluster there.
        workers: With a Ray cluster, the number of processes that hold the model and share its
            cores; by default one on each machine.
        progress: True writes plain lines where there is no terminal; False shows nothing. By
            default a terminal or a notebook shows a live line after a second.

    Returns:
        The spectra of all heads, with `to_frame`, `plot`, `plot_ranks`, and `advise` to go on.

    Raises:
        InputError: None of the model's attention could be read, or the model cannot be run on the
            inputs, or these are not the inputs of the run that is to be resumed.
        WorkerError: The Ray cluster cannot be reached, or has given up.

    Warns:
        AccuracyWarning: Some attention of the model could not be read; `unseen` says which, and
            why.

    Examples:
        >>> import torch
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> found = ar.profile(layer, torch.randn(4, 20, 16), cut_inputs=2)
        >>> [(one.name, one.heads, one.m_h) for one in found.layers]
        [('self_attn', 2, 8)]
        >>> found.pooled(layer=0, head=0).shape
        (8,)

    """
    shown = require_gauge("gauge", gauge)
    module = module_of(model)
    inputs = as_batches(model, inputs)
    runner = runner_of(engine, workers)
    picked = Picked.of(layers)
    digest = weights_digest(module)
    folder = None if resume is None else Path(resume)
    with ExitStack() as stack:
        stack.enter_context(runner.session())
        state = stack.enter_context(State(folder, module, digest, picked, cut_inputs))
        watcher = Watcher(module)
        state.recall(watcher)
        sample: list[Batch] = []
        feed = _feed(batches.batches(inputs), cut_inputs, state, sample)
        total = count_of(inputs)
        left = None if total is None else total - state.gathered.batches
        work = Work(model, digest, watcher, picked, state.gathered, left)
        with Progress("spectra", wanted=progress, after=QUIET) as line:
            for piece in runner.pieces(work, feed):
                if not state.gathered.order:
                    picked.check(piece.order)
                state.add(piece)
                line.at(*_how_far(state.gathered.batches, total))
        unseen = watcher.unseen()
        done = [*state.gathered.piece().layers]
        if not done:
            raise nothing_seen(module, unseen)
        if unseen:
            warnings.warn(
                "attention that could not be read is left out: " + "; ".join(map(str, unseen)),
                AccuracyWarning,
                stacklevel=1 + _CHECKED_FRAMES,
            )
        if sample:
            state.keep()
            with Progress("cutting heads", wanted=progress, after=QUIET) as line:
                done = with_cuts(watcher, sample, done, shown, line)
    own = model.name if isinstance(model, LoadedModel) else type(module).__name__
    return Profile(
        model=name or own,
        family=watcher.family,
        gauge=shown,
        layers=tuple(done),
        made_by=provenance(),
        unseen=tuple(unseen),
        digest=digest,
    )


def _feed(
    given: Iterable[Batch], cut_inputs: int, state: State, sample: list[Batch]
) -> Iterator[Held]:
    """The batches that are still to be run; inputs on which cuts are measured go to `sample`."""
    for batch, held in _held_out(given, cut_inputs):
        if held:
            sample.append(batches.pick(batch, held))
        if not state.is_finished(batch, held):
            yield batch, held
    state.check_end()


def _how_far(done: int, total: int | None) -> tuple[str, float | None]:
    """How many batches are done, in words and as a share."""
    of = "" if total is None else f" of {total}"
    return f"spectra: batch {done}{of}", None if total is None else done / total


def nothing_seen(model: nn.Module, unseen: list[Unseen]) -> InputError:
    """The error for a model none of whose attention was seen; `unseen` looks like attention."""
    if unseen:
        return InputError(
            f"none of the attention of this {type(model).__name__} could be read: {{value}}",
            "; ".join(map(str, unseen[:3])) + (f"; and {len(unseen) - 3} more" * (len(unseen) > 3)),
            "Write an adapter (docs/profile.md, 'An adapter of your own'), or look at the weights "
            "alone (weight_spectra, --weights-only).",
        )
    return InputError(
        f"this {type(model).__name__} has no softmax attention that ran on these inputs; its parts",
        dict(Counter(type(part).__name__ for part in model.modules()).most_common(12)),
        "For attention of your own that is computed out of torch's sight, write an adapter "
        "(docs/profile.md, 'An adapter of your own').",
    )


def _held_out(given: Iterable[Batch], wanted: int) -> Iterator[Held]:
    """Each batch with the numbers of its inputs on which cuts are measured.

    They are the first inputs, in a row: neighbouring pieces of a text are alike, so taking every
    second one would measure cuts on what they nearly know. Some inputs are always left to make cuts
    from: half of a single batch, and the only input if there is one.
    """
    rest = iter(given)
    batch = next(rest)
    held = 0
    others = False
    while True:
        following = next(rest, None)
        size = batches.size(batch)
        last_chance = following is None and not others
        free = (0 if held else size // 2) if last_chance else size
        taken = min(wanted - held, free)
        if 0 < taken < size and not batches.is_separable(batch):
            taken = 0
        held += taken
        others = others or taken < size
        yield batch, list(range(taken))
        if following is None:
            return
        batch = following


def with_cuts(
    watcher: Watcher,
    sample: list[Batch],
    done: list[LayerSpectra],
    gauge: Gauge,
    shown: Progress,
) -> list[LayerSpectra]:
    """The layers, with the measured effect of cutting their heads to the ranks of the shares."""
    ranks = [
        {layer.name: rank_of(layer.pooled["logits", gauge], share) for layer in done}
        for share in SHARES
    ]
    cuts = [
        {layer.name: layer.cut_to(of[layer.name].tolist(), gauge) for layer in done} for of in ranks
    ]
    measured = losses(watcher, sample, cuts, shown)
    return [
        replace(
            layer,
            cuts={
                share: _cut(layer, of[layer.name], loss[layer.name], gauge)
                for share, of, loss in zip(SHARES, ranks, measured, strict=True)
                if layer.name in loss
            },
        )
        for layer in done
    ]


def _cut(layer: LayerSpectra, ranks: np.ndarray, loss: Loss, gauge: Gauge) -> Cut:
    tail = np.take_along_axis(tails(layer.pooled["logits", gauge]), ranks[:, None], -1)[:, 0]
    shape = loss.weights.shape
    return Cut(
        np.broadcast_to(ranks, shape), np.broadcast_to(tail, shape), loss.weights, loss.output
    )
