"""Index store on disk: atomic, checked, and built by one process only."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.services.search.index import build, store
from kwiken.services.search.index.corpus import Document
from kwiken.services.search.index.parts import PARTS, Postings, Ranking, Texts

ROOT = Path(__file__).resolve().parents[2]


def document(name: str, text: str) -> Document:
    return Document("function", name, name, "(x)", text, "x.py", 1, [], 0.0)


def some_documents() -> list[Document]:
    return [document(f"pack.name{at}", f"Says thing {at}.\n\nAnd more of it.") for at in range(20)]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for part in build.parts(some_documents(), "k"):
        store.write(tmp_path, part)
    return tmp_path


def test_what_is_written_is_read(small: Path) -> None:
    texts = store.read(small, Texts)
    first, last = texts.texts.bounds(3)
    assert bytes(texts.texts.items[first:last]) == b"Says thing 3.\n\nAnd more of it."
    assert store.read(small, Ranking).names[3] == "pack.name3"
    assert sorted(path.name for path in small.iterdir()) == sorted(kind.file for kind in PARTS)


def test_every_document_is_in_one_shard_under_each_of_its_terms(small: Path) -> None:
    postings = store.read(small, Postings)
    term = postings.terms.index("thing")
    found: list[int] = []
    for number, shard in enumerate(postings.shards):
        first, last = shard.documents.bounds(term)
        documents = shard.documents.items.cast("I")[first:last].tolist()
        assert all(at % len(postings.shards) == number for at in documents)
        assert all(score > 0 for score in shard.scores.cast("f")[first:last])
        found += documents
    assert sorted(found) == list(range(20))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_noticed(small: Path, data: st.DataObject) -> None:
    good = (small / "texts").read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    damaged = data.draw(
        st.sampled_from(
            [good[:at], good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :], good + b"x", b"", b"kwsearch"]
        )
    )
    (small / "texts").write_bytes(damaged)
    try:
        with pytest.raises(InputError, match="texts"):
            store.read(small, Texts)
    finally:
        (small / "texts").write_bytes(good)


def test_a_part_of_another_kind_is_refused(small: Path) -> None:
    (small / "texts").write_bytes((small / "ranking").read_bytes())
    with pytest.raises(InputError, match="another format"):
        store.read(small, Texts)


def test_a_failed_write_leaves_the_old_part_and_no_rubbish(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (small / "texts").read_bytes()

    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    part = store.read(small, Texts)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write(small, part)
    assert (small / "texts").read_bytes() == before
    assert not list(small.glob(".texts-*"))


def test_same_documents_make_the_same_index(small: Path, tmp_path: Path) -> None:
    for part in build.parts(some_documents(), "k"):
        store.write(tmp_path / "again", part)
    for kind in PARTS:
        assert (small / kind.file).read_bytes() == (tmp_path / "again" / kind.file).read_bytes()


def test_no_document_at_all_still_makes_an_index(tmp_path: Path) -> None:
    for part in build.parts([], "k"):
        store.write(tmp_path, part)
    assert store.read(tmp_path, Postings).terms == []


def build_small(place: Path) -> None:
    """The parts of a small index under this interpreter's key; building the whole one takes long."""
    for part in build.parts(some_documents(), store.key()):
        store.write(place, part)


def test_a_damaged_index_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "_run_builder", build_small)
    texts = store.build() / Texts.file
    good = texts.read_bytes()
    texts.write_bytes(good[:-7])
    assert store.load(Texts).key == store.key()
    assert texts.read_bytes() == good


def test_processes_that_start_together_build_once(tmp_path: Path) -> None:
    """Each process asks for the index, none is there; one builder runs, all find the same whole index."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kwiken.services.search import store\n"
        "from kwiken.services.search.index.parts import PARTS\n"
        "from tests.services.test_search_store import build_small\n"
        "folder, own = Path(sys.argv[1]), sys.argv[2]\n"
        "def builder(place):\n"
        "    with (folder / 'log').open('a') as log: log.write('built\\n')\n"
        "    while len(list(folder.glob('asks-*'))) < 4: time.sleep(0.01)\n"
        "    build_small(place)\n"
        "store._run_builder = builder\n"
        "(folder / f'asks-{own}').touch()\n"
        "for kind in PARTS: print(store.load(kind).key)\n"
    )
    env = {**os.environ, "KWIKEN_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(own)],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in range(4)
    ]
    answers = {process.communicate(timeout=100)[0] for process in started}
    assert all(process.returncode == 0 for process in started)
    assert answers == {f"{store.key()}\n" * len(PARTS)}
    assert (tmp_path / "log").read_text() == "built\n"


def test_a_builder_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_CACHE", str(tmp_path))
    store.folder().write_text("in the way")
    with pytest.raises(store.BuildError, match="building the search index failed"):
        store.build()


def test_a_lock_that_is_held_for_ever_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "BUILD_SECONDS", 0.01)
    monkeypatch.setattr(store, "_run_builder", build_small)
    with store.folder().with_suffix(".lock").open("a+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert store.whole(store.build())


def test_only_the_newest_indexes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "_run_builder", build_small)
    folders = [tmp_path / f"search-{at}" for at in range(7)]
    for at, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (at, at))
    assert store.build().parent == tmp_path
    kept = [folder.name for folder in folders if folder.exists()]
    assert kept == ["search-4", "search-5", "search-6"]
    assert store.whole(store.folder())


def test_arrays_are_32_bit_here() -> None:
    assert array("I").itemsize == array("f").itemsize == 4
