"""Every public name says what it is, every public function names its arguments, results and errors."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOMS = (
    "kwiken",
    "kwiken.export",
    "kwiken.learning",
    "kwiken.levers",
    "kwiken.queueing",
    "kwiken.reproduction",
)
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)


def public() -> Iterator[tuple[str, Any]]:
    """Every public class and function once, under the first room that offers it."""
    seen: set[int] = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and id(thing) not in seen:
                seen.add(id(thing))
                yield f"{room}.{name}", thing


THINGS = dict(public())
FUNCTIONS = {name: thing for name, thing in THINGS.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in THINGS.items() if inspect.isclass(thing)}


def told(text: str, section: str) -> set[str]:
    """The names that a section of a docstring explains."""
    parts = SECTION.split(inspect.cleandoc(text))
    body = dict(zip(parts[1::2], parts[2::2], strict=True)).get(section, "")
    return set(re.findall(r"^    \*{0,2}(\w+):", body, re.MULTILINE))


def arguments(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.name not in {"self", "cls"} and each.kind not in kinds]


@pytest.mark.parametrize("name", THINGS)
def test_everything_public_says_what_it_is(name: str) -> None:
    assert len((THINGS[name].__doc__ or "").strip()) > 20


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_name_each_argument(name: str) -> None:
    missing = [
        each for each in arguments(FUNCTIONS[name]) if each not in told(FUNCTIONS[name].__doc__ or "", "Args")
    ]
    assert not missing, f"{name} does not explain {missing}"


@pytest.mark.parametrize("name", CLASSES)
def test_classes_name_each_field(name: str) -> None:
    """A record's fields stand under Attributes or Args."""
    kind = CLASSES[name]
    fields = getattr(kind, "__struct_fields__", None) or tuple(getattr(kind, "__dataclass_fields__", ()))
    text = kind.__doc__ or ""
    known = told(text, "Attributes") | told(text, "Args")
    missing = [
        each for each in fields if not each.startswith("_") and each not in known and f"`{each}`" not in text
    ]
    assert not missing, f"{name} does not explain {missing}"
