"""Printing of an HTML page to PDF by a browser on this machine (for the reasons see docs/decisions/0004)."""

import shutil
import subprocess
from pathlib import Path

from assaymark import settings
from assaymark.drafts import draft_folder, whole_file
from assaymark.errors import StoreError, UsageError
from assaymark.platforms import is_root

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "brave-browser", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)  # fmt: skip
OPTIONS = (
    "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--no-pdf-header-footer",
)  # fmt: skip
SECONDS = 120


def find_browser() -> str | None:
    """Return the browser for printing: ASSAYMARK_BROWSER if it is set, else the first of BROWSERS that is installed."""
    named = settings.read("ASSAYMARK_BROWSER")
    return next((path for name in ([named] if named else BROWSERS) if (path := shutil.which(name))), None)


def print_pdf(page: str, path: Path) -> None:
    """Print an HTML page on A4.

    Raises: UsageError if there is no browser; StoreError if printing fails.
    """
    browser = find_browser()
    if browser is None:
        named = settings.read("ASSAYMARK_BROWSER")
        seen = f"ASSAYMARK_BROWSER is '{named}', which is not a program" if named else "none was found"
        raise UsageError(
            f"printing a PDF needs a browser (Chromium, Chrome, Edge or Brave), and {seen}; install one, set "
            "ASSAYMARK_BROWSER, or write report.html and print that"
        )
    with draft_folder() as folder:
        source, printed = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        # Chromium refuses to start with its sandbox as root; the page holds no script and loads nothing
        as_root = ["--no-sandbox"] if is_root() else []
        profile = f"--user-data-dir={folder}/profile"
        command = [browser, *OPTIONS, *as_root, profile, f"--print-to-pdf={printed}", source.as_uri()]
        try:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StoreError(
                f"{browser} did not print the report: {error}; write report.html and print that"
            ) from error
        if not printed.is_file():
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise StoreError(
                f"{browser} did not print the report (exit {done.returncode}): {reason}; write report.html and print "
                "that"
            )
        with whole_file(path) as draft:
            shutil.copyfile(printed, draft)
