"""Draw docs/walkthrough: the pages that docs/walkthrough.md describes, in light and dark.

Usage: python tools/draw_walkthrough.py

The page's commands are run as the tests run them, in an empty folder; then what they stored is served once more, and
photographed. It needs chromium, playwright and Pillow.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.documents.pdf import find_browser
from tools.page_blocks import environment, run_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
SIZE = {"width": 1100, "height": 800}
COLOURS = 64  # of a picture: pages of text need no more


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the store that the page's commands have left in a folder; give its address."""
    (folder / "bin").rename(folder / "bin of the page")
    (folder / "home").rename(folder / "home of the page")
    env = environment(folder)
    (folder / "home").rmdir()
    (folder / "home of the page").rename(folder / "home")
    command = [sys.executable, "-m", "assaymark", "serve", "--traces", "--port", "0"]
    with subprocess.Popen(command, env={**env, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stdout or () if "http://" in line)
            yield "http://" + line.partition("http://")[2].split()[0].rstrip("/")
        finally:
            server.terminate()


def photograph(browser: Any, url: str, token: str) -> None:
    """Write a picture of each page."""
    headers = {"authorization": f"Bearer {token}"}
    listed = httpx.get(f"{url}/traces.json", params={"score": "thumbs<1"}, headers=headers).json()["traces"]
    trace = httpx.get(f"{url}/trace/{listed[0]['trace_id']}.json", headers=headers).json()
    step = next(row["span_id"] for row in trace["tree"] if row["name"] == "complete")
    pages = {
        "trace": f"/trace/{listed[0]['trace_id']}?span={step}",
        "quality": "/traces/quality?days=1&bucket=day",
    }
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport=SIZE, color_scheme=scheme, extra_http_headers=headers)
        page = context.new_page()
        for name, path in pages.items():
            page.goto(url + path)
            file = DOCS / "walkthrough" / f"{name}-{scheme}.png"
            page.screenshot(path=file)
            with Image.open(file) as picture:
                small = picture.convert("RGB").quantize(COLOURS)
            small.save(file, optimize=True)
        context.close()


def main() -> int:
    """Run the page, serve what it stored, and photograph it."""
    (DOCS / "walkthrough").mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        printed = run_page(DOCS / "walkthrough.md", folder)
        if failed := [each for each in printed if each.has_failed]:
            print(f"{failed[0].block.place} failed:\n{failed[0].text}", file=sys.stderr)
            return 1
        token = json.loads((folder / "work" / "project.json").read_text(encoding="utf-8"))["token"]
        with served(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
            photograph(browser, url, token)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
