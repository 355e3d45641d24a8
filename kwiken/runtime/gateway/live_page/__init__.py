"""Live page of a gateway: the DAG, budgets over time, slow requests and plans, in a browser."""

from __future__ import annotations

from kwiken.runtime.gateway.live_page.allowed_origins import (
    AllowedOrigins as AllowedOrigins,
    is_loopback as is_loopback,
)
from kwiken.runtime.gateway.live_page.merged import merged_view as merged_view
from kwiken.runtime.gateway.live_page.page import LivePage as LivePage
