"""Deployment of a user's service: finds its code and dependencies, and writes a folder that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.deploy.code import code_of as code_of
    from kwiken.apps.deploy.installed import pinned as pinned
    from kwiken.apps.deploy.write import (
        ImageFiles as ImageFiles,
        refuse_foreign as refuse_foreign,
        write_files as write_files,
    )

__getattr__ = lazy_names(__name__, __file__)
