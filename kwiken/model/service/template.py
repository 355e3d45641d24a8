"""Templates of calls to foreign services: text and JSON with placeholders for inputs and their fields.

A placeholder is `{NAME}` or `{NAME.field.field}`. `NAME` is an input of the stage, a field is a name or the
number of a list's item. `{{` and `}}` stand for braces. Nothing in a template is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kwiken.base.errors import InputError

MAX_TEMPLATE_DEPTH: Final = 32  # levels of nested lists and objects in a template of a body
MAX_TYPE_DEPTH: Final = 32  # fields in a row that are checked against a type
_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<path>[^{}]*)\}|(?P<stray>[{}])")
_FIELD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_OBJECTS: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.NamedTupleType,
)
_LISTS: Final = (
    msgspec.inspect.ListType,
    msgspec.inspect.VarTupleType,
    msgspec.inspect.TupleType,
)
_SCALARS: Final = (
    msgspec.inspect.BoolType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.StrType,
    msgspec.inspect.BytesType,
)


class TemplatePlace(NamedTuple):
    """Placeholder: a field of an input.

    Attributes:
        written: the placeholder as written, with braces, for messages.
        input: position of the input among the template's names.
        fields: names of fields and numbers of items, outermost first; empty for the whole input.
    """

    written: str
    input: int
    fields: tuple[str, ...]

    def value(self, inputs: Sequence[Any]) -> Any:
        """Value of the field in plain inputs: dicts, lists and scalars.

        Raises:
            InputError: the input has no such field; names the placeholder.
        """
        value = inputs[self.input]
        for field in self.fields:
            if isinstance(value, dict) and field in value:
                value = value[field]
            elif isinstance(value, list) and field.isdecimal() and int(field) < len(value):
                value = value[int(field)]
            else:
                raise InputError(f"there is no {field!r} in {_kind(value)}", where=self.written)
        return value


class TextTemplate:
    """Text with placeholders.

    Raises:
        ValueError: a brace without its partner, or a placeholder for no input; says which names there are.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.parts: tuple[str | TemplatePlace, ...] = tuple(_parts(text, names))

    @property
    def places(self) -> Iterator[TemplatePlace]:
        """Placeholders of the text."""
        yield from (part for part in self.parts if isinstance(part, TemplatePlace))

    def fill(self, inputs: Sequence[Any], encode: Callable[[str], str] = str) -> str:
        """Text with values in place of the placeholders.

        Args:
            inputs: plain values of the inputs: dicts, lists and scalars.
            encode: makes a value's text safe for the place where the template is used.

        Raises:
            InputError: a field is missing, or its value is no text, number or boolean; names the placeholder.
        """
        return "".join(
            part if isinstance(part, str) else encode(_scalar_text(part, inputs)) for part in self.parts
        )


class JsonTemplate:
    """JSON value whose strings may have placeholders.

    A string that is one placeholder alone becomes the field's value with its type, also a list or an object.
    In any other string the values of placeholders become text.

    Args:
        value: JSON value as written: dicts with names as keys, lists and scalars.

    Attributes:
        tree: the value, with a `TemplatePlace` or a `TextTemplate` in place of each string.

    Raises:
        ValueError: the value is not JSON or nested too deep, or a placeholder is wrong.
    """

    def __init__(self, value: Any, names: Sequence[str]) -> None:
        self.tree = _compile(value, names, 0)

    @property
    def places(self) -> Iterator[TemplatePlace]:
        """Placeholders of the value."""
        yield from _places(self.tree)

    def fill(self, inputs: Sequence[Any]) -> Any:
        """Value with fields in place of the placeholders.

        Args:
            inputs: plain values of the inputs: dicts, lists and scalars.

        Raises:
            InputError: a field is missing or does not fit into text; names the placeholder.
        """
        return _fill(self.tree, inputs)


def _parts(text: str, names: Sequence[str]) -> Iterator[str | TemplatePlace]:
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() > end:
            yield text[end : token.start()]
        end = token.end()
        if token["stray"] is not None:
            raise ValueError(f"{text!r} has a {token[0]!r} without its partner; write '{{{{' for a brace")
        yield token[0][0] if token["path"] is None else _place(token["path"], names)
    if end < len(text):
        yield text[end:]


def _place(path: str, names: Sequence[str]) -> TemplatePlace:
    """Placeholder of a path; the longest name that fits counts, because names may contain dots."""
    written = f"{{{path}}}"
    for name in sorted(names, key=len, reverse=True):
        if path == name or path.startswith(f"{name}."):
            rest = path[len(name) + 1 :]
            fields = tuple(rest.split(".")) if path != name else ()
            if all(_FIELD.match(field) for field in fields):
                return TemplatePlace(written, names.index(name), fields)
            raise ValueError(f"{written} is no placeholder; fields have letters, digits, '_' and '-'")
    known = ", ".join(f"{{{name}}}" for name in names)
    raise ValueError(f"{written} names no input of the stage; its inputs are {known}, each with .field")


def _compile(value: Any, names: Sequence[str], depth: int) -> Any:
    if depth > MAX_TEMPLATE_DEPTH:
        raise ValueError(f"a template is nested at most {MAX_TEMPLATE_DEPTH} levels deep")
    if isinstance(value, str):
        template = TextTemplate(value, names)
        whole = len(template.parts) == 1 and isinstance(template.parts[0], TemplatePlace)
        return template.parts[0] if whole else template
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("an object of a template has names as keys")
        return {key: _compile(inner, names, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_compile(inner, names, depth + 1) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"a template holds JSON values, not {value!r}")


def _places(tree: Any) -> Iterator[TemplatePlace]:
    if isinstance(tree, TemplatePlace):
        yield tree
    elif isinstance(tree, TextTemplate):
        yield from tree.places
    elif isinstance(tree, dict):
        for inner in tree.values():
            yield from _places(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _places(inner)


def _fill(tree: Any, inputs: Sequence[Any]) -> Any:
    if isinstance(tree, TemplatePlace):
        return tree.value(inputs)
    if isinstance(tree, TextTemplate):
        return tree.fill(inputs)
    if isinstance(tree, dict):
        return {key: _fill(inner, inputs) for key, inner in tree.items()}
    if isinstance(tree, list):
        return [_fill(inner, inputs) for inner in tree]
    return tree


def _scalar_text(place: TemplatePlace, inputs: Sequence[Any]) -> str:
    value = place.value(inputs)
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    raise InputError(f"is {_kind(value)}; text takes strings, numbers and booleans", where=place.written)


def _kind(value: Any) -> str:
    """Kind of a plain value, for messages."""
    if isinstance(value, dict):
        return f"an object with the fields {', '.join(sorted(map(str, value))[:10]) or 'none'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "null" if value is None else f"the {type(value).__name__} {str(value)[:40]!r}"


def missing_field(kind: Any, fields: Sequence[str]) -> str | None:
    """First field of a path that no value of a type can have; None if there may be a value that has all.

    Args:
        kind: type of an input; a type that is unknown here may have any field.
        fields: names of fields and numbers of items, outermost first.
    """
    try:
        info = msgspec.inspect.type_info(kind)
    except (TypeError, ValueError, NameError):
        return None  # the codec reports what is wrong with such a type
    return _missing(info, tuple(fields[:MAX_TYPE_DEPTH]))


def _missing(kind: msgspec.inspect.Type, fields: tuple[str, ...]) -> str | None:
    """First field that no value of a type has. There are five cases."""
    # 1. The path ends here.
    if not fields:
        return None
    first, *rest = fields
    # 2. Unions: any arm will do.
    if isinstance(kind, msgspec.inspect.UnionType):
        missed = [_missing(arm, fields) for arm in kind.types]
        return None if None in missed else missed[0]
    # 3. Objects with declared fields.
    if isinstance(kind, _OBJECTS):
        inner = {field.encode_name: field.type for field in kind.fields}.get(first)
    # 4. Dictionaries and lists.
    elif isinstance(kind, msgspec.inspect.DictType):
        inner = kind.value_type
    elif isinstance(kind, _LISTS):
        inner = _item(kind, first)
    # 5. Scalars have no fields; nothing is known of other types.
    else:
        return first if isinstance(kind, (*_SCALARS, msgspec.inspect.NoneType)) else None
    return first if inner is None else _missing(inner, tuple(rest))


def _item(kind: Any, number: str) -> msgspec.inspect.Type | None:
    """Type of a list's item; None where there is no such item."""
    if not number.isdecimal():
        return None
    if not isinstance(kind, msgspec.inspect.TupleType):
        item: msgspec.inspect.Type = kind.item_type
        return item
    return kind.item_types[int(number)] if int(number) < len(kind.item_types) else None
