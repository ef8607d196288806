"""What a piece of HTML holds: its tags, texts and addresses."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """Collects tags, texts and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag, and what it refers to."""
        self.tags.add(tag)
        self.addresses += [str(value) for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.texts.append(data)
