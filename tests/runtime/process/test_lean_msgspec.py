"""Server processes start without `typing_extensions` and types of documents; what users take from there works."""

from __future__ import annotations

import subprocess
import sys

LEAN = """
import sys
import kwiken.runtime.process.server_process
assert "typing_extensions" not in sys.modules, "imported"
assert "kwiken.model.service.codec" not in sys.modules, "imported"

import msgspec
import typing_extensions

class Item(typing_extensions.TypedDict):
    name: typing_extensions.Required[str]
    size: typing_extensions.NotRequired[typing_extensions.Annotated[int, msgspec.Meta(ge=1)]]

assert msgspec.convert({"name": "a"}, Item) == {"name": "a"}
for wrong in ({"size": 1}, {"name": "a", "size": 0}):
    try:
        msgspec.convert(wrong, Item)
    except msgspec.ValidationError:
        continue
    raise AssertionError(wrong)
"""


def test_a_server_process_starts_without_what_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
