"""Client of a running gateway for the verbs: requests to its control routes, and its status."""

from __future__ import annotations

from kwiken.cli.live.gateway.client import NO_ANSWER as NO_ANSWER, request_control as request_control
from kwiken.cli.live.gateway.figures import figures_of as figures_of
