"""The documents: links lead somewhere, files that are named exist, commands are what the command line takes."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest

from kwiken.cli.verbs import kwiken
from tests.support.project.site_tables import generated
from tests.support.project.source_trees import exported

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"  # parts of the site, whose links its generator checks
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if SITE not in page.parents)]
)
ROOMS = "kwiken|tests|benchmarks|docs"
WORDS = re.compile(r"\[[^\]]*\]\((?P<to>[^)\s]+)\)")
NAMED = re.compile(rf"`((?:{ROOMS})/[\w./-]+\.\w+)`")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
MAX_DECISIONS = 30
MAX_WORDS_OF_A_DECISION = 300
MAX_WORDS_OF_A_PAGE = 1_500
MAX_WORDS = 65_000  # of all pages and the README
MAX_ROWS_OF_THE_INDEX = 20
GENERATED = re.compile(r"^```\{generated\} (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```[^`\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What a heading is linked by."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def commands() -> list[tuple[str, str]]:
    """Every `kwiken` and `python -m` in a fenced block: page and command, without remark and redirection."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.splitlines():
                plain = line.removeprefix("$ ").partition("  #")[0]
                for part in re.split(r"\s(?:&&|\||&)(?:\s|$)", plain):
                    words = part.strip()
                    if words.startswith(("kwiken ", "python -m ")):
                        found.append((name_of(page), words))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for match in WORDS.finditer(page.read_text(encoding="utf-8")):
        to, _, anchor = match["to"].partition("#")
        if to.startswith(("http://", "https://")):
            continue
        target = (page.parent / to).resolve() if to else page
        assert target.is_relative_to(ROOT), match["to"]
        assert target.exists(), match["to"]
        assert not anchor or anchor in anchors(target), match["to"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    for path in NAMED.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_are_taken(page: str, line: str) -> None:
    del page
    first, *rest = shlex.split(line)
    if first == "python":
        assert importlib.util.find_spec(rest[1]) is not None
        return
    group = click.Context(kwiken)
    command = kwiken.get_command(group, rest[0])
    assert command is not None, f"no verb {rest[0]}"
    command.make_context(rest[0], rest[1:], parent=group)


def samples() -> list[tuple[str, str]]:
    """Every Python sample with its page."""
    return [(name_of(page), code) for page in PAGES for code in PYTHON.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize(("page", "code"), samples())
def test_python_samples_parse_and_import_what_exists(page: str, code: str) -> None:
    tree = compile(code, page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "kwiken":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                # Not by `hasattr`, which would load Locust, and with it patches of the standard library.
                assert alias.name in exported(Path(str(module.__file__))), (
                    f"{node.module} has no {alias.name}"
                )


@pytest.mark.parametrize("record", DECISIONS, ids=name_of)
def test_decisions_are_short_have_alternatives_and_are_listed(record: Path) -> None:
    index = record.with_name("README.md")
    if record == index:
        return
    text = record.read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_WORDS_OF_A_DECISION
    assert all(f"**{part}.**" in text for part in ("Context", "Choice", "Alternatives", "Consequences"))
    assert f"({record.name})" in index.read_text(encoding="utf-8")


def test_pages_are_short_and_the_whole_is_bounded() -> None:
    words = {
        page: len(page.read_text(encoding="utf-8").split())
        for page in PAGES
        if page.name == "README.md" or (ROOT / "docs") in page.parents
    }
    assert {name_of(page) for page, number in words.items() if number > MAX_WORDS_OF_A_PAGE} == set()
    assert sum(words.values()) <= MAX_WORDS
    assert len(DECISIONS) - 1 <= MAX_DECISIONS


def test_the_index_is_short_and_by_task() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = [line for line in index.splitlines() if line.startswith("| ")][1:]
    assert 10 <= len(rows) <= MAX_ROWS_OF_THE_INDEX
    assert all("](" in row.split("|")[2] for row in rows)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_that_are_generated_have_rows_and_no_empty_cells(page: Path) -> None:
    for words in GENERATED.findall(page.read_text(encoding="utf-8")):
        lines = generated(*words.split()).splitlines()
        assert len(lines) > 2, words
        for line in lines[2:]:
            assert not line.endswith("|  |"), f"{words}: {line}"


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = [match["to"].partition("#")[0] for match in WORDS.finditer(page.read_text(encoding="utf-8"))]
        for link in links:
            target = (page.parent / link).resolve()
            waiting += sorted(target.glob("*.md")) if target.is_dir() else [target]
    assert set(PAGES) - seen == set()
