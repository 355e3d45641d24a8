"""Fixtures and settings of all tests."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# One thread of linear algebra in each process, set before NumPy loads: tests run in several processes side by
# side, and waiting threads of OpenBLAS keep the processors busy that other tests need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["tests.support.models.profile_fixtures"]

# No deadline: what one example takes says more about the machine than about the code.
settings.register_profile("ordinary", max_examples=15, deadline=None)
settings.register_profile("thorough", max_examples=200, deadline=None)
# For `make mutants`: that a test fails is enough, and nothing is kept for the next run.
settings.register_profile(
    "unshrunk", max_examples=15, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("ordinary")


def pytest_configure() -> None:
    """Undo that a shell which starts pytest in the background makes it and its children deaf to SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def whole_log() -> Iterator[None]:
    """Limits that a command sets to the log of its process end with the test: pytest's handlers stay."""
    root = logging.getLogger()
    before = {handler: list(handler.filters) for handler in root.handlers}
    yield
    for handler in root.handlers:
        handler.filters[:] = before.get(handler, [])


@pytest.fixture(scope="session")
def search_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """The index, which takes a quarter of a minute to build: the first worker builds, the others wait for it."""
    from kwiken.services.search.index import store

    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "search-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KWIKEN_CACHE", str(folder))
        store.build()
        yield folder
