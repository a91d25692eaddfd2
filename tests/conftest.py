"""Shapes written in types are checked at run time in every test (jaxtyping with beartype)."""

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

install_import_hook("attnrate", "beartype.beartype").__enter__()

settings.register_profile(
    "attnrate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("attnrate")
