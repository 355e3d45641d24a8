"""Document of the replicas and queues behind a profile, as TOML, for `--queues FILE`."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert
from kwiken.base.parsing.strict_toml import parse_toml
from kwiken.tail.queueing.load.decompose import QueueSettings
from kwiken.tail.queueing.simulator.station import Cancel, Dispatch

MAX_REPLICAS: Final = 10_000  # of one stage


class QueuesDoc(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Document; see `QueueSettings` for the meaning of the fields."""

    replicas: dict[str, int] = {}
    utilisation: dict[str, float] = {}
    rate_per_s: float | None = None
    dispatch: str = "aged"
    cancel: str = "queued"


def queues_from_toml(text: str | bytes, *, where: str = "queues") -> QueueSettings:
    """Decode what is known of replicas and queues.

    Args:
        text: document; every field may be left out.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for broken TOML (names the line), an unknown field, a wrong type, or a value out of range.
    """
    document = convert(parse_toml(text, where=where), QueuesDoc, where=where)
    for stage, count in document.replicas.items():
        if not 1 <= count <= MAX_REPLICAS:
            raise InputError(
                f"replicas: stage {stage!r}: must be a whole number from 1 to {MAX_REPLICAS}, not {count}",
                where=where,
            )
    for stage, share in document.utilisation.items():
        if not 0 <= share < 1:
            raise InputError(
                f"utilisation: stage {stage!r}: must be from 0 to below 1, not {share:g}", where=where
            )
    if document.rate_per_s is not None and not 0 < document.rate_per_s < float("inf"):
        raise InputError(f"rate_per_s must be a number above 0, not {document.rate_per_s:g}", where=where)
    dispatch: Dispatch = _one_of("dispatch", document.dispatch, get_args(Dispatch), where)
    cancel: Cancel = _one_of("cancel", document.cancel, get_args(Cancel), where)
    return QueueSettings(
        replicas=document.replicas,
        utilisation=document.utilisation,
        rate_per_s=document.rate_per_s,
        dispatch=dispatch,
        cancel=cancel,
    )


def _one_of(field: str, value: str, known: tuple[str, ...], where: str) -> Any:
    if value not in known:
        raise InputError(f"{field} must be one of {', '.join(known)}, not {value!r}", where=where)
    return value
