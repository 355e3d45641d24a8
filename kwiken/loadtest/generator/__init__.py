"""Generator of open-loop load over gevent: when requests are sent, and the HTTP client that sends them.

Importing this package loads gevent, and leaves the standard library as it is.
"""

from __future__ import annotations

from kwiken.loadtest.generator.clients import client_of as client_of
from kwiken.loadtest.generator.open_loop import OpenLoop as OpenLoop, plan as plan
from kwiken.loadtest.generator.shared_schedule import steered as steered
from kwiken.loadtest.generator.timer import Timer as Timer
