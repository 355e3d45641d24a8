"""Requests of `kwiken load`: methods, headers, paths from queries; and the limits for continuous integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Load, Serve, lines

RUN = ("--rate", "50", "--duration", "0.4", "--arrivals", "constant")


@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_is_sent(serve: Serve, load: Load, tmp_path: Path, method: str) -> None:
    log = tmp_path / "seen"
    ran = load(serve("--log", str(log)), *RUN, "--method", method, "--json")
    assert ran.code == 0, ran.err
    assert ran.report["requests"]["ok"] == 20
    body = "{}" if method in {"PUT", "PATCH"} else ""
    for request in lines(log):
        assert request["head"].startswith(f"{method} /v1/request HTTP/1.1\r\n")
        assert request["body"] == body
        assert ("Content-Length" in request["head"]) == bool(body)


def test_headers_come_from_the_command_line_and_from_a_file(serve: Serve, load: Load, tmp_path: Path) -> None:
    log, secret = tmp_path / "seen", tmp_path / "secret"
    secret.write_text("Authorization: Bearer abc123\n")
    ran = load(
        *(serve("--log", str(log)), *RUN, "--header", "X-Tenant: blue", "--header", "user-agent: mine"),
        *("--header-file", str(secret), "--json"),
    )
    assert ran.code == 0, ran.err
    assert "abc123" not in ran.out + ran.err
    head = lines(log)[0]["head"]
    for field in ("X-Tenant: blue", "Authorization: Bearer abc123", "user-agent: mine", "Host: 127.0.0.1:"):
        assert f"\r\n{field}" in head
    assert "kwiken-load" not in head


def test_a_wrong_line_of_a_header_file_is_not_repeated(load: Load, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("X: 1\nBearer abc123\n")
    ran = load("http://127.0.0.1:1", *RUN, "--header-file", str(secret))
    assert ran.code == 2
    assert ran.err == f"kwiken: {secret}:2: must be Name: value, in visible ASCII\n"


def test_queries_in_paths_are_percent_encoded(serve: Serve, load: Load, tmp_path: Path) -> None:
    log, queries = tmp_path / "seen", tmp_path / "queries"
    queries.write_text("a b/c\nü?&\n", "utf-8")
    options = ("--queries", str(queries), "--path", "/find/{query}?q={query}", "--method", "GET")
    ran = load(serve("--log", str(log)), *RUN, *options)
    assert ran.code == 0, ran.err
    assert {request["head"].split(" ")[1] for request in lines(log)} == {
        "/find/a%20b%2Fc?q=a%20b%2Fc",
        "/find/%C3%BC%3F%26?q=%C3%BC%3F%26",
    }
    assert all(request["body"] == "" for request in lines(log))


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_queries_without_effect_are_refused(load: Load, tmp_path: Path, method: str) -> None:
    queries = tmp_path / "queries"
    queries.write_text("a\n")
    ran = load("http://127.0.0.1:1", *RUN, "--queries", str(queries), "--method", method)
    assert ran.code == 2
    assert ran.err == f"kwiken: {queries}: has no effect: no body is sent, and the path holds no {{query}}\n"


def test_limits_decide_the_exit_code(serve: Serve, load: Load) -> None:
    url = serve("--delay-ms", "5", "--statuses", "200,503")
    assert load(url, *RUN, "--max-failed", "50", "--json").code == 0
    ran = load(url, *RUN, "--max-failed", "49", "--max-p99", "10000", "--json")
    assert ran.code == 4
    assert ran.complaints[-2:] == [
        "kwiken: p99 is endless, above --max-p99 10000: 50% got no good answer",
        "kwiken: 10 of 20 requests failed or were dropped, 50%, above --max-failed 49",
    ]
    assert ran.report["first_failure"] == 'HTTP 503: {"answer": 1}'
    well = serve("--delay-ms", "5")
    assert load(well, *RUN, "--max-p99", "10000", "--max-failed", "0").code == 0
    slow = load(well, *RUN, "--max-p99", "1")
    assert slow.code == 4
    assert "above --max-p99 1" in slow.complaints[-1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "no such field"}', "HTTP 400: no such field"),
        (b'{"error": {"code": 3, "message": "no\\u001b[2J"}}', r"HTTP 400: no\x1b[2J"),
        (b"plain\n words", "HTTP 400: plain words"),
        (b"", "HTTP 400"),
        (b"[1]", "HTTP 400: [1]"),
        (b"\xff", "HTTP 400: \ufffd"),
        (b'{"other": 1}', 'HTTP 400: {"other": 1}'),
    ],
)
def test_the_servers_reason_is_one_printable_line(body: bytes, said: str) -> None:
    from kwiken.loadtest.generator.client import failure_text

    assert failure_text(400, body) == said
