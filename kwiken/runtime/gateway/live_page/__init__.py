"""Live page of a gateway: the DAG, budgets over time, slow requests and plans, in a browser."""

from __future__ import annotations

from kwiken.runtime.gateway.live_page.page import LivePage as LivePage
