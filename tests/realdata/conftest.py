"""Real data for tests: what the cache holds, and nothing else; a test fetches none of it.

Most of these data are 80 MB or more, so each would take longer than all tests of its file. They are
fetched before, by the commands that a skipped test names or by `.ci/fetch.py`, which fails where
data could not be had though their registry answers.
"""

import pytest

from attnrate.data import registry
from attnrate.data.registry import UnreachableError


@pytest.fixture(scope="session")
def real():
    """Call what opens the data; what is not in the cache skips the test with the command for it."""

    def get(command, make, *given):
        def refused(package, work):
            pytest.skip(f"{package.file} is not in the cache, and tests fetch nothing: {command}")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registry, "_run", refused)
            try:
                return make(*given)
            except UnreachableError as problem:
                pytest.skip(f"{problem} On a machine that has it: {command}")

    return get
