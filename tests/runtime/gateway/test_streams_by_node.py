"""Streams read by another language: `fetch` as browsers have it, and gRPC over the HTTP/2 client of Node.js."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.runtime.gateway.test_streams import front
from tests.runtime.wire.grpc.test_grpc_streams import opened
from tests.support.runtime.streaming import Script
from tests.support.runtime.waiting import PATIENCE_S, found, until

NODE: Final = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

FETCH: Final = """
const [url, body] = process.argv.slice(1);
const headers = {"Content-Type": "application/json", Accept: "text/event-stream"};
const response = await fetch(url, {method: "POST", body, headers});
let text = "";
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const events = (text + piece).split("\\n\\n");
  text = events.pop();
  for (const event of events) console.log(JSON.stringify(event));
}
console.log(JSON.stringify(`status ${response.status}, left ${text.length}`));
"""

# A message is a byte for compression, four for its length, and fields of Protocol Buffers. Field 1 is the JSON
# text, in requests and answers alike.
GRPC: Final = """
import http2 from "node:http2";
const [url, json] = process.argv.slice(1);
const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
const text = Buffer.from(json);
const message = Buffer.concat([Buffer.from([10, ...varint(text.length)]), text]);
const prefix = Buffer.alloc(5);
prefix.writeUInt32BE(message.length, 1);
const session = http2.connect(url);
const call = session.request({
  ":method": "POST", ":path": "/kwiken.v1.Gateway/Stream",
  "content-type": "application/grpc", te: "trailers",
});
call.on("trailers", (all) => console.log(JSON.stringify(`status ${all["grpc-status"]}`)));
call.end(Buffer.concat([prefix, message]));
const jsonOf = (fields) => {
  if (fields[0] !== 10) return "";
  let [size, at] = [0, 1];
  for (let shift = 0; ; shift += 7) {
    size |= (fields[at] & 127) << shift;
    if (fields[at++] < 128) return fields.subarray(at, at + size).toString();
  }
};
let data = Buffer.alloc(0);
for await (const piece of call) {
  data = Buffer.concat([data, piece]);
  while (data.length >= 5 && data.length >= 5 + data.readUInt32BE(1)) {
    const end = 5 + data.readUInt32BE(1);
    console.log(JSON.stringify(jsonOf(data.subarray(5, end))));
    data = data.subarray(end);
  }
}
session.close();
"""


@contextlib.asynccontextmanager
async def reading(code: str, url: str, script: Script) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running client that prints what it reads, each as a line of JSON."""
    assert NODE is not None
    process = await asyncio.create_subprocess_exec(
        NODE, "--input-type=module", "--eval", code, url, msgspec.json.encode(script).decode(),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def lines_of(process: asyncio.subprocess.Process) -> list[Any]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return [json.loads(line) async for line in process.stdout]


async def first_lines(process: asyncio.subprocess.Process, count: int) -> list[Any]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return [json.loads(await process.stdout.readline()) for _ in range(count)]


def numbers(events: list[str]) -> list[int]:
    return [json.loads(event.removeprefix("data: "))["number"] for event in events]


async def test_fetch_reads_events_in_order_to_their_end() -> None:
    async with front() as gateway:
        url = gateway.gateway.url + "/v1/request"
        async with reading(FETCH, url, Script(2000, pad=20)) as process:
            *events, end, status = await lines_of(process)
    assert numbers(events) == list(range(2000))
    assert (end, status) == ('event: end\ndata: {"items":2000}', "status 200, left 0")


async def test_fetch_reads_events_as_they_come_and_a_client_that_leaves_ends_the_handler(
    tmp_path: Path,
) -> None:
    async with front() as gateway:
        script = Script(3, stall_at=2, log=str(tmp_path))
        async with reading(FETCH, gateway.gateway.url + "/v1/request", script) as process:
            assert numbers(await first_lines(process, 2)) == [0, 1]
            process.kill()
            await until(lambda: found(tmp_path, "cancelled"))


async def test_a_grpc_client_of_another_language_reads_items_to_the_end() -> None:
    async with opened() as door:
        url = f"http://{door.target}"
        async with reading(GRPC, url, Script(1000, pad=20)) as process:
            *items, end, status = await lines_of(process)
    assert numbers(items) == list(range(1000))
    assert (end, status) == ("", "status 0")


async def test_a_grpc_client_of_another_language_gets_the_status_of_what_breaks_off() -> None:
    async with opened() as door, reading(GRPC, f"http://{door.target}", Script(3, fail_at=2)) as process:
        *items, status = await lines_of(process)
    assert numbers(items) == [0, 1]
    assert status == "status 2"
