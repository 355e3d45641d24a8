"""Settings of the load generator: targets and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.settings import LoadSettings, parse_target, prepare


@pytest.mark.parametrize(
    ("url", "path", "host", "port", "tls", "whole"),
    [
        ("http://h:80", "/v1/request", "h", 80, False, "http://h:80/v1/request"),
        ("http://h", "/", "h", 80, False, "http://h/"),
        ("https://h/", "/x?y=1", "h", 443, True, "https://h/x?y=1"),
        ("http://h:8080/base/", "/x", "h", 8080, False, "http://h:8080/base/x"),
        ("http://[::1]:5", "/x", "::1", 5, False, "http://[::1]:5/x"),
    ],
)
def test_targets(url: str, path: str, host: str, port: int, tls: bool, whole: str) -> None:
    target = parse_target(url, path)
    assert (target.host, target.port, target.tls, target.url) == (host, port, tls, whole)


@pytest.mark.parametrize(
    ("url", "path", "message"),
    [
        ("", "/", "must start with http"),
        ("localhost:80", "/", "must start with http"),
        ("ftp://h", "/", "must start with http"),
        ("file:///etc/passwd", "/", "must start with http"),
        ("http://", "/", "must name a host"),
        ("http://:80", "/", "must name a host"),
        ("http://h:0", "/", "must name a host"),
        ("http://h:99999", "/", "URL 'http://h:99999'"),
        ("http://h:x", "/", "URL 'http://h:x'"),
        ("http://[::1", "/", "URL"),
        ("http://u:p@h", "/", "no user"),
        ("http://h?q=1", "/", "no user, query"),
        ("http://h#f", "/", "no user, query or fragment"),
        ("http://h h", "/", "without spaces"),
        ("http://h\r\nX: y", "/", "plain ASCII"),
        ("http://hé", "/", "plain ASCII"),
        ("http://h", "x", "path 'x': must start with /"),
        ("http://h", "/ HTTP/1.1\r\nX: y", "no space or control"),
        ("http://h", "", "path ''"),
    ],
)
def test_bad_targets(url: str, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_target(url, path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rate": None}, "rate: poisson arrivals need"),
        ({"rate": 0.0}, "rate: must lie above 0"),
        ({"rate": math.nan}, "rate: must lie above 0"),
        ({"duration_s": None}, "duration: is missing"),
        ({"duration_s": -1.0}, "duration: must lie between"),
        ({"rate": 1e5, "duration_s": 100.0}, "duration: means 10000000 requests, more than 5000000"),
        ({"warmup_s": 10.0}, "warmup: must be at least 0 and shorter"),
        ({"warmup_s": -1.0}, "warmup"),
        ({"warmup_s": math.nan}, "warmup"),
        ({"timeout_s": 0.0}, "timeout: must be above 0"),
        ({"timeout_s": math.inf}, "timeout"),
        ({"late_ms": math.nan}, "late"),
        ({"max_in_flight": 0}, "in flight: must be at least 1"),
        ({"max_in_flight": 10**6}, "in flight"),
        ({"seed": -1}, "seed"),
        ({"method": "BREW"}, "method: must be one of POST, GET, HEAD"),
        ({"zipf": math.nan}, "zipf"),
        ({"queries": "/nowhere"}, "/nowhere: cannot be read"),
        ({"arrivals": "/nowhere"}, "/nowhere: cannot be read"),
        ({"arrivals": "constant:/nowhere"}, "/nowhere: cannot be read"),
        ({"body": "}"}, "body: is not JSON"),
        ({"url": "gopher://h"}, "URL"),
    ],
)
def test_bad_settings(changed: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"url": "http://h", "rate": 10.0, "duration_s": 10.0}
    prepare(LoadSettings(**good))
    with pytest.raises(InputError, match=message):
        prepare(LoadSettings(**(good | changed)))


def test_a_run_may_be_endless_where_it_can_be_stopped() -> None:
    assert prepare(LoadSettings(url="http://h", rate=1), endless=True).arrivals.duration_s is None
