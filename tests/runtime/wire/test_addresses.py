"""Addresses of replicas: what is taken, and refusals that name the form."""

from __future__ import annotations

import pytest

from kwiken.base.errors import InputError
from kwiken.runtime.wire.transport import wire


@pytest.mark.parametrize(
    "text", ["http://a b:1", "http://[::1]:5x", "https://a:1", "http://a:0", "http://u@a:1", "http://a:1\n"]
)
def test_bad_addresses(text: str) -> None:
    with pytest.raises(InputError, match="http://HOST:PORT"):
        wire.split_address(text, where="x")


def test_addresses() -> None:
    assert wire.split_address("http://[::1]:8080", where="x") == ("::1", 8080)
    assert wire.split_address("http://lookup-1.search:80", where="x") == ("lookup-1.search", 80)
    assert wire.split_address("grpc://a:1", where="x", schemes=("http", "grpc")) == ("a", 1)
    with pytest.raises(InputError, match="must be http://HOST:PORT or grpc://HOST:PORT, not 'ftp://a:1'"):
        wire.split_address("ftp://a:1", where="x", schemes=("http", "grpc"))
