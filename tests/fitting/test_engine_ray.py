"""Ray: the numbers of a local sweep, also when a machine is lost in the middle of it."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sweep_standin
from ray_nodes import needs_ray, two_nodes
from sweep_standin import grid, times, tiny

from attnrate.errors import InputError, WorkerError
from attnrate.fitting.sweep import sweep

FOLDER = str(Path(sweep_standin.__file__).parent)


@pytest.fixture
def cluster(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one core each, as far as Ray can tell; the second can be removed."""
    with two_nodes(FOLDER, monkeypatch) as made:
        yield made


def values(result: Any) -> list[float]:
    return [row.result["value"] for row in result.finished]


@needs_ray
@pytest.mark.slow
def test_a_cluster_that_loses_a_node_finishes_with_the_numbers_of_a_local_sweep(
    cluster: Any, log: Path, tmp_path: Path
) -> None:
    log.with_suffix(".node").write_text(cluster.second.node_id)
    name = sweep_standin.sticks_on_a_node

    def lose_the_node() -> None:
        patience = time.monotonic() + 180
        while not times(log, "sticks") and time.monotonic() < patience:
            time.sleep(0.01)
        cluster.remove_node(cluster.second, allow_graceful=False)

    losing = threading.Thread(target=lose_the_node)
    losing.start()
    result = sweep(grid(16), "ray", tmp_path / "ray.sqlite", function=name)
    losing.join()
    assert (len(result.finished), result.failed, result.ran) == (16, (), 16)
    (stuck,) = times(log, "sticks")
    (row,) = (row for row in result.finished if row.key == stuck)
    assert cluster.second.node_id[:8] not in row.worker
    local = sweep(grid(16), "local", tmp_path / "local.sqlite", 2, function=tiny)
    assert values(result) == values(local)
    again = sweep(grid(16), "ray", tmp_path / "ray.sqlite", function=tiny)
    assert (again.ran, again.finished) == (0, result.finished)


@needs_ray
@pytest.mark.slow
def test_real_fits_have_the_same_errors_as_local_ones(tmp_path: Path) -> None:
    fits = {
        "target": {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4},
        "model": {"kind": "transformer", "n": 2, "m_h": 1, "m_v": 2, "width": 4, "depth": 1},
        "recipe": {"name": "strong", "steps": 20},
        "grid": {"seed": [0, 1]},
    }
    ray = sweep(fits, "ray", tmp_path / "ray.sqlite", 2)
    local = sweep(fits, "local", tmp_path / "local.sqlite", 1)
    assert (len(ray.finished), ray.failed) == (2, ())
    errors = [row.result["error"] for row in ray.finished]
    assert errors == [row.result["error"] for row in local.finished]
    assert errors[0] != errors[1]


@needs_ray
@pytest.mark.slow
def test_without_a_cluster_ray_runs_here_and_ends_here(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("PYTHONPATH", FOLDER)
    name = sweep_standin.raises_for_seed_1
    result = sweep(grid(6, 0.0), "ray", tmp_path / "ray.sqlite", 2, function=name)
    assert [row.settings["seed"] for row in result.failed] == [1, 1]
    assert "seed 1 is not liked here" in result.failed[0].error
    assert len(result.finished) == 4
    assert not ray.is_initialized()


@needs_ray
def test_a_cluster_that_is_not_there_is_an_error_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"127\.0\.0\.1:1"):
        sweep(grid(2), "ray://127.0.0.1:1", tmp_path / "ray.sqlite", function=tiny)
    from ray._private.client_mode_hook import client_mode_should_convert

    assert not client_mode_should_convert(), "another cluster can be used after that"


def test_without_ray_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'ray"):
        sweep(grid(2), "ray", tmp_path / "ray.sqlite", function=tiny)
    assert os.listdir(tmp_path) == []
