"""Shapes written in types are checked at run time in every test (jaxtyping with beartype)."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# what tests of several rooms share
sys.path.insert(0, str(Path(__file__).parent / "tools"))

install_import_hook("attnrate", "beartype.beartype").__enter__()

settings.register_profile(
    "attnrate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("attnrate")
