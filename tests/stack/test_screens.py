"""Screens of pages, reports and site in a real browser: nothing overflows or overlaps, and texts have contrast."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kwiken.model.plan.plan import Budgets, CatchUpPolicy, PartialPolicy, Plan
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.planner import make_plan
from tests.cli.study.test_explain_page import profile_of as dag_profile
from tests.support.models.queue_profiles import queue_profile
from tests.support.otel.folders import folder_of
from tests.support.runtime.stacks import ask, kwiken, running_cluster
from tests.support.services.http import plan_for

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROOT = Path(__file__).resolve().parents[2]
SIZES = {"desktop": (1400, 900), "tablet": (800, 900), "phone": (390, 844)}
MIN_CONTRAST = 4.5  # of WCAG 2.2, level AA
# Folder where pictures are left for who wants to look at them.
PICTURES = os.environ.get("SCREENS")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

# Elements that are wider than the page, unless something around them scrolls; and texts of less contrast than
# they need, with both colours. A text's ground is what is painted behind its middle.
TROUBLES = """
(least) => {
  const found = [], wide = document.documentElement.clientWidth;
  const parse = (text) => {
    const srgb = text.match(/^color\\(srgb ([^)]*)\\)/);
    const parts = (srgb ? srgb[1] : text).match(/[\\d.]+/g).map(Number);
    if (srgb) for (let i = 0; i < 3; i++) parts[i] *= 255;
    return parts.length > 3 ? parts : [...parts, 1];
  };
  const over = (top, ground) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * ground[i]).concat(1);
  const light = (colour) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
  };
  const canvas = parse(getComputedStyle(document.documentElement).backgroundColor);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const base = canvas[3] ? canvas : dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const groundOf = (node, x, y) => {
    const layers = document.elementsFromPoint(x, y), from = layers.indexOf(node);
    let colours = [];
    for (const each of layers.slice(from < 0 ? 0 : from)) {
      const style = getComputedStyle(each);
      const drawn = ["rect", "path", "circle"].includes(each.tagName.toLowerCase());
      if (each === node && !drawn && node.namespaceURI.endsWith("svg")) continue;
      const paint = drawn ? style.fill : style.backgroundColor;
      if (!paint || paint === "none" || paint.startsWith("url")) continue;
      const colour = parse(paint);
      colour[3] *= Number(style.opacity) * (drawn ? Number(style.fillOpacity) : 1);
      if (colour[3] > 0) colours.push(colour);
      if (colour[3] >= 1) break;
    }
    return colours.reverse().reduce((ground, colour) => over(colour, ground), base);
  };
  const scrolls = (node) => {
    for (let each = node; each && each !== document.documentElement; each = each.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(each).overflowX)
          && each.getBoundingClientRect().right <= wide + 1) return true;
    }
    return false;
  };
  const seen = (node) => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  if (document.documentElement.scrollWidth > wide + 1) found.push(`page ${document.documentElement.scrollWidth} wide`);
  for (const node of document.querySelectorAll("body *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || !seen(node)) continue;
    if (box.right > wide + 1 && box.left < wide && !scrolls(node)) found.push(`wide: ${node.tagName} ${node.className.baseVal ?? node.className}`);
    const own = [...node.childNodes].filter((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own.length || ["SCRIPT", "STYLE", "TITLE", "title", "OPTION"].includes(node.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(own[0]);
    node.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const at = range.getClientRects()[0];
    if (!at || !at.width) continue;
    const style = getComputedStyle(node), svg = node.namespaceURI.endsWith("svg");
    const ink = parse(svg ? style.fill : style.color);
    const ground = groundOf(node, at.left + at.width / 2, at.top + at.height / 2);
    let opacity = 1;
    for (let each = node; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    ink[3] *= opacity;
    const [a, b] = [light(over(ink, ground)), light(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? Math.min(3, least) : least;
    if (contrast < needed - 0.005) found.push(`contrast ${contrast.toFixed(2)}: ${node.tagName} "${own[0].textContent.trim().slice(0, 40)}" ${style.color} on ${ground.map(Math.round)}`);
    if (svg && at.height < 7) found.push(`small: ${at.height.toFixed(1)} px: "${own[0].textContent.trim().slice(0, 40)}"`);
  }
  return [...new Set(found)].slice(0, 40);
}
"""

# By bounding boxes: labels over labels or over the edge of a stage's box, boxes over boxes, edges of a graph behind a
# box that they do not join, and what is cut off without a sign. Boxes of text are a little higher than their ink.
OVERLAPS = """
() => {
  const found = [], ink = 0.2;
  const seen = (node) => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const apart = (a, b, by = 1) => a.right <= b.left + by || b.right <= a.left + by || a.bottom <= b.top + by || b.bottom <= a.top + by;
  const within = (a, b, by = 1) => a.left >= b.left - by && a.right <= b.right + by && a.top >= b.top - by && a.bottom <= b.bottom + by;
  const inked = (box) => ({ left: box.left, right: box.right, top: box.top + ink * box.height, bottom: box.bottom - ink * box.height });
  const short = (words) => words.trim().slice(0, 40);
  for (const svg of document.querySelectorAll("svg")) {
    if (!seen(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((node) => [short(node.textContent), inked(node.getBoundingClientRect())]).filter(([words, box]) => words && box.right > box.left);
    const boxes = [...svg.querySelectorAll("rect[rx]")].map((node) => node.getBoundingClientRect()).filter((box) => box.width > 60 && box.height > 30);
    texts.forEach(([words, box], place) => {
      if (!within(box, frame)) found.push(`cut off: "${words}"`);
      for (const [other, its] of texts.slice(place + 1)) if (!apart(box, its)) found.push(`labels overlap: "${words}", "${other}"`);
      for (const its of boxes) if (!apart(box, its) && !within(box, its)) found.push(`beyond its box: "${words}"`);
    });
    boxes.forEach((box, place) => { for (const its of boxes.slice(place + 1)) if (!apart(box, its)) found.push("boxes overlap"); });
    if (boxes.length) for (const path of svg.querySelectorAll("path[fill=none], path.edge, line.edge")) {
      const matrix = path.getScreenCTM(), long = path.getTotalLength();
      for (let step = 1; step < 40; step++) {
        const at = path.getPointAtLength(long * step / 40).matrixTransform(matrix);
        if (boxes.some((box) => at.x > box.left + 2 && at.x < box.right - 2 && at.y > box.top + 2 && at.y < box.bottom - 2)) { found.push("an edge runs behind a box"); break; }
      }
    }
  }
  const leaves = [];
  for (const node of document.querySelectorAll("body *")) {
    if (!seen(node)) continue;
    const style = getComputedStyle(node);
    if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth && style.overflowX !== "visible") {
      if (["auto", "scroll"].includes(style.overflowX) ? style.backgroundImage === "none" : style.textOverflow !== "ellipsis") {
        found.push(`cut without a sign: ${node.tagName} ${node.id || node.className} ${short(node.textContent)}`);
      }
    }
    if (node.namespaceURI.endsWith("svg") || !node.innerText) continue;
    for (const each of node.childNodes) {
      if (each.nodeType !== 3 || !each.textContent.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(each);
      for (const box of range.getClientRects()) if (box.width > 1) leaves.push([node, short(each.textContent), inked(box)]);
    }
  }
  leaves.sort((a, b) => a[2].top - b[2].top);
  const clipped = (node) => { for (let each = node.parentElement; each; each = each.parentElement) if (getComputedStyle(each).overflowX !== "visible") return each; return null; };
  leaves.forEach(([node, words, box], place) => {
    for (const [other, text, its] of leaves.slice(place + 1)) {
      if (its.top >= box.bottom) break;
      if (node !== other && !apart(box, its) && clipped(node) === clipped(other)) found.push(`texts overlap: "${words}", "${text}"`);
    }
  });
  return [...new Set(found)].slice(0, 40);
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser of this machine."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make test-stack"
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser is installed: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield found
        found.close()


def look(browser: Any, name: str, url: str, *, ready: str = "body", site: bool = False) -> None:
    """Look at a page on every size of screen, light and dark.

    Args:
        name: name of the page, for messages and pictures.
        ready: selector of what is there once the page is drawn.
        site: whether it is a page of the site, whose theme lays it out: pictures are of the first screen.
    """
    troubles = []
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(url)
            page.locator(ready).first.wait_for()
            if PICTURES:
                Path(PICTURES).mkdir(parents=True, exist_ok=True)
                page.screenshot(path=f"{PICTURES}/{name}-{size}-{scheme}.png", full_page=not site)
            found = ([] if site else page.evaluate(OVERLAPS)) + page.evaluate(TROUBLES, MIN_CONTRAST)
            troubles += [f"{name}, {size}, {scheme}: {trouble}" for trouble in found]
            page.close()
    assert troubles == []


def every_lever() -> Plan:
    """Plan whose middle stage has each of the levers."""
    plan = plan_for()
    levers = replace(
        plan.stages["middle"],
        partial=PartialPolicy(cutoff_ms=200.0, wait_ms=20.0, progress=0.5, loss=0.001),
        catch_up=CatchUpPolicy(after_ms=28.2, priority=True, reissue=True),
    )
    budgets = Budgets(reissue=0.05, utility_loss=0.01, catch_up=0.02)
    return replace(plan, budgets=budgets, stages={"middle": levers})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Link to the live page of a cluster with a plan, which had some slow requests."""
    folder = tmp_path_factory.mktemp("screens")
    state = folder / "state"
    with running_cluster(state) as url:
        plan = folder / "plan.json"
        plan.write_text(every_lever().to_json())
        kwiken("apply", str(plan), "--state", str(state))
        link = kwiken("status", "--page", "--state", str(state)).strip()
        headers = {"Authorization": f"Bearer {link.partition('#token=')[2]}"}
        with urllib.request.urlopen(urllib.request.Request(url + "/v1/live", headers=headers), timeout=30):
            pass  # slow requests are kept from the first look on
        for number in range(120):
            ask(url, sleep_ms=60.0 if number % 30 == 29 else 0.0)
        yield link


def test_live_page(browser: Any, cluster: str) -> None:
    look(browser, "live", cluster, ready="#slow details svg")


SHAPE = """
from kwiken import Service

shape = Service("shape")


@shape.stage(replicas=1)
async def parse(text: str) -> str:
    return text


@shape.stage(after=[parse], replicas=1)
async def weather(text: str) -> str:
    return text


@shape.stage(after=[parse], replicas=1)
async def find(text: str) -> str:
    return text


@shape.stage(after=[find], replicas=1)
async def rank_documents_by_distance(text: str) -> str:
    return text


@shape.stage(after=[rank_documents_by_distance, parse], replicas=1)
async def snippets(one: str, other: str) -> str:
    return one


@shape.stage(after=[snippets, weather, parse], replicas=1)
async def compose(one: str, two: str, three: str) -> str:
    return one
"""


def test_edges_that_pass_stages_run_behind_none(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shape.py").write_text(SHAPE)
    state = str(tmp_path / "state")
    kwiken("up", "shape:shape", "--port", "0", "--detach", "--state", state)
    try:
        link = kwiken("status", "--page", "--state", state).strip()
        look(browser, "shape", link, ready="#dag svg text")
    finally:
        kwiken("down", "--state", state)


def test_page_that_asks_for_a_token(browser: Any, cluster: str) -> None:
    look(browser, "token", cluster.partition("#")[0], ready="#token")


def _with_long_names(profile: Profile) -> Profile:
    """The profile with names as wide as those in traces of others, and an edge that passes two stages."""
    names = {stage.name: f"POSTGRESQL{stage.name}:SELECT FOR UPDATE FROM ORDERS" for stage in profile.stages}
    stages = [
        replaced(stage, name=names[stage.name], after=tuple(names[parent] for parent in stage.after))
        for stage in profile.stages
    ]
    stages[3] = replaced(stages[3], after=(*stages[3].after, names["a"]))
    return replaced(profile, stages=tuple(stages))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a report, a judgement and advice on recorded services."""
    folder = tmp_path_factory.mktemp("written")
    profile = queue_profile(60, requests=3000)
    (folder / "profile.json").write_text(profile_to_json(profile))
    (folder / "plan.json").write_text(
        make_plan(profile, budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z").to_json()
    )
    (folder / "traces").mkdir()
    folder_of(folder / "traces", files=1, lines=400)
    recorded = [str(folder / name) for name in ("profile.json", "plan.json")]
    kwiken("report", *recorded, "-o", str(folder / "report.html"))
    kwiken("judge", *reversed(recorded), "-o", str(folder / "judgement.html"))
    kwiken("report", str(folder / "traces"), "-o", str(folder / "traces.html"))
    kwiken("advise", str(folder / "traces"), "-o", str(folder / "advice.html"))
    kwiken("explain", str(folder / "profile.json"), "--html", str(folder / "explanation.html"))
    (folder / "long.json").write_text(profile_to_json(_with_long_names(dag_profile(5, requests=400))))
    kwiken("explain", str(folder / "long.json"), "--html", str(folder / "long.html"))
    kwiken("report", str(folder / "long.json"), "-o", str(folder / "wide.html"))
    return folder


@pytest.mark.parametrize("name", ["report", "judgement", "traces", "advice", "explanation", "long", "wide"])
def test_reports(browser: Any, written: Path, name: str) -> None:
    look(browser, name, (written / f"{name}.html").as_uri())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it, or as it was built before."""
    pytest.importorskip("sphinx", reason="sphinx is not installed: make docs")
    built = ROOT / "build" / "site"
    if (built / "index.html").exists():
        return built
    folder = tmp_path_factory.mktemp("site")
    words = ("-m", "sphinx", "--quiet", "-c", "docs/site", "docs", str(folder))
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("name", ["index", "start/tutorial", "operate/running", "reference/comparison"])
def test_site(browser: Any, site: Path, name: str) -> None:
    look(browser, f"site-{name.replace('/', '-')}", (site / f"{name}.html").as_uri(), site=True)
