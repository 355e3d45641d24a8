"""Messages: nobody waits for those who work them off, and who sends one writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile, list_kinds
from tests.support.otel.field import FORMS, Trace, filed, requests
from tests.support.otel.field_data import field_file

# Attributes of the producer and of the consumer, and their kinds.
SYSTEMS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "kafka": (
        {"messaging__system": "kafka", "messaging__operation": "publish"},
        {"messaging__system": "kafka", "messaging__operation": "process"},
        "producer",
        "consumer",
    ),
    "rabbitmq, kinds not stated": (
        {"messaging__system": "rabbitmq", "messaging__operation__type": "send"},
        {"messaging__system": "rabbitmq", "messaging__operation__type": "process"},
        "",
        "",
    ),
    "sqs, a client that polls": (
        {"rpc__system": "aws-api", "rpc__service": "SQS", "rpc__method": "SendMessage"},
        {"messaging__system": "aws_sqs", "messaging__operation__type": "receive"},
        "client",
        "client",
    ),
    "pub/sub, a function": (
        {"messaging__system": "gcp_pubsub"},
        {"faas__trigger": "pubsub"},
        "producer",
        "server",
    ),
    "celery": ({"celery__action": "apply_async"}, {"celery__action": "run"}, "", ""),
    "kinds alone": ({}, {}, "producer", "consumer"),
}


def shop(system: str, begins: float, *, deep: bool = False, share: int = 1) -> Callable[[Trace], None]:
    """A checkout that asks `pay` for a rate and sends a message, which `accounting` works off."""
    sends, takes, producer, consumer = SYSTEMS[system]

    def make(trace: Trace) -> None:
        root = trace.span(None, "shop", "POST /checkout", 0, 28, "server")
        trace.call(root, "GET", "pay", "GET /rate", 1, 9)
        if trace.number % share:
            return
        top = root
        if deep:
            top = trace.call(root, "GET", "orders", "GET /new", 9.2, 26)[1]
        sent = trace.span(top, top.service, "orders publish", 10, 15, producer, **sends)
        taken = trace.span(sent, "accounting", "orders process", begins, begins + 12, consumer, **takes)
        trace.call(taken, "SELECT", "ledger", "GET /book", begins + 1, begins + 9)

    return make


def services(profile: Profile) -> set[str]:
    return {stage.match.service for stage in profile.stages} | set(profile.service_names)


def test_a_consumer_is_no_stage_and_its_start_is_no_skew() -> None:
    profile = fit_profile([field_file("F02_kafka_consumer_after_producer")])
    assert services(profile) == {"shop", "pay"}
    assert [stage.name for stage in profile.stages if stage.reissuable] == ["pay:rate"]
    assert "spans_shifted" not in profile.counts
    assert profile.counts["spans_detached"] == 400
    np.testing.assert_allclose(profile.stages[0].latency_ms, 20.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("begins", [11, 14, 17], ids=["inside the producer", "over its end", "after it"])
def test_consumers_of_any_system_are_set_aside(form: str, system: str, begins: float, tmp_path: Path) -> None:
    profile = fit_profile([filed(tmp_path, requests(shop(system, begins), 60), form)])
    assert services(profile) == {"shop", "pay"}
    assert "spans_shifted" not in profile.counts
    assert "spans_clipped" not in profile.counts


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_call_below_which_a_message_is_sent_is_a_write(system: str, tmp_path: Path) -> None:
    path = filed(tmp_path, requests(shop(system, 12, deep=True, share=3), 300), "otlp")
    profile = fit_profile([path])
    assert services(profile) == {"shop", "pay", "orders"}
    assert [stage.name for stage in profile.stages if stage.reissuable] == ["pay:rate"]
    assert profile.stage("orders:new").writes == "orders publish"


@pytest.mark.parametrize("form", FORMS)
def test_a_function_that_a_message_starts_is_set_aside_whatever_kind_it_states(
    form: str, tmp_path: Path
) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "shop", "POST /checkout", 0, 28, "server")
        trace.call(root, "GET", "pay", "GET /rate", 1, 9)
        stated = {"rpc__service": "EventBridge", "rpc__method": "PutEvents"}
        sent = trace.span(root, "shop", "EventBridge.PutEvents", 10, 14, "client", **stated)
        trace.span(sent, "accounting", "handler", 12, 250, "server", faas__trigger="datasource")

    profile = fit_profile([filed(tmp_path, requests(make, 60), form)])
    assert services(profile) == {"shop", "pay"}
    assert profile.counts["calls_not_waited_for"] == 60


def test_a_sender_that_states_no_message_is_not_called_by_its_consumers_name(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "shop", "POST /checkout", 0, 28, "server")
        trace.call(root, "GET", "pay", "GET /rate", 1, 9)
        sent = trace.span(root, "shop", "Topic.tell", 10, 14, "client", peer__service="topic")
        trace.span(sent, "accounting", "handler", 15, 250, "consumer")

    profile = fit_profile([filed(tmp_path, requests(make, 60), "otlp")])
    assert services(profile) == {"shop", "pay", "topic"}


def test_a_consumer_below_a_server_is_set_aside(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "shop", "GET /cart", 0, 20, "server")
        trace.call(root, "GET", "pay", "GET /rate", 1, 9)
        trace.span(root, "mailer", "mail receive", 2, 19, "consumer")

    assert services(fit_profile([filed(tmp_path, requests(make, 60), "jaeger")])) == {"shop", "pay"}


def test_who_only_links_to_a_message_is_another_kind_and_comes_last(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        if trace.number % 2:
            root = trace.span(None, "shop", "POST /checkout", 0, 28, "server")
            trace.call(root, "GET", "pay", "GET /rate", 1, 9)
            return
        root = trace.span(None, "accounting", "orders process", 0, 12, "consumer")
        trace.span(root, "accounting", "Listener process", 1, 11, "consumer")
        trace.call(root, "GET", "ledger", "GET /book", 2, 9)

    path = filed(tmp_path, requests(make, 401 - 1), "otlp")
    assert [kind.name for kind in list_kinds([path]).kinds] == ["shop:checkout", "accounting:orders process"]
    taken = fit_profile([path], kind="accounting:orders process")
    assert services(taken) == {"accounting", "ledger"}
    assert "spans_detached" not in taken.counts
