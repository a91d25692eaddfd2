"""The optimiser of a recipe; recipes themselves are read without torch, which takes a second."""

import warnings
from collections.abc import Iterable

import torch

from attnrate.fitting.recipe import Recipe


def make_optimizer(
    recipe: Recipe, parameters: Iterable[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser of a recipe. The training loop sets its step size before every step."""
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.lr)
    with warnings.catch_warnings():
        # it imports transformers, which asks for ipywidgets in a notebook, where we need none
        warnings.filterwarnings("ignore", message="IProgress not found")
        from pytorch_optimizer import SOAP

    return SOAP(
        parameters, lr=recipe.lr, betas=(0.95, 0.95), weight_decay=0.0, precondition_frequency=10
    )
