"""HCloud: strategies of provisioning, mapping policies and costs, on a simulated cloud and load curves."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.hcloud.parts import all_parts as all_parts
