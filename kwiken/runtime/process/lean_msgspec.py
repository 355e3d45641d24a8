"""Import of msgspec without `typing_extensions`, which costs every process 7 MB and time at the start.

msgspec takes three names from it where it can be imported, and from `typing` elsewhere. From Python 3.11 on
both have them, and they do the same for msgspec. The module is not kept from anybody who imports it later.
"""

from __future__ import annotations

import sys
from typing import Any, Final, cast

_NAME: Final = "typing_extensions"

if _NAME not in sys.modules and "msgspec" not in sys.modules:
    cast("dict[str, Any]", sys.modules)[_NAME] = None  # its import fails
    try:
        import msgspec  # noqa: F401 - for its effect
    finally:
        del sys.modules[_NAME]
