"""Foreign services as stages: how a stage is called that some other program serves, over HTTP or gRPC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kwiken.model.service.template import JsonTemplate, TemplatePlace, TextTemplate

MAX_ADDRESSES: Final = 1000  # of one foreign service in a definition
MAX_PORT: Final = 65_535
METHODS: Final = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})
METHODS_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
# Headers that the transport writes itself.
RESERVED_HEADERS: Final = frozenset((
    *("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "traceparent"),
    *("transfer-encoding", "upgrade"),
))  # fmt: skip
EVENTS: Final = "events"
LINES: Final = "lines"
CHUNKS: Final = "chunks"
STREAMS: Final = (EVENTS, LINES, CHUNKS)  # forms of answers that stream over HTTP
DONE: Final = "[DONE]"  # data of the last event of most model servers
REQUEST: Final = "request"  # name of the input of a stage without parents
SHARD: Final = "shard"  # name of the shard's number, for stages with a fan-out

_HOST = r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])"
_ENDPOINT = re.compile(rf"{_HOST}:(?P<port>[0-9]{{1,5}})\Z")
_HTTP = re.compile(rf"https?://{_HOST}(?::(?P<port>[0-9]{{1,5}}))?(?P<target>/.*)?\Z", re.DOTALL)
_GRPC = re.compile(
    rf"grpcs?://{_HOST}:(?P<port>[0-9]{{1,5}})/(?P<method>[A-Za-z_][\w.]*/[A-Za-z_]\w*)\Z", re.ASCII
)
_PATH = re.compile(r"/[!-~]*\Z")
_NOT_IN_TARGETS = re.compile(r"[^!-~]|#")  # a control character, a space, beyond ASCII, or a fragment
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")
_HEADER_VALUE = re.compile(r"[ -~]{0,1000}\Z")
_END_MARK = re.compile(r"[!-~](?:[ -~]{0,998}[!-~])?\Z")


class HttpCall(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="http"
):
    """Call of a foreign HTTP service: one request with a JSON answer, or one that streams.

    Placeholders in `url`, `body` and their fields are filled for each call: `{request.field}` for a stage
    without parents, else `{PARENT.field}`, and `{shard}` at a fan-out.

    Attributes:
        url: `http://HOST[:PORT]/path?query`, or `https` for TLS; placeholders may stand in path and query,
            where their values are percent-encoded. The host's addresses are the replicas, unless `addresses`
            lists them; over TLS their certificates must hold the host's name all the same.
        method: DELETE, GET, PATCH, POST or PUT.
        body: template of the JSON body. If left out, the stage's only input is the body where the method has
            one (PATCH, POST, PUT); None for no body.
        headers: further headers of each request, by name.
        stream: form of an answer that streams: `events` for server-sent events with one item of JSON each,
            `lines` for lines of JSON, `chunks` for text in pieces as they come; None for one JSON answer.
        end_mark: data or name of the event, or the line, that ends a stream and is no item; None for a stream
            that the end of the body ends. If left out, `[DONE]` for events and None for lines.
        health: path that answers 2xx as long as a replica is healthy; None for none: then any answer to
            `HEAD /` shows that a replica is alive.
        addresses: `HOST:PORT` of each replica; empty for the host and port of `url`. Names stand for all
            their addresses, and are looked up regularly.
        attempts_header: name of a header with the number of earlier attempts of the same call, which copies
            and retries get; None for none.
        time_left_header: name of a header with the whole milliseconds that are left until the request's
            deadline; None for none.
        tls_ca: file with the authorities (PEM) of the service's certificates; None for the system's.
        tls_cert: file with the certificate (PEM) that the gateway shows to the service; None for none.
        tls_key: file with the private key (PEM) of `tls_cert`, not encrypted.
    """

    url: str
    method: str = "POST"
    body: Any = msgspec.UNSET
    headers: dict[str, str] = {}
    stream: str | None = None
    end_mark: str | msgspec.UnsetType | None = msgspec.UNSET
    health: str | None = None
    addresses: tuple[str, ...] = ()
    attempts_header: str | None = None
    time_left_header: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def final_mark(self) -> str | None:
        """End mark of a stream, the default one if none was stated; None for no mark."""
        if self.end_mark is msgspec.UNSET:
            return DONE if self.stream == EVENTS else None
        return self.end_mark

    @property
    def over_tls(self) -> bool:
        """Whether the service is called over TLS."""
        return self.url.startswith("https:")

    @property
    def host(self) -> str:
        """Host of the URL, without brackets."""
        return _split(_HTTP, self.url)[0].strip("[]")

    @property
    def authority(self) -> str:
        """Host and port of the URL, for the Host header."""
        host, port = _split(_HTTP, self.url)
        return host if port is None else f"{host}:{port}"

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`HOST:PORT` of the replicas; a name stands for all its addresses."""
        host, port = _split(_HTTP, self.url)
        return self.addresses or (f"{host}:{port or (443 if self.over_tls else 80)}",)

    def target_template(self, names: Sequence[str]) -> TextTemplate:
        """Template of path and query.

        Raises:
            ValueError: a placeholder is wrong.
        """
        match = _HTTP.match(self.url)
        assert match is not None
        return TextTemplate(match["target"] or "/", names)

    def body_template(self, names: Sequence[str]) -> JsonTemplate | None:
        """Template of the JSON body; None for no body.

        Raises:
            ValueError: a placeholder is wrong, or the body is left out where there are several inputs.
        """
        if self.body is None or (self.body is msgspec.UNSET and self.method not in METHODS_WITH_BODY):
            return None
        return _template(self.body, names, "body")

    def problems(self) -> Iterator[str]:
        """What is wrong with the call, apart from placeholders; the first says enough."""
        match = _HTTP.match(self.url)
        if match is None or not _is_port(match["port"] or "80"):
            yield f"remote must be http://HOST[:PORT]/path, or https, not {self.url[:80]!r}"
        elif _NOT_IN_TARGETS.search(match["target"] or "/"):
            yield f"percent-encode spaces, '#' and characters beyond ASCII in the path of {self.url[:80]!r}"
        if self.method not in METHODS:
            yield f"method must be one of {', '.join(sorted(METHODS))}, not {self.method!r}"
        if self.method not in METHODS_WITH_BODY and self.body is not None and self.body is not msgspec.UNSET:
            yield f"{self.method} has no body; put the input into the path, or use POST"
        for name, value in self.headers.items():
            if not (_HEADER_NAME.match(name) and _HEADER_VALUE.match(value)):
                yield f"{name[:40]!r} is not a header with a printable value"
            if name.lower() in RESERVED_HEADERS:
                yield f"the header {name!r} is written by the runtime"
        yield from self._stream_problems()
        yield from self._own_header_problems()
        yield from _tls_problems(self, "https://")
        if self.health is not None and not _PATH.match(self.health):
            yield f"health must be a path such as /healthz, not {self.health!r}"
        yield from _address_problems(self.addresses)

    def _stream_problems(self) -> Iterator[str]:
        if self.stream is not None and self.stream not in STREAMS:
            yield f"stream must be one of {', '.join(STREAMS)}, not {self.stream[:40]!r}"
        if self.end_mark is msgspec.UNSET:
            return
        if self.stream not in {EVENTS, LINES}:
            yield "end_mark has no effect: it ends a stream of events or lines"
        if self.end_mark is not None and not _END_MARK.match(self.end_mark):
            yield f"end_mark must be printable text without spaces around it, not {self.end_mark[:40]!r}"

    def _own_header_problems(self) -> Iterator[str]:
        taken = {name.lower() for name in self.headers} | RESERVED_HEADERS
        for field in ("attempts_header", "time_left_header"):
            name = getattr(self, field)
            if name is None:
                continue
            if not _HEADER_NAME.match(name):
                yield f"{field} must be the name of a header, not {name[:40]!r}"
            if name.lower() in taken:
                yield f"{field}: the header {name!r} has a value already"
            taken.add(name.lower())


class GrpcCall(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="grpc"
):
    """Call of a foreign gRPC service: a unary method, or one that answers with a stream.

    The answer of a unary method is its reply message, that of a streaming method the list of its messages,
    or each of them as an item; in the JSON form of Protocol Buffers, with fields named as in the `.proto`.

    Attributes:
        url: `grpc://HOST:PORT/package.Service/Method`, or `grpcs` for TLS. The host's addresses are the
            replicas, unless `addresses` lists them; over TLS their certificates must hold the host's name
            all the same.
        message: template of the request message in JSON form; placeholders as in `HttpCall`. If left out, the
            stage's only input is the message.
        stream: whether the stage streams the messages of a streaming method, each as an item.
        descriptors: path of a descriptor set (`protoc --include_imports --descriptor_set_out=PATH`); None to
            ask the service itself, by server reflection.
        health: name of the service for `grpc.health.v1`; the empty name stands for the whole server.
        addresses: `HOST:PORT` of each replica; empty for the host and port of `url`. Names stand for all
            their addresses, and are looked up regularly.
        tls_ca: file with the authorities (PEM) of the service's certificates; None for the system's.
        tls_cert: file with the certificate (PEM) that the gateway shows to the service; None for none.
        tls_key: file with the private key (PEM) of `tls_cert`, not encrypted.
    """

    url: str
    message: Any = msgspec.UNSET
    stream: bool = False
    descriptors: str | None = None
    health: str = ""
    addresses: tuple[str, ...] = ()
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def over_tls(self) -> bool:
        """Whether the service is called over TLS."""
        return self.url.startswith("grpcs:")

    @property
    def host(self) -> str:
        """Host of the URL, without brackets."""
        return _split(_GRPC, self.url)[0].strip("[]")

    @property
    def authority(self) -> str:
        """Host and port of the URL."""
        host, port = _split(_GRPC, self.url)
        return f"{host}:{port}"

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`grpc://HOST:PORT` of the replicas; a name stands for all its addresses."""
        return tuple(f"grpc://{each}" for each in self.addresses or (self.authority,))

    @property
    def method(self) -> str:
        """Full name of the method, `package.Service/Method`."""
        match = _GRPC.match(self.url)
        assert match is not None
        return match["method"]

    def message_template(self, names: Sequence[str]) -> JsonTemplate:
        """Template of the request message.

        Raises:
            ValueError: a placeholder is wrong, or the message is left out where there are several inputs.
        """
        return _template(self.message, names, "message")

    def problems(self) -> Iterator[str]:
        """What is wrong with the call, apart from placeholders; the first says enough."""
        match = _GRPC.match(self.url)
        if match is None or not _is_port(match["port"]):
            form = "grpc://HOST:PORT/package.Service/Method"
            yield f"remote must be {form}, or grpcs, not {self.url[:80]!r}"
        yield from _tls_problems(self, "grpcs://")
        if self.descriptors is not None and not self.descriptors:
            yield "descriptors must be the path of a descriptor set, not empty"
        yield from _address_problems(self.addresses)


Remote = HttpCall | GrpcCall


class Templates(NamedTuple):
    """Templates of a foreign stage's calls.

    Attributes:
        target: path and query of an HTTP request; None for gRPC.
        body: JSON body or message; None for no body.
    """

    target: TextTemplate | None
    body: JsonTemplate | None

    @property
    def places(self) -> Iterator[TemplatePlace]:
        """Placeholders of all templates."""
        for template in self:
            if template is not None:
                yield from template.places


def remote_of(text: str) -> Remote:
    """Call that a plain text stands for: a POST of the stage's only input, or a gRPC method."""
    return GrpcCall(text) if text.startswith(("grpc:", "grpcs:")) else HttpCall(text)


def input_names(after: Sequence[str], fanout: int) -> tuple[str, ...]:
    """Names of a foreign stage's inputs in its templates.

    Args:
        after: names of the parents; empty for a stage that takes the request.
        fanout: number of shards; above 1 the number of the shard is an input too, the last one.
    """
    return (*(after or (REQUEST,)), *((SHARD,) if fanout > 1 else ()))


def templates_of(remote: Remote, names: Sequence[str]) -> Templates:
    """Templates of a call.

    Args:
        remote: call of a foreign service, without problems.

    Raises:
        ValueError: a placeholder is wrong.
    """
    if isinstance(remote, GrpcCall):
        return Templates(None, remote.message_template(names))
    return Templates(remote.target_template(names), remote.body_template(names))


def _template(written: Any, names: Sequence[str], what: str) -> JsonTemplate:
    if written is not msgspec.UNSET:
        return JsonTemplate(written, names)
    inputs = [name for name in names if name != SHARD]
    if len(inputs) > 1:
        raise ValueError(f"has the inputs {', '.join(inputs)}; say by `{what}` what is sent of them")
    return JsonTemplate(f"{{{inputs[0]}}}", names)


def _split(pattern: re.Pattern[str], url: str) -> tuple[str, str | None]:
    match = pattern.match(url)
    assert match is not None, "checked when the stage was defined"
    return match["host"], match["port"]


def _is_port(text: str) -> bool:
    return 0 < int(text) <= MAX_PORT


def _tls_problems(remote: Remote, scheme: str) -> Iterator[str]:
    if (remote.tls_cert is None) != (remote.tls_key is None):
        yield "tls_cert and tls_key go together"
    named = [name for name in ("tls_ca", "tls_cert", "tls_key") if getattr(remote, name) is not None]
    if named and not remote.over_tls:
        yield f"{named[0]} has no effect: a service that is called over TLS has a URL of {scheme}"
    if any(getattr(remote, name) == "" for name in named):
        yield "tls_ca, tls_cert and tls_key must be paths of files, not empty"


def _address_problems(addresses: Sequence[str]) -> Iterator[str]:
    if len(addresses) > MAX_ADDRESSES:
        yield f"addresses must be at most {MAX_ADDRESSES}, not {len(addresses)}; use a name for many"
    for address in addresses:
        match = _ENDPOINT.match(address)
        if match is None or not _is_port(match["port"]):
            yield f"an address must be HOST:PORT, not {address[:80]!r}"
