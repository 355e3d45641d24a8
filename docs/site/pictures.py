"""Pictures of the documentation: `make pictures`, with Chromium.

`live-page.png` is the live page of the search service under load, with a plan of its own traces.
`report.png` is drawn anew only where `make demo` left a report.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
REPORT = ROOT / "demo-out" / "report.html"
QUERIES = ROOT / "loadtest" / "queries.txt"
WIDTH, HEIGHT = 1200, 1180
KWIKEN = (sys.executable, "-m", "kwiken")
SERVICE = "kwiken.services.search:search"
RATE_PER_S, LOAD_S = 15, 40
SHOWN_S = 25  # of the load, after which the picture is taken


def kwiken(*words: str) -> str:
    """Standard output of a verb that succeeds."""
    done = subprocess.run(  # noqa: S603 - words of this file
        [*KWIKEN, *words], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    return done.stdout


def live_page(page: Page, folder: Path) -> None:
    """Take the picture of the live page: load without a plan, then with one."""
    state, traces = str(folder / "state"), str(folder / "traces")
    url = kwiken("up", SERVICE, "--port=0", "--detach", f"--state={state}", f"--traces={traces}").strip()
    load = ("load", url, f"--rate={RATE_PER_S}", f"--duration={LOAD_S}", f"--queries={QUERIES}", "--zipf=0")
    try:
        page.goto(kwiken("status", "--page", f"--state={state}").strip())
        page.locator("#dag text").first.wait_for()
        kwiken(*load)
        kwiken("fit", traces, f"--out={folder / 'profile.json'}")
        kwiken("plan", str(folder / "profile.json"), f"--out={folder / 'plan.json'}")
        kwiken("apply", str(folder / "plan.json"), f"--state={state}")
        with subprocess.Popen([*KWIKEN, *load], stdout=subprocess.DEVNULL, cwd=ROOT):  # noqa: S603 - as above
            page.wait_for_timeout(1000.0 * SHOWN_S)
            page.locator("#slow details").first.wait_for()
            page.screenshot(path=str(PICTURES / "live-page.png"))
    finally:
        kwiken("down", f"--state={state}")


def main() -> None:
    """Take both pictures."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit(f"no browser is installed: {', '.join(BROWSERS)}")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        live_page(page, Path(folder))
        if REPORT.exists():
            page.goto(REPORT.as_uri())
            page.screenshot(path=str(PICTURES / "report.png"))
        else:
            sys.stderr.write(f"{REPORT.relative_to(ROOT)} is not there: report.png stays as it is\n")
        browser.close()


if __name__ == "__main__":
    main()
