"""A service: a named DAG of stages, with edges stated and every check made at definition time."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from kwiken._errors import DefinitionError

T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])

Handler = Callable[..., Awaitable[Any]]
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
MAX_STAGES = 1000
MAX_FANOUT = 10_000
MAX_REPLICAS = 10_000


class Partial(msgspec.Struct, Generic[T], frozen=True):
    """What a fan-out hands to the stage that merges it: one place a shard, None where a shard is missing.

    Attributes:
        values: the shards' answers in shard order; None marks a shard that did not answer in time.
        utility: what the answer is worth, from 0 to 1; 1 when nothing is missing.
    """

    values: tuple[T | None, ...]
    utility: float = 1.0

    @property
    def present(self) -> list[T]:
        """The answers that are there, in shard order."""
        return [value for value in self.values if value is not None]

    @property
    def complete(self) -> bool:
        """Whether every shard answered."""
        return all(value is not None for value in self.values)


class Reissue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """When to send a copy of a stage's call to another replica.

    Attributes:
        after_ms: age of the call, from its own start, at which the copy may go.
        probability: share of the calls that reach `after_ms` and get a copy (SingleR, Kaler et al. 2017).
        copies: the most copies that one call may have.
        fraction: share of all calls of the stage that the plan expects to reissue.
    """

    after_ms: float
    probability: float = 1.0
    copies: int = 1
    fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that no clock, coin or replica could serve."""
        if not (math.isfinite(self.after_ms) and self.after_ms >= 0):
            raise ValueError(f"after_ms must be a finite number >= 0, not {self.after_ms}")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must be in (0, 1], not {self.probability}")
        if not 1 <= self.copies <= 16:  # noqa: PLR2004 - a storm, not a hedge, lies beyond
            raise ValueError(f"copies must be from 1 to 16, not {self.copies}")
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"fraction must be in [0, 1], not {self.fraction}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One node of a service's DAG.

    Attributes:
        name: starts with a letter; letters, digits, `_`, `-` and `.`; at most 64 characters.
        after: names of the stages whose answers this one needs, in the order of its handler's parameters.
        handler: coroutine function; takes the parents' answers (a source takes the request), and
            `shard` as a keyword where `fanout` is above 1. None in a definition read from a file.
        fanout: number of shards; one call goes to each.
        replicas: number of server processes that run the stage.
        idempotent: whether a call may run twice; without it the stage is never reissued or retried.
        optional: whether the request may go on with None where this stage fails.
        utility: worth, from 0 to 1, of an answer with shards missing; None: the share of shards present.
        utility_weight: the stage's share in the utility of the whole answer, relative to other stages.
        timeout_ms: the longest that the stage may take.
        cost: relative cost of a whole visit; None: measured.
        reissue: a fixed policy, in force until a plan replaces it.
        setup: run once in every process that serves the stage, before it is ready.
    """

    name: str
    after: tuple[str, ...] = ()
    handler: Handler | None = field(default=None, compare=False)
    fanout: int = 1
    replicas: int = 1
    idempotent: bool = False
    optional: bool = False
    utility: Callable[[Partial[Any]], float] | None = field(default=None, compare=False)
    utility_weight: float = 1.0
    timeout_ms: float = 5000.0
    cost: float | None = None
    reissue: Reissue | None = None
    setup: Callable[[], Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse what can be seen to be wrong in the stage alone."""
        _check_stage(self)


def _check_stage(stage: Stage) -> None:
    def refuse(message: str) -> typing.NoReturn:
        raise DefinitionError(message, stage=stage.name)

    if not (isinstance(stage.name, str) and NAME.match(stage.name)):
        refuse("a name starts with a letter and has at most 64 letters, digits, '_', '-' and '.'")
    _check_numbers(stage, refuse)
    if len(set(stage.after)) != len(stage.after):
        refuse("names a parent twice in `after`")
    if stage.name in stage.after:
        refuse("cannot come after itself")
    if stage.reissue is not None and not stage.idempotent:
        refuse("is not idempotent, so it cannot be reissued; set idempotent=True if a call may run twice")
    if stage.reissue is not None and stage.replicas < 2:  # noqa: PLR2004
        refuse("has one replica, and a reissue goes to another; set replicas=2 or more")
    if stage.utility is not None and stage.fanout == 1:
        refuse("has a utility but no fanout; only a fan-out's answer can be partial")


def _check_numbers(stage: Stage, refuse: Callable[[str], typing.NoReturn]) -> None:
    for label, value, most in (
        ("fanout", stage.fanout, MAX_FANOUT),
        ("replicas", stage.replicas, MAX_REPLICAS),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            refuse(f"{label} must be a whole number from 1 to {most}, not {value!r}")
    for label, number in (
        ("timeout_ms", stage.timeout_ms),
        ("utility_weight", stage.utility_weight),
        ("cost", stage.cost),
    ):
        if number is not None and not (math.isfinite(number) and number > 0):
            refuse(f"{label} must be a finite number above 0, not {number!r}")


@dataclass(frozen=True)
class Signature:
    """Types of a stage's handler, for the wire.

    Attributes:
        inputs: one type a parent (one in all for a source: the request).
        output: type of the answer of one call (of one shard, at a fan-out).
        takes_shard: whether the handler has a keyword `shard`.
    """

    inputs: tuple[Any, ...]
    output: Any
    takes_shard: bool


class Service:
    """A named DAG of stages.

    Args:
        name: as a stage's.
        page: HTML that the gateway serves at `/`; None for none.

    Example:
        ```
        hello = Service("hello")

        @hello.stage(replicas=2, idempotent=True)
        async def greet(name: str) -> str:
            return f"hello, {name}"
        ```
    """

    def __init__(self, name: str, *, page: str | None = None) -> None:
        if not (isinstance(name, str) and NAME.match(name)):
            raise DefinitionError(
                f"service {name!r}: a name starts with a letter; at most 64 letters, digits, '_', '-', '.'"
            )
        self.name = name
        self.page = page
        self._stages: dict[str, Stage] = {}
        self._by_handler: dict[Handler, str] = {}

    @classmethod
    def of(cls, name: str, stages: Iterable[Stage], *, page: str | None = None) -> Service:
        """A service from stages in any order.

        Raises:
            DefinitionError: for a duplicate, an unknown parent, a cycle or a fan-out without merge.
        """
        service = cls(name, page=page)
        waiting: dict[str, Stage] = {}
        for stage in stages:
            if stage.name in waiting:
                raise DefinitionError("is defined twice", stage=stage.name)
            waiting[stage.name] = stage
        known = set(waiting)
        for stage in waiting.values():
            for parent in stage.after:
                if parent not in known:
                    raise DefinitionError(_unknown_parent(parent, known), stage=stage.name)
        while waiting:
            ready = [s for s in waiting.values() if all(p in service._stages for p in s.after)]
            if not ready:
                raise DefinitionError(f"is part of a cycle: {_cycle(waiting)}", stage=next(iter(waiting)))
            for stage in ready:
                service.add(waiting.pop(stage.name))
        return service

    def stage(
        self,
        *,
        after: Iterable[str | Handler] = (),
        name: str | None = None,
        **settings: Any,
    ) -> Callable[[H], H]:
        """Declare the decorated coroutine function a stage; see `Stage` for the settings.

        Args:
            after: the stages, or their handlers, whose answers this one takes, in order.
            name: of the stage; the function's own name where it is None.
            **settings: the other fields of `Stage`.

        Raises:
            DefinitionError: at once, naming the stage, for whatever is wrong with it.
        """

        def declare(handler: H) -> H:
            label = name if name is not None else handler.__name__
            parents = tuple(self._parent_name(parent, label) for parent in after)
            try:
                stage = Stage(name=label, after=parents, handler=handler, **settings)
            except TypeError as error:
                raise DefinitionError(str(error).replace("Stage.__init__() ", ""), stage=label) from None
            self.add(stage)
            return handler

        return declare

    def _parent_name(self, parent: str | Handler, stage: str) -> str:
        if isinstance(parent, str):
            return parent
        if parent not in self._by_handler:
            label = getattr(parent, "__name__", repr(parent))
            raise DefinitionError(_unknown_parent(label, self._stages), stage=stage)
        return self._by_handler[parent]

    def add(self, stage: Stage) -> None:
        """Add a stage whose parents are there already.

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
            _check_handler(stage, self._stages)
            self._by_handler[stage.handler] = stage.name
        self._stages[stage.name] = stage

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The stages by name, parents before children."""
        return self._stages

    def __getitem__(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            DefinitionError: when there is none.
        """
        if name not in self._stages:
            known = ", ".join(self._stages) or "none"
            raise DefinitionError(f"service {self.name!r} has no stage {name!r}; it has: {known}")
        return self._stages[name]

    def __eq__(self, other: object) -> bool:
        """Same name and same stages with the same settings; handlers do not count."""
        if not isinstance(other, Service):
            return NotImplemented
        return self.name == other.name and dict(self._stages) == dict(other._stages)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Service({self.name!r}, stages={list(self._stages)})"

    def children(self, name: str) -> tuple[str, ...]:
        """Names of the stages that take this one's answer."""
        return tuple(stage.name for stage in self._stages.values() if name in stage.after)

    @property
    def sources(self) -> tuple[str, ...]:
        """The stages that take the request itself."""
        return tuple(stage.name for stage in self._stages.values() if not stage.after)

    @property
    def sink(self) -> str:
        """The one stage whose answer is the request's.

        Raises:
            DefinitionError: where there is none, or more than one.
        """
        parents = {parent for stage in self._stages.values() for parent in stage.after}
        sinks = [name for name in self._stages if name not in parents]
        if len(sinks) != 1:
            found = ", ".join(sinks) or "no stage at all"
            raise DefinitionError(f"service {self.name!r} must end in exactly one stage, not in: {found}")
        return sinks[0]

    def check(self) -> None:
        """Check what only the whole can show: one sink, which is no fan-out and not optional.

        Raises:
            DefinitionError: naming the stage.
        """
        sink = self._stages[self.sink]
        if sink.fanout > 1:
            raise DefinitionError("is a fan-out without merge: no stage follows it", stage=sink.name)
        if sink.optional:
            raise DefinitionError("is the last stage, so it cannot be optional", stage=sink.name)

    def signature(self, name: str) -> Signature:
        """Types of the stage's handler.

        Raises:
            DefinitionError: when the stage has no handler or an annotation cannot be read.
        """
        stage = self[name]
        if stage.handler is None:
            raise DefinitionError("has no handler", stage=name)
        hints = _hints(stage)
        parameters = inspect.signature(stage.handler).parameters
        positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
        inputs = tuple(hints.get(p.name, Any) for p in positional[: max(1, len(stage.after))])
        return Signature(inputs=inputs, output=hints.get("return", Any), takes_shard="shard" in parameters)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _unknown_parent(parent: str, known: Iterable[str]) -> str:
    return f"comes after {parent!r}, which is not a stage; known: {', '.join(sorted(known)) or 'none'}"


def _cycle(waiting: Mapping[str, Stage]) -> str:
    """Some cycle among stages of which each waits for another."""
    path: list[str] = []
    name = next(iter(waiting))
    while name not in path:
        path.append(name)
        name = next(parent for parent in waiting[name].after if parent in waiting)
    return " -> ".join([*path[path.index(name) :], name])


def _hints(stage: Stage) -> dict[str, Any]:
    try:
        return typing.get_type_hints(stage.handler)
    except Exception as error:
        raise DefinitionError(f"its annotations cannot be read: {error}", stage=stage.name) from error


def _check_handler(stage: Stage, stages: Mapping[str, Stage]) -> None:
    handler = stage.handler
    if not inspect.iscoroutinefunction(handler):
        raise DefinitionError("its handler must be a coroutine function (async def)", stage=stage.name)
    parameters = inspect.signature(handler).parameters
    positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
    needed = max(1, len(stage.after))
    if len(positional) != needed:
        wanted = ", ".join(stage.after) or "the request"
        raise DefinitionError(
            f"its handler takes {len(positional)} positional parameters, not {needed} ({wanted})",
            stage=stage.name,
        )
    if (stage.fanout > 1) != ("shard" in parameters):
        rule = "needs a keyword parameter `shard`" if stage.fanout > 1 else "has `shard` but no fanout"
        raise DefinitionError(f"its handler {rule}", stage=stage.name)
    hints = _hints(stage) if any(stages[parent].fanout > 1 for parent in stage.after) else {}
    for parameter, parent in zip(positional, stage.after, strict=False):
        hint = hints.get(parameter.name)
        if stages[parent].fanout > 1 and (typing.get_origin(hint) or hint) is not Partial:
            raise DefinitionError(
                f"fan-out {parent!r} without merge: annotate {parameter.name!r} as Partial[...]",
                stage=stage.name,
            )
