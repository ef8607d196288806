"""Check that every internal link of a built site leads somewhere: to a file, and to an anchor that is in it.

Links to other sites are not followed, so the check needs no network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src"}


class Page(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag names and where it leads."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if link := values.get(LINKS.get(tag, "")):
            self.links.append(link)


def broken_links(folder: Path) -> list[str]:
    """Return one line per internal link that leads nowhere: page, link and what is missing."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder.resolve())}: {link}: {fault}"
        for path, page in pages.items()
        for link in dict.fromkeys(page.links)
        if (fault := _fault(path, link, pages))
    ]


def _fault(path: Path, link: str, pages: dict[Path, Page]) -> str | None:
    """Return what is wrong with a link of a page; None where nothing is, or it leads to another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"no anchor '{anchor}' on that page"
    return None


def main() -> int:
    """Print the broken links of the folder that is named and return 1 if there are any."""
    folder = Path(sys.argv[1])
    if not any(folder.rglob("*.html")):
        print(f"{folder} holds no HTML page; build it with: make docs")
        return 1
    broken = broken_links(folder)
    print("\n".join(broken) if broken else f"{folder}: every internal link leads somewhere")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
