"""A model that hangs on one node of a Ray cluster, for the tests of profiles on clusters."""

import os
import time
from pathlib import Path

import torch
from torch import nn

import attnrate as ar


class Sticks(nn.Module):
    """A small Transformer; in workers, it never ends on one node, and elsewhere waits for that.

    Args:
        folder: A folder in which it notes the nodes that have begun.
        stuck: The node on which it hangs.

    """

    def __init__(self, folder: Path, stuck: str) -> None:
        super().__init__()
        self.inner = ar.Transformer(2, 1, n=10, m_h=4, m_v=3, heads=2, layers=2)
        self.folder, self.stuck, self.driver = folder, stuck, os.getpid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if os.getpid() != self.driver:
            self._stick()
        result: torch.Tensor = self.inner(x)
        return result

    def _stick(self) -> None:
        import ray

        here = ray.get_runtime_context().get_node_id()
        (self.folder / here).touch()
        if here == self.stuck:
            time.sleep(120)
        patience = time.monotonic() + 90
        while not (self.folder / self.stuck).exists() and time.monotonic() < patience:
            time.sleep(0.02)
