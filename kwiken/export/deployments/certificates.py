"""Certificates of a deployment that speaks TLS: their places in containers, options, checks of health. Pure.

Every container sees one folder with `tls.crt`, `tls.key` and `ca.crt`, as a Secret of Kubernetes has them:
all gateways the same one, all stages the same one. Files that are replaced there count without a restart.
"""

from __future__ import annotations

from typing import Final

FOLDER: Final = "/etc/kwiken/tls"
CERTIFICATE, KEY, AUTHORITIES = f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key", f"{FOLDER}/ca.crt"
SIDES: Final = ("gateway", "stage")


def secret_of(name: str, side: str) -> str:
    """Name of the Secret of one side.

    Args:
        side: which processes the Secret is for, one of `SIDES`.
    """
    return f"{name}-{side}-tls"


def stage_name(name: str) -> str:
    """Host name that the certificate of the stages must hold; their addresses come from look-ups."""
    return f"{name}-stage"


def door_words() -> list[str]:
    """Options by which a gateway's front door speaks TLS and asks callers for no certificate."""
    return [f"--tls-cert={CERTIFICATE}", f"--tls-key={KEY}"]


def replica_words(name: str) -> list[str]:
    """Options by which a gateway calls replicas over TLS; `name` is the deployment's."""
    return [
        f"--replica-tls-cert={CERTIFICATE}",
        f"--replica-tls-key={KEY}",
        f"--replica-tls-ca={AUTHORITIES}",
        f"--replica-tls-name={stage_name(name)}",
    ]


def stage_words() -> list[str]:
    """Options by which a replica takes callers with a certificate of the authorities alone."""
    return [*door_words(), f"--tls-ca={AUTHORITIES}"]


def health_program(port: int, path: str, *, tls: bool) -> str:
    """Program in Python that fails where a process does not answer 200.

    Over TLS it shows the process its own certificate, which must be valid for clients too.

    Args:
        path: path to ask for, as `/readyz`.
    """
    to = f"socket.create_connection(('127.0.0.1', {port}), 3)"
    begin = f"import socket; s = {to}; "
    if tls:
        begin = (
            "import socket, ssl; c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; "
            f"c.verify_mode = ssl.CERT_NONE; c.load_cert_chain('{CERTIFICATE}', '{KEY}'); "
            f"s = c.wrap_socket({to}); "
        )
    return begin + f"s.sendall(b'GET {path} HTTP/1.0\\r\\n\\r\\n'); assert b' 200 ' in s.recv(100)"
