"""Set-up of a demo: settings, schedule, folder and load generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.demo.setup.blocks import (
        ARMS as ARMS,
        Block as Block,
        Schedule as Schedule,
        orders as orders,
    )
    from kwiken.apps.demo.setup.folder import Folder as Folder
    from kwiken.apps.demo.setup.load import (
        Load as Load,
        LoadError as LoadError,
        Record as Record,
        read_records as read_records,
        write_queries as write_queries,
    )
    from kwiken.apps.demo.setup.settings import (
        EDGE_S as EDGE_S,
        MIN_LEARN_REQUESTS as MIN_LEARN_REQUESTS,
        PLANNING_S as PLANNING_S,
        SETTLE_S as SETTLE_S,
        TARGET as TARGET,
        DemoSettings as DemoSettings,
        Timing as Timing,
        check_enough as check_enough,
        divide as divide,
    )

__getattr__ = lazy_names(__name__, __file__)
