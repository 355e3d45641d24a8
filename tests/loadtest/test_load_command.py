"""`kwiken load` as its users run it, against real servers on loopback."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Load, Ran, Serve, StartLoad, lines
from tests.support.loadtest.rates import hour_of_rates
from tests.support.runtime.server_processes import free_port
from tests.support.runtime.waiting import PATIENCE_S


def refusal(ran: Ran) -> str:
    """The one line of a refused command."""
    assert ran.code == 2, (ran.out, ran.err)
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("kwiken: ")
    return ran.err


def test_a_run_in_which_all_fail_says_so(serve: Serve, load: Load) -> None:
    """A path with a slip in it, say: nobody should have to find that in a table."""
    ran = load(serve("--statuses", "404"), "--rate", "50", "--duration", "0.4", "--arrivals", "constant")
    assert ran.code == 1
    assert ran.complaints == [
        "kwiken: not one of 20 requests succeeded: HTTP 404 (20)",
        'kwiken: the first answer that was no success: HTTP 404: {"answer": 1}',
    ]


def test_a_run_too_short_for_one_request(serve: Serve, load: Load) -> None:
    ran = load(serve(), "--rate", "0.001", "--duration", "0.01", "--seed", "1")
    assert ran.code == 2
    assert ran.err == "kwiken: load: drew no request in so short a time; raise --rate or --duration\n"


def test_a_table_for_people(serve: Serve, load: Load) -> None:
    ran = load(serve("--delay-ms", "5"), "--rate", "100", "--duration", "0.4")
    assert ran.code == 0, ran.err
    assert "0.4 s at http://127.0.0.1:" in ran.out
    for name in ("intended", "dropped", "late", "p99.9", "start lag"):
        assert name in ran.out


def test_json_records_and_traces_belong_together(serve: Serve, load: Load, tmp_path: Path) -> None:
    log, records = tmp_path / "seen", tmp_path / "records"
    url = serve("--delay-ms", "5", "--log", str(log))
    before = time.time()
    ran = load(
        *(url, "--rate", "150", "--duration", "2", "--warmup", "0.5", "--seed", "3"),
        *("--json", "--records", str(records), "--body", '{"query": "x"}'),
    )
    after = time.time()
    assert ran.code == 0, ran.err
    report = ran.report
    seen, rows = lines(log), lines(records)
    assert len(seen) == len(rows) == report["requests"]["intended"] + report["warmup_requests"]
    assert report["requests"]["ok"] == report["requests"]["intended"] > 150
    assert report["warmup_requests"] > 20
    assert report["status"] == {"200": report["requests"]["ok"]}
    assert report["errors"] == {}
    assert report["url"] == f"{url}/v1/request"
    assert (report["seed"], report["interrupted"], report["duration_s"]) == (3, False, 2.0)
    assert report["latency"]["min_ms"] > 4
    parents = [
        re.search(r"traceparent: 00-([0-9a-f]{32})-[0-9a-f]{16}-00", request["head"]) for request in seen
    ]
    assert {row["trace_id"] for row in rows} == {parent[1] for parent in parents if parent}
    assert len({row["trace_id"] for row in rows}) == len(rows)
    assert all(
        request["head"].startswith("POST /v1/request HTTP/1.1\r\nHost: 127.0.0.1:") for request in seen
    )
    assert all(json.loads(request["body"]) == {"query": "x"} for request in seen)
    for row in rows:
        assert before < row["intended_s"] < after
        assert row["latency_ms"] >= row["start_lag_ms"] >= 0
        assert (row["status"], row["error"]) == (200, None)


def test_no_coordinated_omission(serve: Serve, load: Load, tmp_path: Path) -> None:
    records = tmp_path / "records"
    url = serve("--delay-ms", "5", "--stall-at", "1", "--stall-ms", "500")
    settings = ("--rate", "200", "--duration", "2", "--arrivals", "constant", "--json")
    ran = load(url, *settings, "--records", str(records))
    assert ran.code == 0, ran.err
    rows = sorted(lines(records), key=lambda row: row["intended_s"])
    assert len(rows) == 400
    # The stall begins about 1 s after the first request. Every request that was due in it is late by what was left
    # of it: at 200 a second 81 of the 100 by more than 100 ms, and each 5 ms later by 5 ms less.
    slow = [row for row in rows if row["latency_ms"] > 100]
    assert len(slow) >= 75
    end = max(row["intended_s"] + row["latency_ms"] / 1e3 for row in slow)
    begin = slow[0]["intended_s"]
    assert end - begin > 0.45
    during = [row for row in rows if begin <= row["intended_s"] < begin + 0.4]
    assert len(during) >= 79
    assert all(row["latency_ms"] > 80 for row in during)
    # Sent when due all the same: nothing waited for an answer, or half of those would have started 250 ms late. A
    # few may have on a busy machine.
    assert sum(row["start_lag_ms"] > 250 for row in during) < 20
    assert ran.report["latency"]["p90_ms"] > 100


def test_queries_are_drawn_from_the_file(serve: Serve, load: Load, tmp_path: Path) -> None:
    log, queries = tmp_path / "seen", tmp_path / "queries.txt"
    queries.write_text("\n".join(f"query {index}" for index in range(20)))
    ran = load(
        serve("--log", str(log)), "--rate", "400", "--duration", "1.5", "--queries", str(queries), "--json"
    )
    assert ran.code == 0, ran.err
    asked = [json.loads(request["body"])["query"] for request in lines(log)]
    counts = [asked.count(f"query {index}") for index in range(20)]
    assert sum(counts) == len(asked) > 400
    # 1/k over 20 lines: the first takes 28%, the last 1.4%.
    assert counts[0] > 3 * counts[9] > 0
    assert 0.2 < counts[0] / len(asked) < 0.36


def test_get_sends_no_body(serve: Serve, load: Load, tmp_path: Path) -> None:
    log = tmp_path / "seen"
    options = ("--rate", "50", "--duration", "0.5", "--method", "GET", "--path", "/page?q=1")
    assert load(serve("--log", str(log)), *options).code == 0
    seen = lines(log)
    assert seen
    assert all(request["head"].startswith("GET /page?q=1 HTTP/1.1\r\n") for request in seen)
    assert all(request["body"] == "" and "Content-Length" not in request["head"] for request in seen)


def test_a_production_shape_is_followed(serve: Serve, load: Load, tmp_path: Path) -> None:
    shape = str(hour_of_rates(tmp_path, 0.4))
    ran = load(serve(), "--arrivals", shape, "--rate", "150", "--duration", "1.5", "--json")
    assert ran.code == 0, ran.err
    assert ran.report["requests"]["ok"] == ran.report["requests"]["intended"]
    assert abs(ran.report["requests"]["intended"] - 225) < 80


def test_failures_are_data(serve: Serve, load: Load) -> None:
    url = serve("--statuses", "200,503,404,200,0")
    ran = load(url, "--rate", "200", "--duration", "1", "--arrivals", "constant", "--json")
    assert ran.code == 0, ran.err
    report = ran.report
    assert report["requests"]["ok"] == 80
    assert report["requests"]["failed"] == 120
    assert report["status"] == {"200": 80, "404": 40, "503": 40}
    assert report["errors"]["HTTP 503"] == report["errors"]["HTTP 404"] == 40
    # The server hung up on 40: each is one failure with one reason, and no request was sent twice.
    assert sum(count for error, count in report["errors"].items() if error.startswith("connection")) == 40
    assert report["latency_with_failures"]["p50_ms"] is None
    assert report["latency"]["p50_ms"] is not None


@pytest.mark.parametrize(
    ("header", "utility", "partial"),
    [
        ("kw-utility: 0.75", 0.75, True),
        ("KW-Utility:0.5", 0.5, True),
        ("kw-utility: much", 1.0, False),
        ("kw-utility: 7", 1.0, False),
        ("x-kw-utility: 0.5", 1.0, False),
    ],
)
def test_partial_answers_are_counted(
    serve: Serve, load: Load, tmp_path: Path, header: str, utility: float, partial: bool
) -> None:
    records = tmp_path / "records.jsonl"
    url = serve("--header", header)
    ran = load(url, "--rate", "50", "--duration", "0.4", "--records", str(records), "--json")
    requests = ran.report["requests"]
    assert requests["ok"] == requests["intended"]
    assert requests["partial"] == (requests["ok"] if partial else 0)
    assert ran.report["utility"] == pytest.approx(utility)
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [line.get("utility", 1.0) for line in lines] == [utility] * len(lines)


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_answers_of_any_framing(serve: Serve, load: Load, framing: str) -> None:
    ran = load(serve("--framing", framing), "--rate", "100", "--duration", "0.4", "--json")
    assert ran.code == 0, ran.err
    assert ran.report["requests"]["failed"] == 0


def test_timeouts_are_failures(serve: Serve, load: Load) -> None:
    url = serve("--delay-ms", "3000", "--statuses", "200")
    ran = load(url, "--rate", "50", "--duration", "0.5", "--timeout", "1", "--json")
    assert ran.code == 2
    assert "answered none of" in ran.err
    assert set(ran.report["errors"]) == {"timeout"}


@pytest.mark.parametrize(
    ("framing", "reason"), [("garbage", "answer is not HTTP"), ("cut", "timeout")], ids=["garbage", "cut"]
)
def test_an_answer_that_is_none(serve: Serve, load: Load, framing: str, reason: str) -> None:
    ran = load(serve("--framing", framing), "--rate", "50", "--duration", "0.5", "--timeout", "0.2", "--json")
    assert ran.code == 2
    assert ran.report["requests"]["ok"] == 0
    assert list(ran.report["errors"]) == [reason]
    assert len(ran.complaints) == 1
    assert reason in ran.complaints[0]


def test_requests_beyond_the_bound_are_dropped(serve: Serve, load: Load, tmp_path: Path) -> None:
    records = tmp_path / "records"
    options = ("--rate", "100", "--duration", "1", "--arrivals", "constant", "--max-in-flight", "5")
    ran = load(serve("--delay-ms", "200"), *options, "--records", str(records), "--json")
    assert ran.code == 0, ran.err
    requests = ran.report["requests"]
    assert requests["intended"] == 100
    # Five at a time for 200 ms each: about 25 a second can be served.
    assert 15 <= requests["ok"] <= 30
    assert requests["dropped"] == 100 - requests["ok"]
    rows = lines(records)
    assert sum(row["error"] == "dropped" for row in rows) == requests["dropped"]
    assert all(
        row["latency_ms"] is None and row["trace_id"] == "" for row in rows if row["error"] == "dropped"
    )


def test_a_target_that_dies_is_counted(start_load: StartLoad, tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.fake_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        records = tmp_path / "records"
        options = ("--rate", "200", "--duration", "3", "--records", str(records), "--json")
        process = start_load(f"http://127.0.0.1:{port}", *options)
        # 64 KiB of records, and so the first chunk of the file, are there after about 400 requests.
        end = time.monotonic() + PATIENCE_S
        while not (records.exists() and records.stat().st_size > 64_000) and time.monotonic() < end:
            time.sleep(0.02)
        server.kill()
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["requests"]["ok"] > 200
    assert report["errors"]["connection refused"] > 20
    assert report["requests"]["intended"] == report["requests"]["ok"] + report["requests"]["failed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_still_reports(
    serve: Serve, start_load: StartLoad, tmp_path: Path, number: signal.Signals
) -> None:
    records = tmp_path / "records"
    url = serve()
    process = start_load(url, "--rate", "1000", "--duration", "300", "--records", str(records), "--json")
    end = time.monotonic() + PATIENCE_S
    while not (records.exists() and records.stat().st_size > 64_000) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    report = json.loads(out)
    assert report["interrupted"] is True
    assert report["requests"]["ok"] == report["requests"]["intended"] > 100
    assert report["duration_s"] < 60
    assert len(lines(records)) == report["requests"]["intended"]


def test_a_target_that_is_not_there(load: Load) -> None:
    port = free_port()
    line = refusal(load(f"http://127.0.0.1:{port}", "--rate", "1", "--duration", "1"))
    assert line == f"kwiken: 127.0.0.1:{port}: cannot be reached: connection refused\n"


def test_a_host_without_an_address(load: Load) -> None:
    line = refusal(load("http://nowhere.invalid:80", "--rate", "1", "--duration", "1"))
    assert "nowhere.invalid:80: cannot be reached" in line


def test_a_target_that_speaks_no_tls(serve: Serve, load: Load) -> None:
    url = serve().replace("http://", "https://")
    line = refusal(load(url, "--rate", "1", "--duration", "1", "--timeout", "0.5"))
    assert "cannot be reached: timeout" in line


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """Port of an HTTPS server and the certificate it signed for itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1], str(certificate)
    server.shutdown()
    thread.join()
    server.server_close()


def test_https_checks_the_certificate(
    load: Load, monkeypatch: pytest.MonkeyPatch, tls: tuple[int, str]
) -> None:
    port, certificate = tls
    settings = (f"https://127.0.0.1:{port}", "--rate", "30", "--duration", "0.6", "--json")
    assert "certificate verify failed" in refusal(load(*settings))
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    ran = load(*settings)
    assert ran.code == 0, ran.err
    assert ran.report["requests"]["ok"] == ran.report["requests"]["intended"] > 5


ONE = ("http://h", "--rate", "1", "--duration", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense", "--rate", "1", "--duration", "1"], "must start with http"),
        (["http://h"], "rate: poisson arrivals need a rate"),
        (["http://h", "--rate", "1"], "duration: is missing"),
        (["http://h", "--rate", "0", "--duration", "1"], "rate: must lie above 0"),
        (["http://h", "--rate", "-5", "--duration", "1"], "rate"),
        (["http://h", "--rate", "nan", "--duration", "1"], "rate"),
        (["http://h", "--rate", "inf", "--duration", "1"], "rate"),
        (["http://h", "--rate", "many", "--duration", "1"], "many"),
        (["http://h", "--rate", "1", "--duration", "-1"], "duration"),
        (["http://h", "--rate", "1", "--duration", "nan"], "duration"),
        (["http://h", "--rate", "100000", "--duration", "86400"], "more than 5000000"),
        (["http://h", "--rate", "1", "--duration", "1", "--warmup", "1"], "warmup"),
        (["http://h", "--rate", "1", "--duration", "1", "--timeout", "0"], "timeout"),
        (["http://h", "--rate", "1", "--duration", "1", "--queries", "/nowhere"], "/nowhere: cannot be read"),
        (
            ["http://h", "--rate", "1", "--duration", "1", "--arrivals", "gaussian"],
            "gaussian: cannot be read",
        ),
        (["http://h", "--rate", "1", "--duration", "1", "--body", "{"], "body: is not JSON"),
        (["http://h", "--rate", "1", "--duration", "1", "--path", "x"], "path"),
        ([*ONE, "--path", "/{query}"], "path: holds {query}, and there is no file"),
        ([*ONE, "--zipf", "1"], "--zipf: has no effect without --queries"),
        ([*ONE, "--method", "GET", "--body", "{}"], "--body: has no effect: GET sends none"),
        ([*ONE, "--header", "nonsense"], "header 1: must be Name: value"),
        ([*ONE, "--header", "Content-Length: 3"], "header 1: Content-Length is set by the generator"),
        ([*ONE, "--header", "A: 1", "--header", "a: 2"], "header 2: a is given twice"),
        ([*ONE, "--header", "A: 1\r\nB: 2"], "header 1: must be Name: value"),
        ([*ONE, "--header-file", "/nowhere"], "/nowhere: cannot be read"),
        ([*ONE, "--max-p99", "0"], "--max-p99: must be milliseconds above 0"),
        ([*ONE, "--max-failed", "101"], "--max-failed: must be a percentage"),
        (["http://h", "--rate", "1", "--duration", "1", "--method", "BREW"], "method"),
        (
            ["http://h", "--rate", "1", "--duration", "1", "--max-in-flight", "0"],
            "--max-in-flight: must be at least 1",
        ),
        (["http://h", "--rate", "1", "--duration", "1", "--seed", "-1"], "seed"),
        (["--rate", "1", "--duration", "1"], "URL"),
        (
            ["http://h", "--rate", "1", "--duration", "1", "--records", "/nowhere/r"],
            "/nowhere/r: its folder does not exist",
        ),
    ],
)
def test_bad_usage_is_one_line(capfd: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    # In this process: every refusal comes before gevent does.
    from kwiken.cli.verbs import kwiken

    with pytest.raises(SystemExit) as exited:
        kwiken.main(["load", *arguments])
    captured = capfd.readouterr()
    assert exited.value.code == 2
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("kwiken: ")
    assert message in captured.err


def test_loading_the_package_starts_neither_gevent_nor_locust() -> None:
    code = (
        "import sys\n"
        "import kwiken.cli.live.load, kwiken.loadtest.inputs.queries, kwiken.loadtest.results.records, kwiken.loadtest.results.report\n"
        "from kwiken.loadtest import LoadSettings, run_load\n"
        "print(sorted({'gevent', 'locust', 'greenlet'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_run_leaves_the_standard_library_as_it_was(serve: Serve) -> None:
    code = (
        "import os, sys, socket, ssl, threading, time\n"
        "before = (socket.socket, time.sleep, threading.Thread.start, ssl.SSLSocket)\n"
        "from kwiken.loadtest import LoadSettings, run_load\n"
        f"result = run_load(LoadSettings(url={serve()!r}, rate=50, duration_s=0.3))\n"
        "assert result.report.requests['ok'] > 0, result\n"
        "assert before == (socket.socket, time.sleep, threading.Thread.start, ssl.SSLSocket)\n"
        "assert 'LOCUST_SKIP_MONKEY_PATCH' not in os.environ\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_idle_connections_that_the_server_closed_are_not_used(load: Load) -> None:
    # This server answers once per connection without saying that it will close: keep-alive by the letter.
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        if connection.recv(65536):
                            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        ran = load(
            f"http://127.0.0.1:{port}",
            *("--rate", "20", "--duration", "1", "--arrivals", "constant", "--json"),
        )
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=10)
    assert ran.code == 0, ran.err
    assert ran.report["requests"]["ok"] == 20
