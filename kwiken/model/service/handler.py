"""Handler signatures: checked when a stage is defined, and read for encoding and decoding of calls."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwiken.base.errors import DefinitionError
from kwiken.model.service.remote import CHUNKS
from kwiken.model.service.stage import Handler, Partial, Stage

_PASSED = frozenset({"shard", "threads"})
_STREAMS = frozenset({AsyncIterator, AsyncIterable, AsyncGenerator})
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Signature:
    """Types of a stage's handler, for encoding and decoding of calls.

    Attributes:
        inputs: type of each parent's answer; for a source, the type of the request.
        output: type of the answer of one call (of one shard, at a fan-out; of one item, where it streams).
        takes_shard: whether the handler has a keyword `shard`.
        takes_threads: whether the handler has a keyword `threads`.
    """

    inputs: tuple[Any, ...]
    output: Any
    takes_shard: bool
    takes_threads: bool = False


def signature_of(stage: Stage) -> Signature:
    """Types of a stage's handler.

    Args:
        stage: stage with a handler, or one that a foreign service serves: without a handler that may take and
            answer anything.

    Raises:
        DefinitionError: when the stage has no handler or an annotation cannot be read.
    """
    if stage.handler is None:
        if stage.remote_call is None:
            raise DefinitionError("has no handler", stage=stage.name)
        return Signature((Any,) * max(1, len(stage.after)), Any, takes_shard=stage.fanout > 1)
    hints = _hints(stage)
    parameters = inspect.signature(stage.handler).parameters
    positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
    inputs = tuple(hints.get(p.name, Any) for p in positional[: max(1, len(stage.after))])
    return Signature(
        inputs=inputs,
        output=_streamed_type(stage, hints) if stage.streams else hints.get("return", Any),
        takes_shard="shard" in parameters,
        takes_threads=stage.threads > 1,
    )


def answer_type(stage: Stage) -> Any:
    """Type of the answer of one call as the stages after it take it: of a stream, the list of its items.

    Raises:
        DefinitionError: as of `signature_of`.
    """
    output = signature_of(stage).output
    return list[output] if stage.streams else output  # type: ignore[valid-type]  # built at run time


def _streamed_type(stage: Stage, hints: Mapping[str, Any]) -> Any:
    """Type of the items of a stage that streams.

    Raises:
        DefinitionError: when the answer is not annotated as an iterator of items.
    """
    hint = hints.get("return", Any)
    if hint is Any:
        return Any
    if typing.get_origin(hint) not in _STREAMS or not typing.get_args(hint):
        what = "handler yields items" if stage.remote is None else "remote streams"
        raise DefinitionError(
            f"its {what}: annotate its answer as AsyncIterator[T], not {type_name(hint)}",
            stage=stage.name,
        )
    item = typing.get_args(hint)[0]
    if stage.remote_call is not None and stage.remote_call.stream == CHUNKS and item not in {str, Any}:
        raise DefinitionError(
            f"its remote streams chunks, which are text: annotate its answer as AsyncIterator[str], not "
            f"{type_name(hint)}",
            stage=stage.name,
        )
    return item


def item_type(hint: Any) -> Any:
    """Type of one shard's answer in `Partial[...]`, optional or not; `Any` where it is not given."""
    is_union = typing.get_origin(hint) in {typing.Union, types.UnionType}
    for arm in typing.get_args(hint) if is_union else (hint,):
        if typing.get_origin(arm) is Partial:
            return typing.get_args(arm)[0]
    return Any


def type_name(hint: Any) -> str:
    """Name of a type for messages, as written in the source."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _function(handler: Handler | None) -> Any:
    """Function that has the annotations of a handler; a `functools.partial` has none of its own."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler


def _hints(stage: Stage) -> dict[str, Any]:
    assert stage.handler is not None
    try:
        return typing.get_type_hints(_function(stage.handler))
    except Exception as error:
        raise DefinitionError(f"its annotations cannot be read: {error}", stage=stage.name) from error


def check_handler(stage: Stage, stages: Mapping[str, Stage]) -> None:
    """Check that the parameters of a stage's handler fit its parents and settings.

    Args:
        stages: stages by name, including all parents.

    Raises:
        DefinitionError: for a handler that does not fit; names the stage and the parameter.
    """

    def refuse(message: str) -> typing.NoReturn:
        raise DefinitionError(f"its handler {message}", stage=stage.name)

    if (problem := _kind_problem(stage)) is not None:
        refuse(problem)
    assert stage.handler is not None
    parameters = inspect.signature(stage.handler).parameters
    for word, needed, without in (
        ("shard", stage.fanout > 1, "no fanout"),
        ("threads", stage.threads > 1, "threads=1"),
    ):
        given = parameters.get(word)
        if needed and (given is None or given.kind is not inspect.Parameter.KEYWORD_ONLY):
            refuse(f"needs a keyword-only parameter `{word}`: write it after a `*`")
        if given is not None and not needed and (word == "shard" or given.kind is given.KEYWORD_ONLY):
            refuse(f"has `{word}` but {without}")
    for extra in parameters.values():
        if extra.kind is extra.KEYWORD_ONLY and extra.default is extra.empty and extra.name not in _PASSED:
            refuse(f"needs {extra.name!r}, which no caller passes; give it a default")
    positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
    count = max(1, len(stage.after))
    if len(positional) != count:
        wanted = ", ".join(stage.after) or "the request"
        refuse(f"takes {len(positional)} positional parameters, not {count} ({wanted})")
    _check_merge(stage, [p.name for p in positional], stages)


def _kind_problem(stage: Stage) -> str | None:
    """What is wrong with the kind of a handler; None for a coroutine function, or a generator of items."""
    if stage.streams:
        _streamed_type(stage, _hints(stage))
        return None
    if stage.remote is not None and inspect.isasyncgenfunction(stage.handler):
        return "yields items, and its remote answers once: say `stream` in `remote`, or return one answer"
    if not inspect.iscoroutinefunction(stage.handler):
        return "must be a coroutine function (async def)"
    if "AsyncIterator" in str(getattr(_function(stage.handler), "__annotations__", {}).get("return")):
        what = "`yield` each item" if stage.remote is None else "say `stream` in `remote`"
        return f"is annotated to stream, and yields nothing; {what}, or return one answer"
    return None


def _check_merge(stage: Stage, parameters: Sequence[str], stages: Mapping[str, Stage]) -> None:
    """Check annotations: `Partial` for fan-outs and no others, and `None` allowed for optional parents."""
    written = getattr(_function(stage.handler), "__annotations__", {})
    hints: dict[str, Any] | None = None
    for name, parent in zip(parameters, (stages[parent] for parent in stage.after), strict=False):
        plain = parent.fanout == 1 and not parent.optional
        if plain and "Partial" not in str(written.get(name)):
            continue  # nothing to check: annotations that exist for type checkers only need not resolve
        hints = _hints(stage) if hints is None else hints
        problem = _merge_problem(name, hints.get(name, Any), parent)
        if problem is not None:
            raise DefinitionError(problem, stage=stage.name)


def _merge_problem(name: str, hint: Any, parent: Stage) -> str | None:
    is_union = typing.get_origin(hint) in {typing.Union, types.UnionType}
    arms = list(typing.get_args(hint)) if is_union else [hint]
    solid = [arm for arm in arms if arm is not type(None)]
    partials = [arm for arm in solid if (typing.get_origin(arm) or arm) is Partial]
    if parent.fanout > 1 and not (partials and partials == solid):
        return f"fan-out {parent.name!r} without merge: annotate {name!r} as Partial[...]"
    if parent.fanout == 1 and partials:
        return f"takes {name!r} as Partial[...], but {parent.name!r} is no fan-out"
    if parent.optional and len(solid) == len(arms) and hint is not Any and hint is not object:
        return f"comes after {parent.name!r}, which is optional: annotate {name!r} as ... | None"
    return None
