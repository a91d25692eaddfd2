"""A Ray cluster of two nodes on this machine, one of which can be lost."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def importable(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the workers import what is in a folder."""
    there = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(there))


@contextmanager
def two_nodes(folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one core each, as far as Ray can tell; `.second` can be removed."""
    importable(folder, monkeypatch)
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        made.second = made.add_node(num_cpus=1)
        made.wait_for_nodes()
        ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
