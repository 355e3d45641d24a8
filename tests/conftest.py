"""Fixtures and settings of all tests."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# One thread of linear algebra in each process, set before NumPy loads: tests run in several processes side by
# side, and waiting threads of OpenBLAS keep the processors busy that other tests need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["tests.support.models.profile_fixtures"]

# No deadline: what one example takes says more about the machine than about the code. `make test` draws the same
# examples every time; `make test-slow` draws fresh ones, and prints the line that repeats one which fails. All is
# stated, since Hypothesis has other defaults of its own where it sees that it runs in CI.
settings.register_profile(
    "ordinary", max_examples=15, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "thorough",
    max_examples=200,
    deadline=None,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    print_blob=True,
)
# For `make mutants`: that a test fails is enough.
settings.register_profile(
    "unshrunk", settings.get_profile("ordinary"), phases=(Phase.explicit, Phase.generate)
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
