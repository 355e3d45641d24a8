"""Stage of a service: its settings, and the checks that depend on the stage alone."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from kwiken.base.errors import DefinitionError
from kwiken.model.service.remote import GrpcCall, HttpCall, Remote, input_names, remote_of, templates_of

T = TypeVar("T")

Handler = Callable[..., Awaitable[Any] | AsyncIterator[Any]]
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
MAX_FANOUT: Final = 10_000
MAX_REPLICAS: Final = 10_000
MAX_THREADS: Final = 1024
MAX_COST: Final = 1e12  # of a cost or a utility weight
MAX_COPIES: Final = 16  # of one call: more would overload a stage rather than hedge
MAX_MS: Final = 86_400_000.0  # a day: no request waits longer, and every clock can represent it


class Partial(msgspec.Struct, Generic[T], frozen=True):
    """Answer of a fan-out to the stage that merges it, possibly without some shards.

    Attributes:
        values: answers in shard order; None for a shard that did not answer in time.
        utility: worth of the answer, 0 to 1; 1 when no shard is missing.
    """

    values: tuple[T | None, ...]
    utility: float = 1.0

    @property
    def present(self) -> list[T]:
        """Answers that arrived, in shard order."""
        return [value for value in self.values if value is not None]

    @property
    def complete(self) -> bool:
        """Whether every shard answered."""
        return all(value is not None for value in self.values)


class Following(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Delay of copies that follows the present latency of the stage's calls.

    Attributes:
        quantile: share of the calls that are to end before their copy is sent, above 0 and below 1.
        least_ms: shortest delay, milliseconds, above 0.
        most_ms: longest delay, milliseconds, from `least_ms` to `MAX_MS`.
    """

    quantile: float
    least_ms: float
    most_ms: float

    def __post_init__(self) -> None:
        """Check that the quantile is a share and the bounds are ordered."""
        if not 0 < self.quantile < 1:  # NaN fails too
            raise ValueError(f"quantile must be above 0 and below 1, not {self.quantile}")
        if not 0 < self.least_ms <= self.most_ms <= MAX_MS:
            raise ValueError(
                f"least_ms and most_ms must be ordered, above 0 and at most {MAX_MS:.0f} (a day), not "
                f"{self.least_ms} and {self.most_ms}"
            )


class Reissue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """Reissue policy: when to send a copy of a stage's call to another replica.

    Attributes:
        after_ms: age of the call from its own start at which a copy may be sent, milliseconds, 0 to `MAX_MS`.
        probability: share of the calls of that age that may have copies, above 0 and at most 1 (SingleR,
            Kaler et al. 2017); one draw decides for all copies of a call.
        copies: maximum number of copies of one call, 1 to `MAX_COPIES`.
        fraction: share of all calls of the stage that the plan expects to reissue, 0 to 1.
        follow: how the delay follows the present latency, from `after_ms` on; not set for a fixed delay.
        max_body_bytes: largest body of a call that is copied, bytes, 0 or more; not set for any size.
    """

    after_ms: float
    probability: float = 1.0
    copies: int = 1
    fraction: float = 0.0
    # Not set rather than None: a document says nothing of a setting that it does not use.
    follow: Following | msgspec.UnsetType = msgspec.UNSET
    max_body_bytes: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Check that every field is in its range."""
        if not 0 <= self.after_ms <= MAX_MS:  # NaN fails too
            raise ValueError(f"after_ms must be from 0 to {MAX_MS:.0f} (a day), not {self.after_ms}")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must be in (0, 1], not {self.probability}")
        if not 1 <= self.copies <= MAX_COPIES:
            raise ValueError(f"copies must be from 1 to {MAX_COPIES}, not {self.copies}")
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"fraction must be in [0, 1], not {self.fraction}")
        if self.max_body_bytes is not msgspec.UNSET and self.max_body_bytes < 0:
            raise ValueError(f"max_body_bytes must be 0 or more, not {self.max_body_bytes}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Stage of a service: one node of its DAG.

    Attributes:
        name: name of the stage: a letter, then letters, digits, `_`, `-` and `.`; at most 64 characters.
        after: names of the parents, whose answers the stage takes, in the order of its handler's parameters.
        handler: coroutine function that takes the parents' answers (a source takes the request), the keyword
            `shard` where `fanout` is above 1, and the keyword `threads` where `threads` is above 1. None in a
            definition read from a file. An asynchronous generator, `async def ... -> AsyncIterator[T]` with
            `yield`, streams: each item of a last stage goes to the client as it comes, and those of another
            one are the list that the stage after it takes. Of a stage with `remote` only the
            annotations count: they are the types of its input and answer, `AsyncIterator[T]` where `remote`
            streams, and the function is never called.
        remote: call of a foreign service that serves the stage, as `HttpCall` or `GrpcCall`; a text `http://`
            or `grpc://` stands for either with its defaults. None for a stage that kwiken's replicas serve.
        fanout: number of shards, 1 to `MAX_FANOUT`; a request makes one call to each.
        replicas: number of server processes that run the stage, 1 to `MAX_REPLICAS`.
        idempotent: whether a call may run twice; a stage that is not idempotent is never reissued or retried.
        optional: whether a request continues with None as the answer when the stage fails.
        items_so_far: of a stage that streams: whether its items so far are its answer, a partial one, when
            the time for further ones is up.
        utility: function from a partial answer to its worth, 0 to 1; None for the share of shards present.
        utility_weight: weight of the stage in the utility of the whole answer, relative to other stages,
            above 0.
        timeout_ms: maximum latency of the stage, milliseconds, above 0 and at most `MAX_MS`; of a stage that
            streams, longest wait for its next item, the first included.
        attempt_timeout_ms: maximum latency of one attempt, milliseconds, above 0 and below `timeout_ms`:
            then it has failed, and its call is sent once more. None for no limit of its own.
        accept: function that says whether an answer, of one shard in a fan-out, is acceptable. Another one
            does not win against a pending attempt, and its call is sent once more; it is the call's answer
            if no attempt gives a better one. Of a stage that streams it is asked of each item until one is
            acceptable, which decides the race; the end of a stream does so too. None for all.
        resume: of a stage that streams: function of its inputs and the list of its items so far, that returns
            the input (a tuple of several) of a call that goes on after the last of them. Another replica
            gets that call where a stream is lost with its replica, or has no further item within
            `timeout_ms`. None to end by an error then.
        worth: function from a complete answer to the relative worth of each shard's part, such as 1 for the
            shard with the top hit and 0 for the rest; plans of partial answers are made from it. None for the
            fall of `utility` without that shard.
        threads: maximum number of threads that a late request's call can use, 1 to `MAX_THREADS`; above 1 the
            handler gets the number as the keyword `threads`.
        cost: relative cost of a whole visit, above 0; None to measure it.
        reissue: reissue policy that is in force until a plan replaces it; None for no copies.
        setup: function that each process serving the stage runs once before it is ready; None for none.

    Raises:
        DefinitionError: for an invalid field; names the stage and the field.
    """

    name: str
    after: tuple[str, ...] = ()
    handler: Handler | None = field(default=None, compare=False)
    fanout: int = 1
    replicas: int = 1
    idempotent: bool = False
    optional: bool = False
    items_so_far: bool = False
    utility: Callable[[Partial[Any]], float] | None = field(default=None, compare=False)
    utility_weight: float = 1.0
    timeout_ms: float = 5000.0
    attempt_timeout_ms: float | None = None
    accept: Callable[[Any], bool] | None = field(default=None, compare=False)
    resume: Callable[..., Any] | None = field(default=None, compare=False)
    worth: Callable[[Partial[Any]], Sequence[float]] | None = field(default=None, compare=False)
    threads: int = 1
    cost: float | None = None
    reissue: Reissue | None = None
    remote: Remote | str | None = None
    setup: Callable[[], Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check every field that does not depend on other stages."""
        if not (isinstance(self.name, str) and NAME.match(self.name)):
            raise DefinitionError(
                "a name starts with a letter and has at most 64 letters, digits, '_', '-' and '.'",
                stage=str(self.name),
            )
        after: Any = self.after
        if isinstance(after, list):
            object.__setattr__(self, "after", tuple(after))
        if self.remote is not None:
            object.__setattr__(self, "remote", _remote_call(self))
        problems = itertools.chain(
            _parent_problems(self),
            _number_problems(self),
            _policy_problems(self),
            _attempt_problems(self),
            _partial_problems(self),
            _remote_problems(self),
            _stream_problems(self),
        )
        problem = next(problems, None)
        if problem is not None:
            raise DefinitionError(problem, stage=self.name)

    @property
    def streams(self) -> bool:
        """Whether its answer is a stream of items: by its `remote`, else its handler is such a generator."""
        if self.remote_call is not None:
            return bool(self.remote_call.stream)
        return inspect.isasyncgenfunction(self.handler)

    @property
    def remote_call(self) -> Remote | None:
        """Call of the foreign service that serves the stage; None for a stage that kwiken serves."""
        remote = self.remote
        assert not isinstance(remote, str), "a text became a call when the stage was defined"
        return remote


def _parent_problems(stage: Stage) -> Iterator[str]:
    after: Any = stage.after
    if not (isinstance(after, tuple) and all(isinstance(parent, str) for parent in after)):
        yield f"`after` must be a list of stages' names, not {after!r}"
    elif len(set(after)) != len(after):
        yield "names a parent twice in `after`"
    elif stage.name in after:
        yield "cannot come after itself"


def _number_problems(stage: Stage) -> Iterator[str]:
    for label, most in (("fanout", MAX_FANOUT), ("replicas", MAX_REPLICAS), ("threads", MAX_THREADS)):
        value = getattr(stage, label)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            yield f"{label} must be a whole number from 1 to {most}, not {value!r}"
    for label, limit in (
        ("timeout_ms", MAX_MS),
        ("attempt_timeout_ms", MAX_MS),
        ("utility_weight", MAX_COST),
        ("cost", MAX_COST),
    ):
        value = getattr(stage, label)
        if label in {"cost", "attempt_timeout_ms"} and value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= limit:
            yield f"{label} must be a number above 0 and at most {limit:g}, not {value!r}"


def _partial_problems(stage: Stage) -> Iterator[str]:
    for label in ("utility", "worth"):
        if getattr(stage, label) is not None and stage.fanout == 1:
            yield f"has a {label} but no fanout; only a fan-out's answer can be partial"


def _policy_problems(stage: Stage) -> Iterator[str]:
    for label in ("idempotent", "optional", "items_so_far"):
        if not isinstance(getattr(stage, label), bool):
            yield f"{label} must be True or False, not {getattr(stage, label)!r}"
    for label in ("utility", "worth", "setup", "accept", "resume"):
        if getattr(stage, label) is not None and not callable(getattr(stage, label)):
            yield f"{label} must be a function, not {getattr(stage, label)!r}"
    reissue: Any = stage.reissue
    if reissue is None:
        return
    if not isinstance(reissue, Reissue):
        yield f"reissue must be a Reissue, not {reissue!r}"
    if not stage.idempotent:
        yield "is not idempotent, so it cannot be reissued; set idempotent=True if a call may run twice"
    if stage.replicas < 2 and stage.remote_call is None:  # noqa: PLR2004 - one for the call, one for its copy
        yield "has one replica, and a reissue goes to another; set replicas=2 or more"


def _attempt_problems(stage: Stage) -> Iterator[str]:
    limit: Any = stage.attempt_timeout_ms
    if limit is None:
        return
    if not stage.idempotent:
        yield "is not idempotent, so an attempt that timed out could not be sent again; use timeout_ms alone"
    if limit >= stage.timeout_ms:
        yield f"attempt_timeout_ms must be below timeout_ms ({stage.timeout_ms:g}), not {limit:g}"


def _remote_call(stage: Stage) -> Remote:
    """Call of the foreign service, from a text too, with lists as tuples.

    Raises:
        DefinitionError: it is none, or a field has a wrong type.
    """
    given: Any = stage.remote
    if isinstance(given, str):
        return remote_of(given)
    if not isinstance(given, HttpCall | GrpcCall):
        raise DefinitionError(
            f"remote must be an HttpCall, a GrpcCall or a text, not {given!r}", stage=stage.name
        )
    try:
        return msgspec.convert(msgspec.to_builtins(given), type(given))
    except (msgspec.ValidationError, TypeError) as error:
        raise DefinitionError(f"remote: {error}", stage=stage.name) from error


def _stream_problems(stage: Stage) -> Iterator[str]:
    if not stage.streams:
        if stage.items_so_far and (stage.handler is not None or stage.remote is not None):
            yield "has items_so_far, but it does not stream"
        if stage.resume is not None:
            yield "has resume, but it does not stream"
        return
    if stage.fanout > 1:
        yield "streams, and a fan-out cannot stream yet; use fanout=1"
    if stage.resume is None:
        return
    if not stage.idempotent:
        yield "has resume and is not idempotent; set idempotent=True if a call may run twice"
    count = max(1, len(stage.after))
    with contextlib.suppress(ValueError):  # a function without a signature
        try:
            inspect.signature(stage.resume).bind(*range(count + 1))
        except TypeError as error:
            yield f"resume is called with {count} inputs and the list of items: {error}"


def _remote_problems(stage: Stage) -> Iterator[str]:
    remote = stage.remote_call
    if remote is None:
        return
    yield from remote.problems()
    try:
        templates_of(remote, input_names(stage.after, stage.fanout))
    except ValueError as error:
        yield str(error)
    if stage.replicas > 1:
        yield "is served by a foreign service; its replicas are the addresses of `remote`, not `replicas`"
    if stage.threads > 1:
        yield "is served by a foreign service, which takes no number of threads"
    if stage.setup is not None:
        yield "is served by a foreign service, so no process would run its setup"
