"""One index for all tests of the search service, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.search import _store


@pytest.fixture(scope="session")
def search_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("search-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KWIKEN_CACHE", str(folder))
        _store.build()
        yield folder
