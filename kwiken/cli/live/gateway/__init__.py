"""Client of a running gateway for the verbs: requests to its control routes, and its status."""

from __future__ import annotations

from kwiken.cli.live.gateway.client import NO_ANSWER, request_control
from kwiken.cli.live.gateway.figures import figures_of

__all__ = ["NO_ANSWER", "figures_of", "request_control"]
