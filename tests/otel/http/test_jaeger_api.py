"""Client of Jaeger's query API: addresses, queries, and responses of all kinds."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.http import jaeger_api
from kwiken.otel.http.bounded_answers import JAEGER
from kwiken.otel.http.jaeger_api import JaegerQuery
from tests.support.otel.span_trees import Dag, Maker, Span, jaeger_json, otlp_lines, write
from tests.support.peers.http_servers import Asked, Told, http_server


@contextmanager
def jaeger(answer: bytes | Told) -> Iterator[tuple[str, list[str]]]:
    """A Jaeger on a free port that always answers the same; its address and the paths asked for."""
    paths: list[str] = []

    def respond(asked: Asked) -> Told:
        paths.append(asked.path)
        return answer if isinstance(answer, Told) else Told(answer)

    with http_server(respond) as server:
        yield server.address, paths


def answer() -> str:
    rng = random.Random(1)
    return jaeger_json(Maker(Dag([[], [0]]), rng).requests(20))


def test_a_service_is_learned_from_jaegers_answer(tmp_path: Path) -> None:
    with jaeger(answer().encode()) as (host, asked):
        profile = fit_profile([f"jaeger://{host}/front%20end?lookback=2h&limit=77&operation=op0"])
    assert profile.requests == 20
    assert profile.digest == fit_profile([write(tmp_path / "a.json", answer())]).digest
    (url,) = asked
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    assert (parts.path, query["service"], query["limit"], query["operation"]) == (
        "/api/traces",
        "front end",
        "77",
        "op0",
    )
    assert int(query["end"]) - int(query["start"]) == 7200 * 1_000_000


def test_files_and_a_jaeger_go_together(tmp_path: Path) -> None:
    more = Maker(Dag([[], [0]]), random.Random(2)).requests(5)
    path = write(tmp_path / "a.jsonl", otlp_lines(more))
    with jaeger(answer().encode()) as (host, _):
        assert fit_profile([path, f"jaeger://{host}/front"]).requests == 25


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("jaeger://", "names no host and port"),
        ("jaeger://host/service", "names no host and port"),
        ("jaeger:host", "names no host and port"),
        ("jaeger://host:16686", "names no service"),
        ("jaeger://host:16686/", "names no service"),
        ("jaeger://host:16686/a/b", "names no service"),
        ("jaeger://host:x/a", "is no address"),
        ("jaeger://host:99999/a", "is no address"),
        ("jaeger://me@host:16686/a", "has a user"),
        ("jaeger://host:16686/a#b", "has a user or a fragment"),
        ("jaeger://host:16686/a?look=1h", "unknown parameter 'look'"),
        ("jaeger://host:16686/a?lookback=soon", "lookback that is no duration"),
        ("jaeger://host:16686/a?lookback=", "lookback that is no duration"),
        ("jaeger://host:16686/a?limit=0", "limit that is no number from 1"),
        ("jaeger://host:16686/a?limit=999999999999", "limit that is no number from 1"),
        ("jaeger://host:16686/a?limit=-1", "limit that is no number from 1"),
    ],
)
def test_an_address_that_is_none_says_what_is_wrong(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        JaegerQuery.parse(address)
    assert str(caught.value).startswith(address)
    assert "jaeger://HOST:PORT/SERVICE" in str(caught.value)


def test_an_address_of_version_six() -> None:
    query = JaegerQuery.parse("jaeger://[::1]:16686/a?lookback=30m")
    assert query.url(1000.0).startswith("http://[::1]:16686/api/traces?service=a&start=")
    assert query.lookback_s == 1800


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 200, "is empty"),
        (b"<html>", 200, "is neither OTLP JSON"),
        (b'{"data": [', 200, "Input data was truncated"),
        (b'{"data": null, "errors": [{"code": 500, "msg": "no storage"}]}', 200, "no storage"),
        (b'{"data": [], "total": 0, "errors": null}', 200, "there is no span to learn from"),
        (b"{}", 404, "Jaeger answered 404"),
        (b"{}", 503, "Jaeger answered 503"),
    ],
)
def test_useless_answers_are_reported(body: bytes, status: int, message: str) -> None:
    with jaeger(Told(body, status)) as (host, _), pytest.raises(InputError, match=message):
        fit_profile([f"jaeger://{host}/front"])


def version_3(traces: list[Span]) -> bytes:
    """An answer of version 3: documents of OTLP JSON, each in a field `result`."""
    lines = otlp_lines(traces).splitlines()
    return "\n".join(f'{{"result": {line}}}' for line in lines).encode()


@pytest.mark.parametrize(
    "other",
    [Told(b"{}", 404), Told(b"", 405), Told(b"{}", 501), Told(b"<!doctype html><title>Jaeger UI</title>")],
    ids=["not found", "no such method", "not made", "a page"],
)
def test_version_3_is_asked_where_the_api_of_the_pages_is_not_served(other: Told, tmp_path: Path) -> None:
    traces = Maker(Dag([[], [0]]), random.Random(1)).requests(20)
    asked: list[Asked] = []

    def respond(request: Asked) -> Told:
        asked.append(request)
        return Told(version_3(traces)) if request.path.startswith("/api/v3/traces?") else other

    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with http_server(respond) as server:
        profile = fit_profile([f"jaeger://{server.address}/a%20b?limit=30&operation=op0&token-file={token}"])
    assert profile.digest == fit_profile([write(tmp_path / "a.jsonl", otlp_lines(traces))]).digest
    assert {request.headers["Authorization"] for request in asked} == {"Bearer s3cret"}
    words = {key: values[0] for key, values in parse_qs(urlsplit(asked[-1].path).query).items()}
    assert words["query.serviceName"] == words["query.service_name"] == "a b"
    assert words["query.operationName"] == words["query.operation_name"] == "op0"
    assert words["query.searchDepth"] == words["query.search_depth"] == words["query.num_traces"] == "30"
    since, until = (datetime.fromisoformat(words[f"query.startTime{end}"]) for end in ("Min", "Max"))
    assert (until - since).total_seconds() == 3600


def test_tokens_that_are_none(tmp_path: Path) -> None:
    for content in (b"", b"two words", b"\xff", b"x" * 9000):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(InputError, match="token: holds no bearer token"):
            fit_profile([f"jaeger://127.0.0.1:9/a?token-file={tmp_path / 'token'}"])
    with pytest.raises(InputError, match="nowhere: the token cannot be read"):
        fit_profile([f"jaeger://127.0.0.1:9/a?token-file={tmp_path / 'nowhere'}"])


@pytest.mark.parametrize(
    "source", ["tempo://host:3200/a", "http://host:16686", "file:///a.json", "jaeger+h2://h:1/a"]
)
def test_an_unknown_scheme_is_answered_with_those_there_are(source: str) -> None:
    with pytest.raises(
        InputError, match=r"there is no scheme '.*'; there are jaeger://, jaeger\+https://, prom"
    ):
        fit_profile([source])


def test_no_other_host_is_asked_than_the_one_named() -> None:
    with jaeger(answer().encode()) as (elsewhere, asked):
        there = f"http://{elsewhere}/api/traces"
        with (
            jaeger(Told(status=302, headers={"Location": there})) as (host, _),
            pytest.raises(InputError, match="Jaeger answered 302"),
        ):
            fit_profile([f"jaeger://{host}/front"])
    assert asked == []


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with jaeger(answer().encode()) as (host, _):
        assert fit_profile([f"jaeger://{host}/front"]).requests == 20


def test_an_answer_that_breaks_off_or_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    body = answer().encode()
    with jaeger(Told(body, length=len(body) + 9)) as (host, _), pytest.raises(InputError, match="incomplete"):
        fit_profile([f"jaeger://{host}/front"])
    monkeypatch.setattr(jaeger_api, "JAEGER", JAEGER._replace(whole_s=-1.0))
    with jaeger(body) as (host, _), pytest.raises(InputError, match="takes longer than"):
        fit_profile([f"jaeger://{host}/front"])


def test_connection_refused_and_an_answer_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Jaeger does not answer"):
        fit_profile(["jaeger://127.0.0.1:9/front"])
    monkeypatch.setattr(jaeger_api, "JAEGER", JAEGER._replace(size=1000))
    with jaeger(answer().encode()) as (host, _), pytest.raises(InputError, match="larger than"):
        fit_profile([f"jaeger://{host}/front"])


def test_a_token_is_not_waited_for_at_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is not a regular file"):
        fit_profile([f"jaeger://127.0.0.1:9/a?token-file={tmp_path / 'pipe'}"])
