"""Load over gRPC: against a real gateway, its refusals, targets that cannot be, and utilities of answers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.loadtest.generator.grpc_client import utility_of
from kwiken.loadtest.inputs.settings import PATH, parse_target
from tests.support.loadtest.load_commands import StartLoad
from tests.support.peers.grpc_messages import Answer
from tests.support.runtime.server_processes import free_port, running

HELLO = "services.hello:hello"
RUN = ("--rate", "50", "--duration", "0.6", "--arrivals", "constant", "--json")


def test_requests_reach_a_gateway_and_refusals_are_told(start_load: StartLoad) -> None:
    port = free_port()
    url = f"grpc://127.0.0.1:{port}"
    with running("serve", HELLO, "--local", "--port", "0", "--grpc-port", str(port)) as gateway:
        assert gateway.stderr is not None
        assert "requests over gRPC at grpc://" in gateway.stderr.readline()
        ran = start_load(url, *RUN, "--body", '{"name": "ada"}', "--header", "X-Team: a")
        out, err = ran.communicate(timeout=60)
        assert ran.returncode == 0, err
        assert '"ok":30' in out.replace(" ", "").replace("\n", "")
        refused = start_load(url, *RUN, "--body", '{"nam": "ada"}')
        out, err = refused.communicate(timeout=60)
        assert refused.returncode == 1, err
        assert "not one of 30 requests succeeded: gRPC INVALID_ARGUMENT (30)" in err
        assert "the first answer that was no success: gRPC INVALID_ARGUMENT: " in err
    ran = start_load(f"grpc://127.0.0.1:{free_port()}", *RUN, "--timeout", "0.5")
    assert "cannot be reached: timeout" in ran.communicate(timeout=60)[1]
    assert ran.returncode == 2


@pytest.mark.parametrize(
    ("url", "path", "told"),
    [
        ("grpc://h", PATH, "must be grpc://HOST:PORT"),
        ("grpc://h:1/x", PATH, "must be grpc://HOST:PORT"),
        ("grpc://h:1", "/other", "has no effect over gRPC"),
    ],
)
def test_targets_that_gateways_do_not_have_are_refused(url: str, path: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_target(url, path)


@given(st.text(max_size=300), st.booleans(), st.floats(0, 1), st.text(max_size=10))
def test_the_utility_is_that_of_the_message(json: str, partial: bool, utility: float, timing: str) -> None:
    message = Answer(json=json, partial=partial, utility=utility, timing_json=timing)
    assert utility_of(message.SerializeToString()) == utility


@given(st.binary(max_size=100))
def test_noise_has_a_utility_within_bounds(noise: bytes) -> None:
    assert 0 <= utility_of(noise) <= 1
