"""The skeleton of pages: nothing that is written into a page can end a script of it."""

import json
import re

from attnrate.pages.skeleton import safe_json


def test_json_in_a_script_cannot_end_it() -> None:
    text = safe_json({"a": "</script><!-- &\u2028"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!-- &\u2028"}
