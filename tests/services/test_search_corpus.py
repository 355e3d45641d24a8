"""Search corpus: documents read from source, and their public names."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from kwiken.base.errors import InputError
from kwiken.services.search.index import native, store
from kwiken.services.search.index.corpus import Document, corpus, library
from kwiken.services.search.index.names import private
from kwiken.services.search.index.parts import Cards, SymbolCard, Texts


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def named(root: Path) -> dict[str, Document]:
    return {document.name: document for document in corpus(root)}


def test_what_a_package_reexports_goes_by_the_packages_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pack/__init__.py": '"""A package."""\nfrom .tasks import *\nfrom ._inner import Hidden\n',
            "pack/tasks.py": '"""Tasks."""\n__all__ = ("gather",)\ndef gather(*many, late=None):\n    """Gather."""\n',
            "pack/_inner.py": 'class Hidden:\n    """Not so hidden."""\n    def show(self, x):\n        """Show."""\n',
        },
    )
    found = named(tmp_path)
    assert set(found) == {"pack", "pack.tasks", "pack.gather", "pack.Hidden", "pack.Hidden.show"}
    assert found["pack.gather"].aliases == ["pack.tasks.gather"]
    assert found["pack.gather"].signature == "(*many, late=None)"
    assert found["pack.Hidden.show"].signature == "(x)"
    assert (found["pack.gather"].path, found["pack.gather"].line) == ("pack/tasks.py", 3)


def test_a_user_of_a_name_is_not_its_home(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "maker.py": 'def make():\n    """Make."""\n',
            "user.py": '"""Use."""\nfrom maker import make\n',
        },
    )
    assert set(named(tmp_path)) == {"maker.make", "user"}


def test_methods_of_a_hidden_instance_are_functions(tmp_path: Path) -> None:
    source = 'class Dice:\n    def roll(self):\n        """Roll."""\n_inst = Dice()\nroll = _inst.roll\n'
    write(tmp_path, {"dice.py": f'__all__ = ["roll", "Dice"]\n{source}'})
    found = named(tmp_path)
    assert found["dice.roll"].kind == "function"
    assert found["dice.roll"].aliases == ["dice.Dice.roll"]


def test_names_exported_by_late_import_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pool/__init__.py": '__all__ = ("Threads",)\ndef __getattr__(name): ...\n',
            "pool/thread.py": 'class Threads:\n    """Threads."""\n',
        },
    )
    assert "pool.Threads" in named(tmp_path)


def test_exported_names_without_docstring_are_found_with_the_comment_above(tmp_path: Path) -> None:
    text = (
        '__all__ = ["bare", "noted"]\ndef bare(x): ...\n# What it does.\ndef noted(): ...\ndef other(): ...\n'
    )
    write(tmp_path, {"plain.py": text})
    found = named(tmp_path)
    assert set(found) == {"plain.bare", "plain.noted"}
    assert found["plain.noted"].text == "What it does."


def test_unreadable_and_foreign_files_are_passed_over(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "good.py": '"""Good."""\n',
            "broken.py": "def (:\n",
            "null.py": "x = '\0'\n",
            "test/inside.py": '"""A test."""\n',
            "site-packages/thing.py": '"""Foreign."""\n',
            "no-module.py": '"""Not importable."""\n',
        },
    )
    (tmp_path / "latin.py").write_bytes(b'"""\xff\xfe"""\n')
    assert set(named(tmp_path)) == {"good"}


def test_nothing_is_run_by_reading(tmp_path: Path) -> None:
    write(tmp_path, {"boom.py": '"""Boom."""\nraise SystemExit("was run")\n'})
    assert set(named(tmp_path)) == {"boom"}


def test_an_empty_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Python source"):
        corpus(tmp_path)


def test_c_modules_are_asked_and_cleaned() -> None:
    modules = {module.name: module for module in native.modules()}
    assert modules["math"].definitions["sqrt"].signature == "(x, /)"
    assert "Return the square root" in modules["math"].definitions["sqrt"].text
    assert modules["builtins"].definitions["str.split"].kind == "method"
    assert "str.__add__" not in modules["builtins"].definitions


@pytest.fixture(scope="module")
def whole(search_cache: Path) -> dict[str, SymbolCard]:
    """Every document of this machine's library, as the index that is built of them has it."""
    packed, kept = store.read(store.folder(), Cards).cards, {}
    for at in range(len(packed.starts.cast("I")) - 1):
        first, last = packed.bounds(at)
        card = msgspec.msgpack.decode(packed.items[first:last], type=SymbolCard)
        kept[f"{card.kind} {card.name}"] = card
    return kept


def test_the_machines_library_is_thousands_of_documents(whole: dict[str, SymbolCard]) -> None:
    kinds = {
        kind: sum(key.startswith(f"{kind} ") for key in whole) for kind in ("module", "class", "function")
    }
    assert len(whole) > 5000
    assert min(kinds.values()) > 200
    texts = store.read(store.folder(), Texts).texts
    lengths = [last - first for first, last in pairwise(texts.starts.cast("I"))]
    assert all(length or not private(card.name) for length, card in zip(lengths, whole.values(), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "function asyncio.gather",
        "function json.loads",
        "function csv.reader",
        "function random.randint",
        "function os.path.join",
        "function os.path.exists",
        "function os.listdir",
        "class collections.deque",
        "class collections.OrderedDict",
        "class collections.abc.Mapping",
        "class concurrent.futures.ThreadPoolExecutor",
        "class datetime.datetime",
        "method datetime.datetime.now",
        "class functools.partial",
        "function heapq.heappush",
        "function hashlib.sha256",
        "function math.sqrt",
        "method str.split",
        "function print",
        "class unittest.TestCase",
        "module asyncio",
    ],
)
def test_things_go_by_the_names_that_people_write(whole: dict[str, SymbolCard], name: str) -> None:
    assert name in whole


def test_paths_lead_to_the_definition(whole: dict[str, SymbolCard]) -> None:
    gather = whole["function asyncio.gather"]
    assert "gather" in (library() / gather.path).read_text(encoding="utf-8").splitlines()[gather.line - 1]
