"""Client of a running gateway for the verbs: its control routes, its status, and an autopilot beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.live.gateway.autopilot_beside import (
        AUTOPILOT_BUDGET as AUTOPILOT_BUDGET,
        AutopilotSettings as AutopilotSettings,
        autopilot_command as autopilot_command,
        autopilot_options as autopilot_options,
        steered as steered,
    )
    from kwiken.cli.live.gateway.client import NO_ANSWER as NO_ANSWER, request_control as request_control
    from kwiken.cli.live.gateway.figures import figures_of as figures_of
    from kwiken.cli.live.gateway.remote import (
        remote_gateway as remote_gateway,
        token_file_option as token_file_option,
    )
    from kwiken.cli.live.gateway.status_tables import (
        BUDGETS as BUDGETS,
        COLUMNS as COLUMNS,
        GATEWAYS as GATEWAYS,
        LINES as LINES,
        LOST as LOST,
        NODE_COLUMNS as NODE_COLUMNS,
        REQUESTS as REQUESTS,
        STAGES as STAGES,
        WIDTH as WIDTH,
        autopilot_lines as autopilot_lines,
        budget_rows as budget_rows,
        gateway_rows as gateway_rows,
        line_rows as line_rows,
        node_rows as node_rows,
        replica_rows as replica_rows,
        request_row as request_row,
        stage_rows as stage_rows,
        wrapped as wrapped,
    )
    from kwiken.cli.live.gateway.tokens import token_of as token_of

__getattr__ = lazy_names(__name__, __file__)
