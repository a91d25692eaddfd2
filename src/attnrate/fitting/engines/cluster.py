"""A Ray cluster: finding it, connecting to it, and the error when it cannot be reached."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnrate.errors import WorkerError
from attnrate.extras import missing
from attnrate.fitting.engines import cores

#: How often Ray begins a piece of work anew when its worker or its machine is lost.
RETRIES = 3


class Cluster:
    """The Ray cluster at `address`, else at RAY_ADDRESS, else one made on this machine.

    An open session of Ray is used as it is. Every machine needs the same version of attnrate.

    Attributes:
        ray: The package Ray.

    """

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            given = address or "ray"
            raise missing("ray", "ray", "the engine", given, "Use engine='local'") from None
        self.ray: Any = ray
        self._address = address or os.environ.get("RAY_ADDRESS")

    @property
    def cores(self) -> int:
        """The cores of the cluster, or those of this machine before the session is open."""
        if self.ray.is_initialized():
            return max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        return cores()

    @contextmanager
    def session(self, here: int) -> Iterator[None]:
        """While it is open, Ray is connected; a session that was open before stays open.

        Args:
            here: The number of cores of a cluster that has to be made on this machine.

        """
        mine = self._connect(here)
        try:
            yield
        finally:
            if mine:
                self.ray.shutdown()

    def _connect(self, cpus: int) -> bool:
        """Connect to Ray; return whether a session was opened here, and so must be closed here."""
        if self.ray.is_initialized():
            return False
        here: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                # Ray warns of what the error below says
                warnings.filterwarnings("ignore", "Ray Client connection timed out", UserWarning)
                self.ray.init(
                    address=self._address or "local",
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({} if self._address else here),
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            # after a failed ray:// Ray would take every later session for one of a client
            self.ray.shutdown()
            where = f"at {self._address}" if self._address else "on this machine"
            raise WorkerError(
                f"Ray cannot be reached {where}: {problem}. Start it (ray start --head), or use "
                "the engine local."
            ) from problem
        return True
