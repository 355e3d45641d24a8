"""The check of health of exported containers over TLS, against a replica that asks for a certificate."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kwiken.export.deployments.certificates import CERTIFICATE, KEY, health_program
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.tls.certificates import Certificates
from tests.support.faults.authority import Authority
from tests.support.services.http import service


async def fails(program: str) -> bool:
    words = (sys.executable, "-IS", "-c", program)
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
    return await process.wait() != 0


async def test_a_replica_is_healthy_for_its_own_certificate_alone(tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours").issue("stage")
    stranger = Authority(tmp_path / "theirs").issue("stage")
    server = ReplicaServer(service, "first", tls=Certificates(ours))
    await server.start()
    port = int(server.url.rpartition(":")[2])
    try:
        for files, ok in ((ours, True), (stranger, False)):
            program = health_program(port, "/readyz", tls=True)
            shown = program.replace(CERTIFICATE, files.certificate).replace(KEY, files.key)
            assert await fails(shown) != ok
        assert await fails(health_program(port, "/readyz", tls=False))
    finally:
        await server.stop(grace_s=0.0)
    assert await fails(shown)
