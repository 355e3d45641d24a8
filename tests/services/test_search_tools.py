"""Commands of the search service, query generator, and measures."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kwiken.base.errors import InputError, KwikenError
from kwiken.services.hello import Visitor, hello
from kwiken.services.search import __main__ as commands, _speller, search
from kwiken.services.search.index import Words, store
from kwiken.services.search.measures import (
    local,
    measure,
    quality as quality_module,
    queries as queries_module,
)
from kwiken.services.search.measures.quality import Judgement, Verdict

pytestmark = pytest.mark.usefixtures("search_cache")


def test_queries_are_the_same_for_the_same_seed() -> None:
    first, again, other = (list(queries_module.queries(300, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_queries_are_short_skewed_and_a_few_misspelt() -> None:
    found = list(queries_module.queries(3000, 1))
    lengths = Counter(len(query.split()) for query in found)
    assert set(lengths) == {1, 2, 3, 4}
    often = Counter(found).most_common(30)
    assert sum(count for _, count in often) > 0.05 * len(found)
    assert len(set(found)) > 0.3 * len(found)
    unknown = sum(not all(map(_speller().knows, query.split())) for query in found)
    assert 0.01 < unknown / len(found) < 0.1


def test_most_queries_find_something() -> None:
    answers = [local.answer(search, query) for query in queries_module.queries(200, 3)]
    assert sum(bool(answer.results) for answer in answers) > 190


@pytest.mark.parametrize("word", ["asyncio", "gather", "temporary", "abcde"])
def test_misspelling_changes_one_letter_of_a_long_word(word: str) -> None:
    slips = {queries_module.misspell(["of", word], random.Random(seed))[1] for seed in range(40)}
    assert len(slips) > 3
    assert all(abs(len(slip) - len(word)) <= 1 for slip in slips)
    assert queries_module.misspell(["of", "it"], random.Random(1)) == ["of", "it"]


def test_most_slips_are_undone() -> None:
    """One slip in a word that the library uses often is corrected to that word, nine times in ten."""
    words = [word for word in store.load(Words).words[:400] if len(word) >= 6]
    chance = random.Random(5)
    slips = [(word, queries_module.misspell([word], chance)[0]) for word in words]
    unknown = [(word, slip) for word, slip in slips if not _speller().knows(slip)]
    right = sum(_speller().correct(slip) == [word] for word, slip in unknown)
    assert len(unknown) > 150
    assert right / len(unknown) > 0.9


def test_costs_are_of_every_stage_and_every_shard() -> None:
    found = {
        cost.stage: cost
        for cost in measure.costs(search, queries_module.queries(measure.WARM_UP_QUERIES + 20, 1))
    }
    assert set(found) == {*search.stages, "all"}
    assert (found["lookup"].calls, found["snippets"].calls, found["parse"].calls) == (160, 100, 20)
    assert all(0 < cost.p50 <= cost.p99 <= cost.most for cost in found.values())


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(KwikenError, match="too few"):
        measure.costs(search, ["asyncio"])


def test_a_replica_starts_without_numpy_and_small() -> None:
    load = measure.load("lookup")
    assert not load.numpy
    assert load.peak < 60


def test_loading_what_is_no_stage_says_so() -> None:
    with pytest.raises(KwikenError, match="no stage 'lokup'"):
        measure.load("lokup")


def test_scores_are_what_they_say() -> None:
    judgement = Judgement(["a"], 1)
    verdicts = [
        Verdict("q", 1, judgement, ("a",)),
        Verdict("q", 4, judgement, ("b", "c", "d", "a")),
        Verdict("q", None, judgement, ("b",)),
        Verdict("none", None, Judgement([], 1), ()),
    ]
    score = quality_module.score(verdicts)
    assert score.mrr == pytest.approx((1 + 0.25) / 3)
    assert score.first == score.top3 == pytest.approx(1 / 3)
    assert score.good == 0.5


@pytest.mark.parametrize(
    "text",
    ["[a", '[a]\nq = { want = ["x"], top = 0 }', '[a]\nq = { want = ["x"], top = 1, more = 1 }', "a = 1"],
)
def test_broken_judgements_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "j.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"j\.toml"):
        quality_module.judgements(file)


def test_commands_answer(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(commands.main, ["build"]).output.strip() == str(store.folder())
    asked = run(commands.main, ["ask", "asyncoi", "gahter"]).output
    assert asked.startswith("showing results for: asyncio gather\nasyncio.gather(")
    answer = msgspec.json.decode(run(commands.main, ["ask", "--json", "asyncio gather"]).output)
    assert answer["results"][0]["name"] == "asyncio.gather"
    scores = msgspec.json.decode(run(commands.main, ["quality", "--json"]).output)
    assert set(scores) == {"tuned", "held_out"}
    assert "held_out" in run(commands.main, ["quality", "--misses"]).output
    out = tmp_path / "queries.txt"
    run(commands.main, ["queries", "-n", "7", "-o", str(out)])
    assert out.read_text().splitlines() == list(queries_module.queries(7, 1))
    assert run(commands.main, ["queries", "-n", "7"]).output == out.read_text()


def test_profile_prints_every_stage() -> None:
    output = CliRunner().invoke(commands.main, ["profile", "-n", "20"]).output
    assert all(name in output for name in [*search.stages, "all"])


def test_what_goes_wrong_is_one_line() -> None:
    command = [sys.executable, "-m", "kwiken.services.search", "queries", "-n", "1", "-o", "/nowhere/q.txt"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kwiken: ")
    assert done.stderr.count("\n") == 1


def test_hello_greets_in_every_language() -> None:
    assert local.answer(hello, Visitor(" ada  lovelace ")) == (
        "Hello, Ada Lovelace! Bonjour, Ada Lovelace! Hola, Ada Lovelace! Ciao, Ada Lovelace!"
    )
    assert local.answer(hello, Visitor("")).startswith("Hello, World!")
