"""Flow logs: VPC's and Hubble's lines become flows; what is wrong is named by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.traffic.flows import OUTSIDE, TrafficUnit
from kwiken.traffic.span_flows.addresses import endpoints_by_address
from kwiken.traffic.span_flows.logs import is_flow_log, read_flow_logs

HEAD = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status"
LINE = "2 1 eni-1 10.0.0.1 10.0.0.2 443 5000 6 10 8400 1700000000 1700000060 ACCEPT OK"


def hubble(caller: str, callee: str, **more: object) -> str:
    ends = {
        side: {"namespace": "shop", "pod_name": pod, "workloads": [{"name": pod.rpartition("-")[0]}]}
        for side, pod in (("source", caller), ("destination", callee))
    }
    flow = {"time": "2026-01-30T13:15:43.5Z", "verdict": "FORWARDED", "node_name": "n1", **ends, **more}
    return json.dumps({"flow": flow})


def written(tmp_path: Path, *lines: str, name: str = "flows") -> str:
    path = tmp_path / name
    path.write_text("\n".join((*lines, "")))
    return str(path)


@pytest.mark.parametrize("head", [(), (HEAD,)])
def test_vpc_logs_count_bytes(tmp_path: Path, head: tuple[str, ...]) -> None:
    lines = [
        LINE,
        LINE.replace("ACCEPT", "REJECT"),
        LINE.replace("8400", "-").replace("ACCEPT OK", "- NODATA"),
    ]
    path = written(tmp_path, *head, *lines)
    assert is_flow_log(path)
    found = read_flow_logs([path], {})
    assert found.flows.unit is TrafficUnit.BYTES
    assert found.flows.amount.tolist() == [8400.0]
    assert [one.name for one in found.flows.endpoints] == ["10.0.0.1", "10.0.0.2"]
    assert found.counts == {"rejected": 1, "no data": 1}


def test_addresses_are_named_and_the_others_are_outside(tmp_path: Path) -> None:
    known = endpoints_by_address("address,service,name,zone\n10.0.0.1,cart,cart-1,a\n", where="a.csv")
    found = read_flow_logs([written(tmp_path, HEAD, LINE)], known)
    assert [(one.name, one.zone) for one in found.flows.endpoints] == [("cart-1", "a"), (OUTSIDE, "")]
    assert found.counts["an end is at no known address"] == 1


def test_hubble_counts_calls_between_pods(tmp_path: Path) -> None:
    lines = [hubble("cart-1", "stock-1"), hubble("stock-1", "cart-1", is_reply=True)]
    lines += [hubble("cart-1", "stock-2", verdict="DROPPED"), json.dumps({"lost_events": {}, "flow": None})]
    found = read_flow_logs([written(tmp_path, *lines)], {})
    assert found.flows.unit is TrafficUnit.CALLS
    assert [(one.name, one.service, one.node) for one in found.flows.endpoints] == [
        ("shop/cart-1", "cart", ""),
        ("shop/stock-1", "stock", "n1"),
    ]
    assert found.counts == {"replies": 1, "not forwarded": 1, "no flow": 1}


def test_a_log_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "flows"
    path.write_text(hubble("cart-1", "stock-1") + "\n" + hubble("cart-1", "stock-1")[:40])
    found = read_flow_logs([str(path)], {})
    assert (len(found.flows), found.counts) == (1, {"cut short": 1})


def test_a_packed_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "flows.gz"
    path.write_bytes(gzip.compress(f"{HEAD}\n{LINE}\n".encode()))
    assert len(read_flow_logs([str(path)], {}).flows) == 1


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((HEAD, LINE.replace("8400", "NaN")), ":2: bytes must be a number"),
        ((HEAD, LINE.replace("1700000000", "-5")), ":2: start must be a number"),
        ((HEAD, LINE + " more"), ":2: has 15 fields"),
        ((HEAD.replace("bytes", "octets"), LINE), ":1: has no field bytes"),
        ((HEAD,), "holds no flow"),
        ((HEAD, LINE.replace("ACCEPT", "REJECT")), r"holds no flow \(1 lines: rejected\)"),
        ((hubble("a-1", "b-1"), "{broken"), ":2: is no flow"),
        ((hubble("a-1", "b-1"), "[]"), ":2: is no flow"),
        ((hubble("a-1", "b-1", time="yesterday"),), ":1: time must be"),
        ((hubble("a-1", "b-1", time=None),), ":1: time must be"),
        ((hubble("a-1", "b-1", source=None),), ":1: source has neither a pod nor an address"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_flow_logs([written(tmp_path, *lines)], {})


def test_a_line_of_strange_bytes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "flows"
    path.write_bytes(hubble("a-1", "b-1").encode() + b"\n" + hubble("a-1", "b-1").encode("utf-16") + b"\n")
    with pytest.raises(InputError, match=":2: is no flow"):
        read_flow_logs([str(path)], {})
    path.write_bytes(hubble("a-1", "b-1").replace("a-1", "\N{POUND SIGN}").encode("latin-1") + b"\n")
    with pytest.raises(InputError, match=":1: is no flow"):
        read_flow_logs([str(path)], {})


def test_bytes_and_calls_do_not_mix(tmp_path: Path) -> None:
    paths = [written(tmp_path, HEAD, LINE, name="a"), written(tmp_path, hubble("a-1", "b-1"), name="b")]
    with pytest.raises(InputError, match="files of one kind"):
        read_flow_logs(paths, {})


def test_broken_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "flows.gz"
    path.write_bytes(gzip.compress(f"{HEAD}\n{LINE}\n".encode() * 1000)[:60])
    with pytest.raises(InputError, match="broken as gzip"):
        read_flow_logs([str(path)], {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("service\ncart\n", "no column address"),
        ("address,service,port\n", "column 'port'"),
        ("address,service\n1.2.3.4,\n", ":2: has an empty"),
        ("address,service\n1.2.3.4,a\n1.2.3.4,b\n", ":3: gives 1.2.3.4 twice"),
        ("address,service\n1.2.3.4\n", ":2: must have 2 columns"),
    ],
)
def test_a_bad_table_of_addresses_is_named(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        endpoints_by_address(text, where="a.csv")
