"""Malformed, unusual and hostile HTTP requests: each gets a bounded answer, and the server goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.peers.raw_http import Place, Servers, servers

# Expected status; 0 for a connection that is closed without one.
BAD = {400, 0}
H = b"Host: localhost\r\n"


@pytest.fixture(scope="module")
def running() -> Iterator[Servers]:
    with servers() as found:
        yield found


def line(text: bytes) -> bytes:
    return b"%b\r\n%b\r\n" % (text, H)


def header(text: bytes) -> bytes:
    """A valid request with one further header."""
    return b"POST @T HTTP/1.1\r\n%bContent-Type: @K\r\nContent-Length: @L\r\n%b\r\n\r\n@B" % (H, text)


def bare(*lines: bytes, body: bytes = b"") -> bytes:
    """A request with only these headers and the type of its body."""
    return b"\r\n".join([b"POST @T HTTP/1.1", b"Content-Type: @K", *lines]) + b"\r\n\r\n" + body


FORMS: dict[str, tuple[bytes, set[int]]] = {
    # No HTTP at all
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", BAD),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {*BAD, 405, 505}),
    "zero bytes": (bytes(64) + b"\r\n\r\n", BAD),
    "high bytes": (b"\xff\xfe" * 40 + b"\r\n\r\n", BAD),
    "SSH": (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", BAD),
    "SMTP": (b"EHLO a\r\nMAIL FROM:<a@b>\r\n\r\n", BAD),
    "Redis": (b"*1\r\n$4\r\nPING\r\n\r\n", BAD),
    "shell": (b"$(reboot)\r\n\r\n", BAD),
    # First lines
    "no version": (b"GET /livez\r\n\r\n", {*BAD, 200}),
    "HTTP/0.9 with blanks": (b"GET  /livez\r\n\r\n", {*BAD, 200}),
    "version 9": (line(b"GET /livez HTTP/9.9"), {*BAD, 505}),
    "version in words": (line(b"GET /livez HTTP/one"), BAD),
    "version with a tail": (line(b"GET /livez HTTP/1.1.1"), BAD),
    "lower-case method": (line(b"get /livez HTTP/1.1"), {*BAD, 405}),
    "method with a NUL": (line(b"GE\0T /livez HTTP/1.1"), BAD),
    "long method": (line(b"A" * 9000 + b" /livez HTTP/1.1"), {*BAD, 405}),
    "unknown method": (line(b"BREW /livez HTTP/1.1"), {*BAD, 405}),
    "TRACE": (line(b"TRACE /livez HTTP/1.1"), {*BAD, 405}),
    "CONNECT": (line(b"CONNECT example.org:443 HTTP/1.1"), {*BAD, 404, 405}),
    "two blanks": (line(b"GET  /livez HTTP/1.1"), {*BAD, 200}),
    "tab for a blank": (line(b"GET\t/livez\tHTTP/1.1"), BAD),
    "blank in the target": (line(b"GET /li vez HTTP/1.1"), BAD),
    "NUL in the target": (line(b"GET /li\0vez HTTP/1.1"), BAD),
    "CR in the target": (line(b"GET /li\rvez HTTP/1.1"), BAD),
    "bytes beyond ASCII in the target": (line(b"GET /\xc3\xa4 HTTP/1.1"), {*BAD, 404}),
    "no target": (line(b"GET  HTTP/1.1"), BAD),
    "star": (line(b"OPTIONS * HTTP/1.1"), {*BAD, 404, 405}),
    "absolute target": (line(b"GET http://elsewhere.example/livez HTTP/1.1"), {*BAD, 404, 200}),
    "target of another scheme": (line(b"GET file:///etc/passwd HTTP/1.1"), {*BAD, 404}),
    "dots": (line(b"GET /../../etc/passwd HTTP/1.1"), {*BAD, 404}),
    "dots in disguise": (line(b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1"), {*BAD, 404}),
    "bad escapes": (line(b"GET /%zz%00%ff HTTP/1.1"), {*BAD, 404}),
    "two slashes": (line(b"GET //livez HTTP/1.1"), {*BAD, 404}),
    "long target": (line(b"GET /" + b"a" * 70_000 + b" HTTP/1.1"), {*BAD, 414}),
    "no answer to a line break": (b"\r\n" * 50 + b"X\r\n\r\n", BAD),
    # Hosts
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", {400}),
    "host with blanks": (b"GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", {400}),
    "host with a path": (b"GET /livez HTTP/1.1\r\nHost: localhost/x\r\n\r\n", {400}),
    "host with a user": (b"GET /livez HTTP/1.1\r\nHost: me@localhost\r\n\r\n", {400}),
    # Headers
    "no colon": (header(b"no colon"), BAD),
    "no name": (header(b": a"), BAD),
    "blank before the colon": (header(b"A : b"), BAD),
    "blank before the name": (header(b" A: b"), BAD),
    "folded": (header(b"A: b\r\n c"), {*BAD, 200}),
    "NUL in a value": (header(b"A: b\0c"), BAD),
    "bare LF in a value": (header(b"A: b\nC: d"), BAD),
    "bare CR in a value": (header(b"A: b\rC: d"), BAD),
    "escape in a value": (header(b"A: \x1b[2J"), {*BAD, 200}),
    "odd name": (header(b"A(b): c"), BAD),
    "name beyond ASCII": (header(b"\xc3\xa4: b"), BAD),
    "long value": (header(b"A: " + b"b" * 70_000), {*BAD, 431}),
    "long name": (header(b"a" * 70_000 + b": b"), {*BAD, 431}),
    "many headers": (header(b"\r\n".join(b"A%d: b" % n for n in range(5000))), {*BAD, 431}),
    "bare LF line ends": (b"GET /livez HTTP/1.1\nHost: localhost\n\n\r\n\r\n", BAD),
    # Lengths
    "two lengths": (bare(H[:-2], b"Content-Length: 1", b"Content-Length: 2", body=b"ab"), BAD),
    "lengths in a list": (bare(H[:-2], b"Content-Length: 1, 2", body=b"ab"), BAD),
    "signed length": (bare(H[:-2], b"Content-Length: +1", body=b"a"), BAD),
    "negative length": (bare(H[:-2], b"Content-Length: -1"), BAD),
    "hexadecimal length": (bare(H[:-2], b"Content-Length: 0x1", body=b"a"), BAD),
    "underscore in a length": (bare(H[:-2], b"Content-Length: 1_0", body=b"a" * 10), BAD),
    "other digits in a length": (bare(H[:-2], "Content-Length: \u0661".encode(), body=b"a"), BAD),
    "length beyond 64 bits": (bare(H[:-2], b"Content-Length: " + b"9" * 40), {*BAD, 413}),
    "length beyond what is taken": (bare(H[:-2], b"Content-Length: 999999999999"), {413}),
    "no length": (bare(H[:-2], body=b"abc"), {400, 411, 500, 0}),
    # Chunks: the gateway takes them, a replica does not
    "chunks and a length": (
        bare(H[:-2], b"Transfer-Encoding: chunked", b"Content-Length: 3", body=b"0\r\n\r\n"),
        {*BAD, 501},
    ),
    "unknown coding": (bare(H[:-2], b"Transfer-Encoding: rot13", body=b"abc"), {*BAD, 501}),
    "chunked twice": (bare(H[:-2], b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"), {*BAD, 501}),
    "packed chunks": (
        bare(H[:-2], b"Transfer-Encoding: gzip, chunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
        {501},
    ),
    "chunked with a tail": (bare(H[:-2], b"Transfer-Encoding: chunkedX", body=b"0\r\n\r\n"), {*BAD, 501}),
    "negative chunk": (
        bare(H[:-2], b"Transfer-Encoding: chunked", body=b"-1\r\na\r\n0\r\n\r\n"),
        {*BAD, 501},
    ),
    "huge chunk": (bare(H[:-2], b"Transfer-Encoding: chunked", body=b"f" * 40 + b"\r\n"), {*BAD, 501}),
    "chunk of no number": (bare(H[:-2], b"Transfer-Encoding: chunked", body=b"zz\r\n"), {*BAD, 501}),
    "long chunk extension": (
        bare(H[:-2], b"Transfer-Encoding: chunked", body=b"1;" + b"a" * 100_000 + b"\r\na\r\n0\r\n\r\n"),
        {*BAD, 413, 501},
    ),
    # Bodies that the service reads
    "two minus signs": (header(b"kw-priority: --9"), {400}),
    "priority without end": (header(b"kw-priority: " + b"9" * 5000), {400}),
    "underscore in a deadline": (header(b"kw-deadline-ms: 1_000"), {400}),
    "deadline of other digits": (header("kw-deadline-ms: \u0661\u0662".encode()), {400}),
    "deadline that is no number": (header(b"kw-deadline-ms: nan"), {400}),
    "endless deadline": (header(b"kw-deadline-ms: 1e308"), {400}),
    "trace of nothing": (header(b"traceparent: 00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00"), {200}),
    "trace of garbage": (header(b"traceparent: \xff\xfe"), {200, 400}),
    "compressed": (header(b"Content-Encoding: gzip"), {400}),
    "upgrade": (header(b"Connection: Upgrade\r\nUpgrade: websocket"), {200, 400, 0}),
    "upgrade to HTTP/2": (
        header(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
        {200, 400, 0},
    ),
    "odd expectation": (header(b"Expect: a miracle"), {417}),
    "body of garbage": (bare(H[:-2], b"Content-Length: 4", body=b"\xff\x00\xc1\xc1"), {400, 500}),
    "deep body": (bare(H[:-2], b"Content-Length: 50000", body=b"[" * 50_000), {400, 500}),
    "deep MessagePack": (bare(H[:-2], b"Content-Length: 50000", body=b"\x91" * 50_000), {400, 500}),
    "bomb of an array": (bare(H[:-2], b"Content-Length: 5", body=b"\xdd\xff\xff\xff\xff"), {400, 500}),
}
WHICH = ("gateway", "replica")


def filled(form: bytes, place: Place) -> bytes:
    for mark, text in ((b"@T", place.target), (b"@K", place.kind), (b"@B", place.body)):
        form = form.replace(mark, text)
    return form.replace(b"@L", b"%d" % len(place.body))


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("name", FORMS)
def test_a_hostile_form_is_answered_and_the_server_goes_on(running: Servers, name: str, which: str) -> None:
    form, taken = FORMS[name]
    place = running.places[which]
    assert place.status(filled(form, place)) in taken
    assert place.serves()


@pytest.mark.parametrize("which", WHICH)
def test_what_follows_a_refused_request_on_its_connection_is_no_request(running: Servers, which: str) -> None:
    place = running.places[which]
    smuggled = place.good(b"Content-Length: 0", b"Connection: close")
    with place.connect() as sock:
        sock.sendall(smuggled + place.good())
        received = b""
        try:
            while data := sock.recv(65_536):
                received += data
        except ConnectionError:
            pass
    assert received.count(b"HTTP/1.1 ") + received.count(b"HTTP/1.0 ") <= 1
    assert b" 200 " not in received


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_half_closed_client_gets_its_answers(running: Servers, which: str, version: bytes) -> None:
    place = running.places[which]
    keep = b"Connection: keep-alive"
    with place.connect() as sock:
        sock.sendall(2 * place.good(keep).replace(b"HTTP/1.1", b"HTTP/" + version))
        sock.shutdown(1)
        received = b""
        while data := sock.recv(65_536):
            received += data
    assert received.count(b" 200 OK") == (1 if which == "replica" and version == b"1.0" else 2)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"localhost\r\n", b"localhost\r\nOrigin: http://elsewhere.example\r\n", 403),
        (b"localhost\r\n", b"localhost\r\nOrigin: null\r\n", 403),
        (b"localhost\r\n", b"localhost\r\nOrigin: http://localhost\r\n", 200),
        (b"localhost\r\n", b"localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
        (b"localhost\r\n", b"localhost\r\nSec-Fetch-Site: same-origin\r\n", 200),
        (b"localhost\r\n", b"rebound.example\r\n", 421),
        (b"localhost\r\n", b"127.0.0.1:1\r\n", 200),
        (b"localhost\r\n", b"[::1]:1\r\n", 200),
        (b"application/json", b"text/plain", 415),
        (b"application/json", b"application/x-www-form-urlencoded", 415),
        (b"Content-Type: application/json\r\n", b"", 415),
        (b"application/json", b"Application/JSON; charset=utf-8", 200),
    ],
)
def test_a_page_of_another_origin_cannot_ask_the_gateway(
    running: Servers, old: bytes, new: bytes, status: int
) -> None:
    place = running.places["gateway"]
    assert place.status(place.good().replace(old, new)) == status


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"application/msgpack", b"text/plain"),
        (b"application/msgpack", b"application/x-www-form-urlencoded"),
        (b"Content-Type: application/msgpack\r\n", b""),
        (b"localhost\r\n", b"localhost\r\nOrigin: http://localhost\r\n"),
        (b"localhost\r\n", b"localhost\r\nOrigin: null\r\n"),
    ],
)
def test_no_page_can_call_a_replica(running: Servers, old: bytes, new: bytes) -> None:
    place = running.places["replica"]
    assert place.status(place.good().replace(old, new)) == 400


def test_a_missing_content_type_is_not_quoted(running: Servers) -> None:
    place = running.places["gateway"]
    with place.connect() as sock:
        sock.sendall(place.good(b"Connection: close").replace(b"Content-Type: application/json\r\n", b""))
        received = b""
        while data := sock.recv(65_536):
            received += data
    assert received.endswith(b"""Content-Type must be application/json, not ''"}""")
