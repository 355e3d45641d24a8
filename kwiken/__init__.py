"""The brain: service and profile models, curves, apportionment, simulation. No sockets, files or clock."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kwiken._errors import DefinitionError, InputError, KwikenError
from kwiken._service import Partial, Reissue, Service, Stage

if TYPE_CHECKING:
    from kwiken._plan import Budgets, Plan
    from kwiken._profile import Profile, StageProfile

# Whatever needs NumPy loads on first use: a stage's replica needs none of it and starts sooner.
_LAZY = {
    "Budgets": "kwiken._plan",
    "Plan": "kwiken._plan",
    "Profile": "kwiken._profile",
    "StageProfile": "kwiken._profile",
}

__all__ = [
    "Budgets",
    "DefinitionError",
    "InputError",
    "KwikenError",
    "Partial",
    "Plan",
    "Profile",
    "Reissue",
    "Service",
    "Stage",
    "StageProfile",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
