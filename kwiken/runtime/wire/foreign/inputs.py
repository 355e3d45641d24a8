"""Inputs of a foreign stage's call as plain values, and the errors of filling templates with them."""

from __future__ import annotations

from typing import Any

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.service.stage import Partial, Stage
from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.wire.transport.base import Call


def plain_inputs(stage: Stage, call: Call) -> list[Any]:
    """Inputs of a call as dicts, lists and scalars, in the order of the template's names.

    Raises:
        HandlerError: an input has no form in JSON.
    """
    try:
        inputs = [_plain(value) for value in call.args]
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise HandlerError(stage.name, "UnfitInput", f"an input has no form in JSON: {error}") from error
    return [*inputs, call.shard] if stage.fanout > 1 else inputs


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):  # an answer that the gateway passes on as received
        value = msgspec.msgpack.decode(value)
    elif isinstance(value, Partial):
        return {"values": [_plain(each) for each in value.values], "utility": value.utility}
    return msgspec.to_builtins(value, str_keys=True)


def unfilled(stage: Stage, error: InputError) -> Exception:
    """Error of a call whose template could not be filled: the client's if the field is the request's.

    Args:
        error: what is wrong, with the placeholder.
    """
    if stage.after:
        return HandlerError(stage.name, "UnfitInput", str(error))
    return InputError(str(error), where=f"stage {stage.name!r}")
