"""Role of a span in messaging: a sender does not wait for the consumers of a message."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

_OPERATION_KEYS: Final = ("messaging.operation.type", "messaging.operation", "messaging.operation.name")
_SYSTEM_KEY: Final = "messaging.system"
_CELERY_KEY: Final = "celery.action"
_TRIGGER_KEY: Final = "faas.trigger"
_AWS_KEYS: Final = ("rpc.system", "rpc.service", "rpc.method")
DESTINATION_KEYS: Final = (
    "messaging.destination.name",
    "messaging.destination",
    "message_bus.destination",
    "messaging.destination.template",
)
MESSAGING_KEYS: Final = (
    *_OPERATION_KEYS,
    _SYSTEM_KEY,
    _CELERY_KEY,
    _TRIGGER_KEY,
    *_AWS_KEYS,
    *DESTINATION_KEYS,
    "span.kind",
)
_TAKING: Final = frozenset(("receive", "process", "deliver", "consume", "poll", "run"))
_SENDING: Final = frozenset(
    ("publish", "send", "create", "produce", "enqueue", "schedule", "apply_async", "forward")
)
_AWS_QUEUES: Final = frozenset(("sqs", "sns", "kinesis", "eventbridge", "amazonsqs", "amazonsns"))
_AWS_TAKING: Final = frozenset(("ReceiveMessage", "GetRecords"))
_AWS_SENDING: Final = frozenset(
    ("SendMessage", "SendMessageBatch", "Publish", "PublishBatch", "PutRecord", "PutRecords", "PutEvents")
)


class Role(Enum):
    """Role of a span in messaging."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


def role_of(name: str, attributes: Mapping[str, object]) -> Role | None:
    """Role of a span by its attributes; None where they tell none."""
    if not attributes:
        return None
    operations = [
        str(attributes[key]).lower() for key in (*_OPERATION_KEYS, _CELERY_KEY) if key in attributes
    ]
    if not operations and _SYSTEM_KEY in attributes:
        words = name.lower().split()
        operations = [*words[-1:], *words[:1]]  # `orders process` formerly, `process orders` now
    if str(attributes.get("rpc.service", "")).lower() in _AWS_QUEUES:
        method = str(attributes.get("rpc.method"))
        operations += ["receive"] * (method in _AWS_TAKING) + ["send"] * (method in _AWS_SENDING)
    if attributes.get(_TRIGGER_KEY) == "pubsub":
        operations.append("process")
    for operation in operations:
        if operation in _TAKING:
            return Role.CONSUMER
        if operation in _SENDING:
            return Role.PRODUCER
    return None


def destination_of(attributes: Mapping[str, object]) -> str:
    """Queue or topic that a span names; empty for none."""
    return next((str(attributes[key]) for key in DESTINATION_KEYS if attributes.get(key)), "")
