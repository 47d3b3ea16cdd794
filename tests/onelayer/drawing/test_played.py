"""What all views share: keys that stay in a view, and keys that JupyterLab gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onelayer.distributed.timeline import TimelineView
from tests.onelayer.drawing.shown import Script


@pytest.fixture(scope="module")
def js() -> Script:
    return Script(TimelineView)


@pytest.mark.parametrize(
    ("pressed", "kept"),
    [
        ({"key": "ArrowRight"}, True),
        ({"key": "b"}, True),
        ({"key": "Enter"}, True),
        ({"key": "Enter", "shiftKey": True}, False),
        ({"key": "Escape"}, False),
        ({"key": "s", "ctrlKey": True}, False),
        ({"key": "s", "metaKey": True}, False),
    ],
)
def test_a_notebook_gets_the_keys_that_run_leave_and_save_and_no_other(
    js: Script, pressed: dict[str, Any], kept: bool
) -> None:
    event = f"{{ ...{json.dumps(pressed)}, stopPropagation() {{ stopped = true; }} }}"
    code = f"(() => {{ let stopped = false; keepFromNotebook({event}); return stopped; }})()"
    assert js.value_of(code) is kept
