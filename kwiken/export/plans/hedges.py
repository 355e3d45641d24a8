"""Hedging policies of a plan for export: one for each kind of call, with notes on what an export loses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.export.plans.calls import ExportedCall, StageAddress, call_of, entry_for
from kwiken.model.plan.plan import Plan, SpanMatch
from kwiken.model.service.stage import Reissue

NANOSECONDS: Final = 10**9
MAX_NAME: Final = 120
MAX_LISTED: Final = 5
NEEDS_GRPC: Final = "grpc"
NEEDS_HOST: Final = "host"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Settings for another program.

    Attributes:
        notes: what the settings cannot express, or what must hold for them to work, one or two sentences
            each.
    """

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Hedge:
    """Hedging policy of one kind of call.

    Attributes:
        stages: names of the stages that make these calls.
        call: method, host and path of the calls.
        after_ms: age of a call at which its copy is sent.
        copies: upper bound of the copies of one call, 1 or more.
        probability: share of the calls of that age that get a copy.
        share: upper bound of the share of all calls that the plan reissues.
    """

    stages: tuple[str, ...]
    call: ExportedCall
    after_ms: float
    copies: int
    probability: float
    share: float

    @property
    def label(self) -> str:
        """Names of its stages, fit for a comment."""
        return ", ".join(plain(name) for name in self.stages)


def plain(text: str) -> str:
    """A name from a trace as one line of bounded length, fit for a comment."""
    return printable(text, most=MAX_NAME)


def hedges(
    plan: Plan, targets: Mapping[str, StageAddress], *, needs: str, where: str = "plan"
) -> tuple[list[Hedge], list[str]]:
    """Policies for each kind of call that the plan reissues, in the plan's order, and notes.

    Args:
        needs: `grpc`: calls must be gRPC methods at any host; `host`: calls need a host.

    Raises:
        InputError: for reissued stages whose calls are not known; names the stages and an entry for a map.
    """
    found: dict[ExportedCall, list[str]] = {}
    bystanders: dict[ExportedCall, list[str]] = {}
    lost: list[str] = []
    for name, stage in plan.stages.items():
        call = _usable(call_of(stage.match, targets.get(name)), needs)
        if stage.reissue is None:
            if call is not None:
                bystanders.setdefault(call, []).append(name)
        elif call is None:
            lost.append(name)
        else:
            found.setdefault(call, []).append(name)
    if lost:
        raise InputError(_how_to_name(plan, lost, needs), where=where)
    merged = [_merged(plan, call, names) for call, names in found.items()]
    guessed = [
        name
        for names in found.values()
        for name in names
        if not _has_host(plan.stages[name].match, targets.get(name))
    ]
    notes = [*_host_notes(guessed if needs == NEEDS_HOST else []), *_merge_notes(plan, found, bystanders)]
    notes += [*_method_notes(found), *_policy_notes(plan)]
    return merged, notes


def missing_entries(
    plan: Plan, targets: Mapping[str, StageAddress], *, needs: str
) -> dict[str, dict[str, Any]]:
    """Entries of a map for all reissued stages whose calls are not known, to be filled in; empty for none."""
    return {
        name: {"call": "package.Service/Method"} if needs == NEEDS_GRPC else entry_for(stage.match)
        for name, stage in plan.stages.items()
        if stage.reissue is not None and _usable(call_of(stage.match, targets.get(name)), needs) is None
    }


def _usable(call: ExportedCall | None, needs: str) -> ExportedCall | None:
    if call is None:
        return None
    if needs == NEEDS_GRPC:
        return (
            ExportedCall(path=call.path, method=call.method, grpc=call.grpc)
            if call.grpc is not None
            else None
        )
    return call if call.host else None


def _how_to_name(plan: Plan, lost: Sequence[str], needs: str) -> str:
    first, match = lost[0], plan.stages[lost[0]].match
    spans = (
        f"its spans are {match.operation!r} of {match.service!r}" if match is not None else "it has no match"
    )
    if needs == NEEDS_GRPC:
        what, entry = "names no gRPC method", _json({first: "package.Service/Method"})
    else:
        what = "names no HTTP path or gRPC method at a host"
        entry = _json({first: entry_for(match)})
    others = f" (and {len(lost) - 1} more; --template writes a map with all)" if len(lost) > 1 else ""
    return f"stage {first!r}{others} {what}: {spans}; name its call in --map: {entry}"


def _json(entry: Mapping[str, object]) -> str:
    """An entry to copy from a message to a map: JSON that terminals and line wrapping cannot spoil."""
    text = json.dumps(entry, ensure_ascii=False)
    text = text if printable(text) == text else json.dumps(entry)
    return text.replace("  ", " \\u0020")  # messages are printed with single spaces


def _merged(plan: Plan, call: ExportedCall, names: Sequence[str]) -> Hedge:
    """Most careful policy of stages with equal calls: largest delay, fewest copies, lowest probability."""
    policies = [policy for name in names if (policy := plan.stages[name].reissue) is not None]
    return Hedge(
        stages=tuple(names),
        call=call,
        after_ms=max(policy.after_ms for policy in policies),
        copies=min(policy.copies for policy in policies),
        probability=min(policy.probability for policy in policies),
        share=min(_share(plan, name, policy) for name, policy in zip(names, policies, strict=True)),
    )


def _share(plan: Plan, name: str, policy: Reissue) -> float:
    """Share of calls that the plan reissues; if not stated, what the whole budget could buy."""
    if policy.fraction > 0:
        return policy.fraction
    cost = plan.cost.stages.get(name, 0.0)
    return min(1.0, plan.budgets.reissue / cost) if cost > 0 else 1.0


def _has_host(match: SpanMatch | None, target: StageAddress | None) -> bool:
    return (target is not None and target.host is not None) or (match is not None and match.host is not None)


def _host_notes(guessed: Sequence[str]) -> Iterator[str]:
    """Note on hosts taken from spans: client spans carry the caller's service name, not the callee's."""
    if guessed:
        yield (
            f"the host of {_listed(guessed)} is the service name of its spans; where that is the caller's "
            "own (client spans), give the callee's host in the map of calls"
        )


def _merge_notes(
    plan: Plan, found: Mapping[ExportedCall, list[str]], bystanders: Mapping[ExportedCall, list[str]]
) -> Iterator[str]:
    for call, names in found.items():
        if len(names) > 1:
            yield (
                f"stages {_listed(names)} are the same call ({plain(str(call))}): "
                f"they share the latest delay and the fewest copies of their policies{_later(plan, names)}"
            )
        if call in bystanders:
            yield (
                f"the same call ({plain(str(call))}) also serves {_listed(bystanders[call])}, "
                "which the plan does not reissue: its calls will be reissued too"
            )


def _method_notes(found: Mapping[ExportedCall, list[str]]) -> Iterator[str]:
    """Note on paths whose method is not known: the settings hold for writes to the same path too."""
    for call, names in found.items():
        if call.method is None and call.grpc is None:
            path = plain(str(call))
            yield (
                f"no span says by which method {_listed(names)} is called, so the settings hold for all "
                f"methods of {path}, writes too; if there are any, give GET and the path in the map of calls"
            )


def _later(plan: Plan, names: Sequence[str]) -> str:
    """What the latest delay of several stages loses; empty where all have the same."""
    delays = [policy.after_ms for name in names if (policy := plan.stages[name].reissue) is not None]
    first, last = min(delays), max(delays)
    if first == last:
        return ""
    return (
        f"; {first:.4g} ms became {last:.4g} ms, so the settings copy fewer calls than the plan, and cut less"
    )


def _policy_notes(plan: Plan) -> Iterator[str]:
    if all(stage.reissue is None for stage in plan.stages.values()):
        yield "the plan reissues nothing, so there are no settings to write"
    else:
        yield (
            "a copy needs a second replica: apply a setting only where its calls have two or more replicas "
            "to go to, as a copy to the same one waits behind its call and loads it"
        )
    for lost, what in (
        ("follow", "delays that follow the present latency become the plan's fixed ones at"),
        ("max_body_bytes", "copies go whatever the size of the body at"),
    ):
        names = [
            name
            for name, stage in plan.stages.items()
            if stage.reissue is not None and getattr(stage.reissue, lost) is not msgspec.UNSET
        ]
        if names:
            yield f"lost: {what} {_listed(names)} ({lost})"
    for policy, what in (
        ("partial", "answers before all shards are in"),
        ("catch_up", "help for late requests"),
    ):
        names = [name for name, stage in plan.stages.items() if getattr(stage, policy) is not None]
        if names:
            yield f"lost: {what} ({policy}) of {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(plain(name)) for name in names[:MAX_LISTED])
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown


def coin_notes(found: Sequence[Hedge], program: str) -> Iterator[str]:
    """Note for a program without a probability of copies: it sends one for every call that is late enough."""
    for hedge in found:
        if hedge.probability < 1:
            likely = min(1.0, hedge.share / hedge.probability)
            yield (
                f"{hedge.label}: the plan copies {hedge.probability:.0%} of the calls that reach "
                f"{hedge.after_ms:g} ms, but {program} has no such probability and copies all of them: up to "
                f"{likely:.2%} of calls instead of {hedge.share:.2%}"
            )


def nanoseconds(ms: float) -> int:
    """Milliseconds as whole nanoseconds, rounded up: a copy may be late, never early."""
    return int((Decimal(repr(ms)) * 1_000_000).to_integral_value(ROUND_CEILING))


def whole_ms(ms: float) -> int:
    """Milliseconds rounded up to a whole number, 1 or more."""
    return max(1, int(Decimal(repr(ms)).to_integral_value(ROUND_CEILING)))


def seconds(ns: int) -> str:
    """Nanoseconds as the JSON form of a protobuf Duration: `0.0125s`."""
    whole, part = divmod(ns, NANOSECONDS)
    return (f"{whole}.{part:09d}".rstrip("0").rstrip(".")) + "s"


def seconds_of_ms(ms: int) -> str:
    """Whole milliseconds as the JSON form of a protobuf Duration."""
    return seconds(ms * 1_000_000)
