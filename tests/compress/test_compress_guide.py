"""The guide docs/compress.md: its example runs and makes a smaller model."""

import re
from pathlib import Path

from attnrate.compress.result import Compressed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compress.md"


def test_the_example_of_the_guide_runs_and_makes_a_smaller_model() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102 - our own page
    done = names["done"]
    assert isinstance(done, Compressed)
    assert done.parameters < done.parameters_before
    assert [(x.size, x.value_size) for x in done.layers] == [(4, 4), (4, 4)]
