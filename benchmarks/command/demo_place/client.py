"""Independent client of the demonstration, as a program: an order on stdin, the latencies on stdout.

python -m benchmarks.command.demo_place.client < ORDER > RESULT
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

from benchmarks.command.demo_place.traffic import ClientOrder, run_client


def main() -> None:
    """Read an order, send its requests, and write the streams as JSON."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ClientOrder)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run_client(order))))


if __name__ == "__main__":
    main()
