"""Verb that steers a service, `kwiken autopilot`, and the options by which `serve` and `up` start one."""

from __future__ import annotations

from kwiken.cli.steering.options import (
    AutopilotSettings as AutopilotSettings,
    autopilot_command as autopilot_command,
    autopilot_options as autopilot_options,
    steered as steered,
)
