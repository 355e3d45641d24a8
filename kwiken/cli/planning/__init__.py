"""Verbs that make a plan or replay one: plan, simulate, judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.planning.load_options import queues_option as queues_option, read_queues as read_queues

__getattr__ = lazy_names(__name__, __file__)
