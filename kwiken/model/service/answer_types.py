"""Type compatibility between stages: a parent's answer against the child's parameter.

Answers travel as MessagePack. Two types are compatible unless no value of the first one, encoded, can be
decoded as the second one. The check is cautious: a type that is unknown here counts as compatible.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 16  # levels of nested containers that are compared; recursive types have no end

_KINDS: Final[dict[type, str]] = {
    msgspec.inspect.NoneType: "null",
    msgspec.inspect.BoolType: "bool",
    msgspec.inspect.IntType: "int",
    msgspec.inspect.FloatType: "float",
    msgspec.inspect.StrType: "str",
    msgspec.inspect.BytesType: "bytes",
    msgspec.inspect.ListType: "array",
    msgspec.inspect.SetType: "array",
    msgspec.inspect.FrozenSetType: "array",
    msgspec.inspect.VarTupleType: "array",
    msgspec.inspect.DictType: "map",
}
_LISTS: Final = (
    msgspec.inspect.ListType,
    msgspec.inspect.SetType,
    msgspec.inspect.FrozenSetType,
    msgspec.inspect.VarTupleType,
)
_OBJECTS: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
)


def can_become(answer: Any, wanted: Any) -> bool:
    """Whether some value of one type, sent over the wire, can be read as another type."""
    try:
        given, taken = msgspec.inspect.multi_type_info([answer, wanted])
    except (TypeError, ValueError, NameError):
        return True  # the codec reports what is wrong with such a type
    return _fits(given, taken, 0)


def _fits(given: msgspec.inspect.Type, taken: msgspec.inspect.Type, depth: int) -> bool:
    """Whether some value of one type can be read as the other. There are three cases."""
    # 1. Equal types, and types nested too deep to compare.
    if depth > MAX_DEPTH or given == taken:
        return True
    # 2. Unions: any arm will do.
    if isinstance(given, msgspec.inspect.UnionType):
        return any(_fits(arm, taken, depth) for arm in given.types)
    if isinstance(taken, msgspec.inspect.UnionType):
        return any(_fits(given, arm, depth) for arm in taken.types)
    # 3. Containers of items, objects with fields, and scalars.
    one, other = _item(given), _item(taken)
    if one is not None and other is not None and _kind(given) == _kind(taken):
        # An empty list decodes as a list of anything, but a stage that sends only empty lists makes no sense.
        return _fits(one, other, depth + 1)
    if isinstance(given, _OBJECTS) and isinstance(taken, _OBJECTS):
        return _objects_fit(given, taken, depth)
    kinds = _kind(given), _kind(taken)
    return None in kinds or kinds[0] == kinds[1] or kinds == ("int", "float")


def _item(kind: msgspec.inspect.Type) -> msgspec.inspect.Type | None:
    """Type of the items of a list or of the values of a dictionary; None for all other types."""
    if isinstance(kind, msgspec.inspect.DictType):
        return kind.value_type
    return kind.item_type if isinstance(kind, _LISTS) else None


def _objects_fit(given: Any, taken: Any, depth: int) -> bool:
    """Whether one object has every field that the other one requires, each of a type that fits."""
    if getattr(given, "array_like", False) or getattr(taken, "array_like", False):
        return True
    sent = {field.encode_name: field for field in given.fields}
    return all(
        _fits(sent[field.encode_name].type, field.type, depth + 1)
        if field.encode_name in sent
        else not field.required
        for field in taken.fields
    )


def _kind(kind: msgspec.inspect.Type) -> str | None:
    """Kind of a type's encoded values; None where a type has values of several kinds."""
    if isinstance(kind, _OBJECTS):
        return None if getattr(kind, "array_like", False) else "map"
    return _KINDS.get(type(kind))
