"""Load on a server whose answers stream: the first item, the whole, and streams that break off."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Load
from tests.support.loadtest.locust_commands import Locust, finish

RUN = ("--rate", "25", "--duration", "0.4", "--arrivals", "constant", "--json")
GAP_MS = 30.0
LINES = "application/x-ndjson", [b'{"item":1}\n', b'{"item":2}\n{"end":{"items":2}}\n']
EVENTS = "text/event-stream", [b"data: 1\n\n", b"data: 2\n\ndata: [DONE]\n\n"]
BROKEN_LINES = "application/x-ndjson", [b'{"item":1}\n', b'{"error":"lost","items":1}\n']
BROKEN_EVENTS = "text/event-stream", [b"data: 1\n\n", b'event: error\ndata: {"error":"lost"}\n\n']
PLAIN = "application/json", [b'{"answer":', b"1}"]


class Streams(BaseHTTPRequestHandler):
    """Answers with the pieces that the server was given, one after the other."""

    protocol_version = "HTTP/1.1"
    kind, pieces = PLAIN

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(self.pieces):
            if number:
                time.sleep(GAP_MS / 1e3)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[type[Streams]]:
    class Handler(Streams):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        Handler.server_version = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield Handler
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize("answer", [LINES, EVENTS])
def test_the_first_item_is_measured_beside_the_whole(
    server: type[Streams], load: Load, answer: tuple[str, list[bytes]]
) -> None:
    server.kind, server.pieces = answer
    ran = load(server.server_version, *RUN)
    assert ran.code == 0, ran.err
    report = ran.report
    assert (report["requests"]["ok"], report["requests"]["failed"]) == (10, 0)
    assert report["latency"]["min_ms"] >= GAP_MS
    for name in ("min_ms", "p50_ms", "p99_ms"):
        # The second piece is sent so long after the first; the client may read both late.
        assert report["first_item"][name] < report["latency"][name]


@pytest.mark.parametrize("answer", [LINES, EVENTS])
def test_the_longest_wait_between_items_is_part_of_what_follows_the_first(
    server: type[Streams], load: Load, tmp_path: Path, answer: tuple[str, list[bytes]]
) -> None:
    server.kind, server.pieces = answer
    records = tmp_path / "records"
    report = load(server.server_version, *RUN, "--records", str(records)).report
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(rows) == 10
    for row in rows:
        # Of two pieces there is one wait; the end of the body comes after the second.
        assert 0 <= row["longest_gap_ms"] <= row["latency_ms"] - row["first_item_ms"] + 0.002
    assert report["longest_gap"]["max_ms"] == pytest.approx(
        max(row["longest_gap_ms"] for row in rows), abs=1e-3
    )


def test_an_answer_of_one_piece_has_no_wait_between_items(server: type[Streams], load: Load) -> None:
    server.kind, server.pieces = LINES[0], LINES[1][:1]
    report = load(server.server_version, *RUN).report
    assert report["first_item"] is not None
    assert report["longest_gap"] is None


def test_locust_has_rows_of_the_first_item_and_of_waits_that_are_in_no_total(
    server: type[Streams], locust: Locust
) -> None:
    server.kind, server.pieces = LINES
    options = ("--rate", "25", "--duration", "0.4", "--arrivals", "constant", "--json")
    code, out, err = finish(locust("--headless", "--host", server.server_version, *options))
    assert code == 0, err
    rows = {row["name"]: row for row in json.loads(out)}
    names = ["/v1/request", "/v1/request first item", "/v1/request longest wait between items"]
    assert sorted(rows) == names
    assert {row["num_requests"] for row in rows.values()} == {10}
    whole, first, gap = (rows[name]["total_response_time"] for name in names)
    assert 0 <= first < whole
    assert 0 <= gap <= whole - first + 20  # each is rounded to milliseconds
    assert "open loop: ok 10, failed 0" in err


@pytest.mark.parametrize("answer", [BROKEN_LINES, BROKEN_EVENTS])
def test_a_stream_that_ends_by_an_error_has_failed(
    server: type[Streams], load: Load, answer: tuple[str, list[bytes]]
) -> None:
    server.kind, server.pieces = answer
    report = load(server.server_version, *RUN).report
    assert (report["requests"]["ok"], report["errors"]) == (0, {"stream broke off": 10})
    assert report["first_item"] is None


def test_an_answer_that_does_not_stream_has_no_first_item(server: type[Streams], load: Load) -> None:
    report = load(server.server_version, *RUN).report
    assert (report["requests"]["ok"], report["first_item"]) == (10, None)


def test_a_limit_of_the_first_item_is_for_streams_and_counts_failures_as_endless(
    server: type[Streams], load: Load
) -> None:
    limit = ("--max-first-item", "60000")
    server.kind, server.pieces = LINES
    ran = load(server.server_version, *RUN, *limit)
    assert ran.code == 0, ran.err
    assert ran.report["first_item_with_failures"] == ran.report["first_item"]
    ran = load(server.server_version, *RUN, "--max-first-item", "0.001")
    assert (ran.code, "p99 of the first item is" in ran.err) == (4, True)
    server.kind, server.pieces = PLAIN
    ran = load(server.server_version, *RUN, *limit)
    assert (ran.code, "p99 of the first item is endless" in ran.err) == (4, True)
    assert "no answer streams" in ran.err
    ran = load(server.server_version, *RUN, "--max-first-item", "0")
    assert (ran.code, "--max-first-item: must be milliseconds above 0" in ran.err) == (2, True)
