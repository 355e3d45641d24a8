"""Commands of the search service, query generator, and measures."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwiken.services.search import __main__ as commands, _speller, search
from kwiken.services.search.index import store
from kwiken.services.search.index.parts import Words
from kwiken.services.search.query_mix import misspell, queries
from services.hello import Visitor, hello
from tests.support.services import local_answers
from tests.support.services.answer_quality import Judgement, Verdict, score

pytestmark = pytest.mark.usefixtures("search_cache")


def test_queries_are_the_same_for_the_same_seed() -> None:
    first, again, other = (list(queries(300, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_queries_are_short_skewed_and_a_few_misspelt() -> None:
    found = list(queries(3000, 1))
    lengths = Counter(len(query.split()) for query in found)
    assert set(lengths) == {1, 2, 3, 4}
    often = Counter(found).most_common(30)
    assert sum(count for _, count in often) > 0.05 * len(found)
    assert len(set(found)) > 0.3 * len(found)
    unknown = sum(not all(map(_speller().knows, query.split())) for query in found)
    assert 0.01 < unknown / len(found) < 0.1


def test_most_queries_find_something() -> None:
    answers = [local_answers.answer(search, query) for query in queries(200, 3)]
    assert sum(bool(answer.results) for answer in answers) > 190


@pytest.mark.parametrize("word", ["asyncio", "gather", "temporary", "abcde"])
def test_misspelling_changes_one_letter_of_a_long_word(word: str) -> None:
    slips = {misspell(["of", word], random.Random(seed))[1] for seed in range(40)}
    assert len(slips) > 3
    assert all(abs(len(slip) - len(word)) <= 1 for slip in slips)
    assert misspell(["of", "it"], random.Random(1)) == ["of", "it"]


def test_most_slips_are_undone() -> None:
    """One slip in a word that the library uses often is corrected to that word, nine times in ten."""
    words = [word for word in store.load(Words).words[:400] if len(word) >= 6]
    chance = random.Random(5)
    slips = [(word, misspell([word], chance)[0]) for word in words]
    unknown = [(word, slip) for word, slip in slips if not _speller().knows(slip)]
    right = sum(_speller().correct(slip) == [word] for word, slip in unknown)
    assert len(unknown) > 150
    assert right / len(unknown) > 0.9


def test_scores_are_what_they_say() -> None:
    judgement = Judgement(["a"], 1)
    verdicts = [
        Verdict("q", 1, judgement, ("a",)),
        Verdict("q", 4, judgement, ("b", "c", "d", "a")),
        Verdict("q", None, judgement, ("b",)),
        Verdict("none", None, Judgement([], 1), ()),
    ]
    found = score(verdicts)
    assert found.mrr == pytest.approx((1 + 0.25) / 3)
    assert found.first == found.top3 == pytest.approx(1 / 3)
    assert found.good == 0.5


def test_commands_answer(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(commands.main, ["build"]).output.strip() == str(store.folder())
    out = tmp_path / "queries.txt"
    run(commands.main, ["queries", "-n", "7", "-o", str(out)])
    assert out.read_text().splitlines() == list(queries(7, 1))
    assert run(commands.main, ["queries", "-n", "7"]).output == out.read_text()


def test_what_goes_wrong_is_one_line() -> None:
    command = [sys.executable, "-m", "kwiken.services.search", "queries", "-n", "1", "-o", "/nowhere/q.txt"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kwiken: ")
    assert done.stderr.count("\n") == 1


def test_hello_greets_in_every_language() -> None:
    assert local_answers.answer(hello, Visitor(" ada  lovelace ")) == (
        "Hello, Ada Lovelace! Bonjour, Ada Lovelace! Hola, Ada Lovelace! Ciao, Ada Lovelace!"
    )
    assert local_answers.answer(hello, Visitor("")).startswith("Hello, World!")


def test_a_replica_starts_without_numpy() -> None:
    """Seven stages are processes of their own: each would pay for the import in time and memory."""
    code = (
        "import sys\n"
        "from kwiken.services.search import search\n"
        "for stage in search.stages.values():\n"
        "    if stage.setup: stage.setup()\n"
        "print('numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
