"""Locust beside a service: its image, its command and its Locust file, for Compose and Kubernetes. Pure."""

from __future__ import annotations

from importlib import resources
from typing import Final

from kwiken.export.deployments.certificates import AUTHORITIES
from kwiken.export.deployments.deployment import GATEWAY_PORT, Deployment

LOCUST: Final = "locust"  # container, target of the Dockerfile, folder beside the Compose file
LOCUSTFILE: Final = "locustfile.py"
LOCUST_PORT: Final = 8089
MOUNT: Final = "/etc/kwiken/locust"


def image_of_load(image: str) -> str:
    """Name of the image with Locust, beside the service's: `shop-locust:1` for `shop:1`."""
    folder, slash, last = image.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{folder}{slash}{name}-{LOCUST}{colon}{tag}"


def locust_words(deployment: Deployment, gateway: str) -> list[str]:
    """Words of the command that loads a service by the gateway of that host name, after `locust`."""
    scheme = "https" if deployment.tls else "http"
    return [f"--locustfile={MOUNT}/{LOCUSTFILE}", f"--host={scheme}://{gateway}:{GATEWAY_PORT}"]


def trusted(deployment: Deployment) -> dict[str, str]:
    """Environment by which Locust knows the gateway's certificate; empty without TLS."""
    return {"KWIKEN_TLS_CA": AUTHORITIES} if deployment.tls else {}


def locustfile(made_by: str) -> str:
    """Text of the Locust file, whose header has the command that writes the file."""
    text = resources.files(__package__).joinpath(f"{LOCUSTFILE}.txt").read_text(encoding="utf-8")
    return f"# Made by: {made_by}\n{text}"
