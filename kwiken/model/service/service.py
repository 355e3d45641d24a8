"""Service: a named DAG of stages, checked at its definition."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.handler import (
    Signature,
    answer_type,
    check_handler,
    item_type,
    signature_of,
    type_name,
)
from kwiken.model.service.remote import SHARD, input_names, templates_of
from kwiken.model.service.request_kinds import RequestKinds
from kwiken.model.service.stage import NAME, Handler, Partial, Reissue, Stage
from kwiken.model.service.template import missing_field

__all__ = ["Partial", "Reissue", "Service", "Stage"]

H = TypeVar("H", bound=Handler)
MAX_STAGES: Final = 1000
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


# Answers travel as MessagePack. Two types are compatible unless no value of the first one, encoded, can be
# decoded as the second one. The check is cautious: a type that is unknown here counts as compatible.
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


class Service:
    """Named DAG of stages.

    Args:
        name: name of the service; the same characters as a stage's name.
        page: HTML that the gateway serves at `/`; None for no page.
        lines: place in which requests name their kind, as `RequestKinds.parse` reads it, so that each kind
            waits in a line of its own at the gateway; None for no lines.

    Raises:
        DefinitionError: for an invalid name, or lines of another form.

    A service of one stage::

        hello = Service("hello")

        @hello.stage(replicas=2, idempotent=True)
        async def greet(name: str) -> str:
            return f"hello, {name}"
    """

    def __init__(self, name: str, *, page: str | None = None, lines: str | None = None) -> None:
        if not (isinstance(name, str) and NAME.match(name)):
            raise DefinitionError(
                f"service {name!r}: a name starts with a letter; at most 64 letters, digits, '_', '-', '.'"
            )
        self.name = name
        self.page = page
        self.lines = lines
        if lines is not None:
            try:
                RequestKinds.parse(lines, where=f"service {name!r}: lines")
            except InputError as error:
                raise DefinitionError(str(error)) from error
        self._stages: dict[str, Stage] = {}
        self._view = types.MappingProxyType(self._stages)
        self._by_handler: dict[Handler, list[str]] = {}

    @classmethod
    def of(
        cls, name: str, stages: Iterable[Stage], *, page: str | None = None, lines: str | None = None
    ) -> Service:
        """Make a service from stages in any order.

        Args:
            stages: all stages of the service.
            page: HTML that the gateway serves at `/`; None for no page.
            lines: as for `Service`; None for no lines.

        Raises:
            DefinitionError: for a duplicate, an unknown parent, a cycle or a fan-out without merge.
        """
        service = cls(name, page=page, lines=lines)
        waiting: dict[str, Stage] = {}
        for stage in stages:
            if stage.name in waiting:
                raise DefinitionError("is defined twice", stage=stage.name)
            waiting[stage.name] = stage
        for stage in waiting.values():
            for parent in stage.after:
                if parent not in waiting:
                    raise DefinitionError(_unknown_parent(parent, waiting), stage=stage.name)
        while waiting:
            before = len(waiting)
            for stage in tuple(waiting.values()):  # keeps the given order where the edges allow
                if service._stages.keys() >= set(stage.after):
                    service.add(waiting.pop(stage.name))
            if len(waiting) == before:
                cycle = _cycle(waiting)
                raise DefinitionError(f"is part of a cycle: {' -> '.join(cycle)}", stage=cycle[0])
        return service

    def stage(
        self,
        *,
        after: Iterable[str | Handler] = (),
        name: str | None = None,
        **settings: Any,
    ) -> Callable[[H], H]:
        """Decorator that declares a coroutine function, or an asynchronous generator, a new stage's handler.

        Args:
            after: parents of the stage, by name or handler, in the order of the handler's parameters.
            name: name of the stage; None for the name of the function.
            **settings: the other fields of `Stage`.

        Raises:
            DefinitionError: when the function is decorated, for an invalid stage; names the stage.
        """

        def declare(handler: H) -> H:
            label = name if name is not None else getattr(handler, "__name__", repr(handler))
            unknown = settings.keys() - Stage.__dataclass_fields__.keys() | settings.keys() & {"handler"}
            if unknown:
                raise DefinitionError(f"there is no setting {min(unknown)!r}", stage=label)
            parents = self._parent_names(after, label)
            self.add(Stage(name=label, after=parents, handler=handler, **settings))
            return handler

        return declare

    def _parent_names(self, after: Iterable[str | Handler], stage: str) -> tuple[str, ...]:
        if isinstance(after, str) or not isinstance(after, Iterable):
            raise DefinitionError("`after` must be a list: after=[parent]", stage=stage)
        return tuple(self._parent_name(parent, stage) for parent in after)

    def _parent_name(self, parent: str | Handler, stage: str) -> str:
        if isinstance(parent, str):
            return parent
        names = self._by_handler.get(parent, [])
        label = getattr(parent, "__name__", repr(parent))
        if not names:
            raise DefinitionError(_unknown_parent(label, self._stages), stage=stage)
        if len(names) > 1:
            raise DefinitionError(
                f"comes after {label!r}, which serves several stages; name one of: {', '.join(names)}",
                stage=stage,
            )
        return names[0]

    def add(self, stage: Stage) -> None:
        """Add a stage whose parents have been added.

        Raises:
            DefinitionError: for a duplicate, an unknown parent, or a handler that does not fit.
        """
        if stage.name in self._stages:
            raise DefinitionError("is defined twice", stage=stage.name)
        if len(self._stages) >= MAX_STAGES:
            raise DefinitionError(f"is one too many; a service has at most {MAX_STAGES}", stage=stage.name)
        for parent in stage.after:
            if parent not in self._stages:
                raise DefinitionError(_unknown_parent(parent, self._stages), stage=stage.name)
        if stage.handler is not None:
            check_handler(stage, self._stages)
            self._by_handler.setdefault(stage.handler, []).append(stage.name)
        self._stages[stage.name] = stage

    @property
    def stages(self) -> Mapping[str, Stage]:
        """Stages by name, parents before children: a read-only view that reflects later additions."""
        return self._view

    def __getitem__(self, name: str) -> Stage:
        """Stage of that name.

        Raises:
            DefinitionError: when there is no such stage.
        """
        if name not in self._stages:
            known = ", ".join(self._stages) or "none"
            raise DefinitionError(f"service {self.name!r} has no stage {name!r}; it has: {known}")
        return self._stages[name]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same name and stages with the same settings; handlers are ignored."""
        if not isinstance(other, Service):
            return NotImplemented
        return self.name == other.name and dict(self._stages) == dict(other._stages)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Service({self.name!r}, stages={list(self._stages)})"

    def children(self, name: str) -> tuple[str, ...]:
        """Names of the stages that take a stage's answer."""
        return tuple(stage.name for stage in self._stages.values() if name in stage.after)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the stages that take the request itself."""
        return tuple(stage.name for stage in self._stages.values() if not stage.after)

    @property
    def sink(self) -> str:
        """Name of the one stage whose answer is that of the request.

        Raises:
            DefinitionError: when there is no such stage, or more than one.
        """
        parents = {parent for stage in self._stages.values() for parent in stage.after}
        sinks = [name for name in self._stages if name not in parents]
        if len(sinks) != 1:
            found = ", ".join(sinks) or "no stage at all"
            raise DefinitionError(f"service {self.name!r} must end in exactly one stage, not in: {found}")
        return sinks[0]

    def check(self) -> None:
        """Check the complete service: one sink (no fan-out, not optional), and types that fit between stages.

        Raises:
            DefinitionError: for the first check that fails; names the stage.
        """
        sink = self._stages[self.sink]
        if sink.fanout > 1:
            raise DefinitionError("is a fan-out without merge: no stage follows it", stage=sink.name)
        if sink.optional:
            raise DefinitionError("is the last stage, so it cannot be optional", stage=sink.name)
        for stage in self._stages.values():
            self._check_types(stage)
            self._check_places(stage)

    def _check_types(self, stage: Stage) -> None:
        """Check that the type of each parent's answer can be decoded as the stage's parameter."""
        if stage.handler is None:
            return
        inputs = signature_of(stage).inputs
        for name, wanted in zip(stage.after, inputs, strict=False):
            parent = self._stages[name]
            if parent.handler is None:
                continue
            answer = answer_type(parent)
            taken = item_type(wanted) if parent.fanout > 1 else wanted
            if not can_become(answer, taken):
                verb = "streams: its items come as" if parent.streams else "answers"
                raise DefinitionError(
                    f"takes {type_name(taken)} from {name!r}, which {verb} {type_name(answer)}",
                    stage=stage.name,
                )

    def _check_places(self, stage: Stage) -> None:
        """Check that the fields in the templates of a foreign service's call can exist."""
        if stage.remote_call is None:
            return
        names = input_names(stage.after, stage.fanout)
        kinds = [self._input_type(stage, index) for index in range(max(1, len(stage.after)))]
        kinds += [int] if SHARD in names[len(kinds) :] else []
        for place in templates_of(stage.remote_call, names).places:
            missing = missing_field(kinds[place.input], place.fields)
            if missing is not None:
                raise DefinitionError(
                    f"remote: {place.written}: {type_name(kinds[place.input])} has no {missing!r}",
                    stage=stage.name,
                )

    def _input_type(self, stage: Stage, index: int) -> Any:
        """Declared type of a stage's input: by its own annotation, else by the parent's answer."""
        declared = signature_of(stage).inputs[index]
        if declared is not Any or not stage.after:
            return declared
        parent = self._stages[stage.after[index]]
        if parent.handler is None:
            return Any
        answer = answer_type(parent)
        return Partial[answer] if parent.fanout > 1 else answer  # type: ignore[valid-type]  # built at run time

    def signature(self, name: str) -> Signature:
        """Types of a stage's handler.

        Raises:
            DefinitionError: when the stage has no handler or an annotation cannot be read.
        """
        return signature_of(self[name])


def _unknown_parent(parent: str, known: Iterable[str]) -> str:
    return f"comes after {parent!r}, which is not a stage; known: {', '.join(sorted(known)) or 'none'}"


def _cycle(waiting: Mapping[str, Stage]) -> list[str]:
    """Names of a cycle among stages that all have a parent among them; ends with its first name."""
    path: list[str] = []
    name = next(iter(waiting))
    while name not in path:
        path.append(name)
        name = next(parent for parent in waiting[name].after if parent in waiting)
    return [*path[path.index(name) :], name]
