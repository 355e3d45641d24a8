"""One index for all tests of the search service, in a folder of the test run's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.search import _store


@pytest.fixture(scope="session")
def search_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """The index, which takes a quarter of a minute to build: the first worker builds, the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "search-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KWIKEN_CACHE", str(folder))
        _store.build()
        yield folder
