"""The samples of a task in a run as files: the lists page by page, and the samples' own pages many to a file.

A sample's page is visited at its own address. Its content, without the frame, is put into a file of up to 500 samples,
which is named after its content, so that it may be cached for ever.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from urllib.parse import urlsplit

from assaymark.leaderboard.static.folder import SiteFolder
from assaymark.leaderboard.static.links import PageReader, Paths, addresses, canonical

CHUNK = 500  # samples in one file
LARGEST_CHUNK = 8 << 20  # characters after which a file of samples ends earlier
SAMPLES = re.compile(r"/run/[^/?#]+/samples/[^/?#]+")  # a list of samples, or a group of tasks
_SAMPLE = re.compile(rf"({SAMPLES.pattern})/\d+")
_IMAGE = re.compile(rf"{SAMPLES.pattern}/\d+/images/([0-9a-f]{{64}})")
_MAIN = re.compile(r"(<main\b[^>]*>)(.*)(</main>)", re.DOTALL)
_CRUMBS = re.compile(r'<p class="crumbs">.*?</p>', re.DOTALL)
_FRAME = re.compile(r'<p class="crumbs">.*?</p>|<nav class="pager".*?</nav>', re.DOTALL)
_SWITCH = re.compile(r'<label class="chip raw-switch">.*?</label>', re.DOTALL)
_HEADING = re.compile(r"<(/?)h([12])>")

Finish = Callable[[str, Callable[[str], str | None]], bytes]  # of a page and its links
Suffix = Callable[[str], str]  # of a content type


class SampleFiles:
    """Writes the samples of one task after the other."""

    def __init__(self, visitor: PageReader, paths: Paths, folder: SiteFolder, finish: Finish, suffix: Suffix) -> None:
        """Args: finish: makes the bytes of a page; suffix: the ending of files of a content type."""
        self._visitor, self._paths, self._folder = visitor, paths, folder
        self._finish, self._suffix = finish, suffix
        self._images: dict[str, str] = {}  # files by the digest of their content

    def write(self, address: str, first_page: str) -> None:
        """Write a task's lists and samples, from the address and the first page of its list."""
        lists = [(address, zlib.compress(first_page.encode()))]
        articles: dict[int, str] = {}
        size = 0
        for index, article in self._articles(address, first_page, lists):
            if articles and (len(articles) == CHUNK or size > LARGEST_CHUNK):
                self._write_chunk(address, first_page, articles)
                articles, size = {}, 0
            articles[index] = _SWITCH.sub("", article) if articles else article  # one switch is enough for a page
            size += len(article)
        if articles:
            self._write_chunk(address, first_page, articles)
        files = [self._paths.add(page) for page, _ in lists]  # all of them first: they name one another
        for file, (_, body) in zip(files, lists, strict=True):
            html = zlib.decompress(body).decode()
            self._folder.add(file, self._finish(html, partial(self._paths.link, file)))

    def _articles(self, address: str, html: str, lists: list[tuple[str, bytes]]) -> Iterator[tuple[int, str]]:
        """Yield a task's samples in the order of its lists, and add the further lists. Withheld ones are left out."""
        known: set[str] = set()
        while True:
            targets = dict.fromkeys(map(canonical, addresses(html)))
            for target in targets:
                if (place := _SAMPLE.fullmatch(target)) is None or place[1] != address or target in known:
                    continue
                known.add(target)
                response = self._visitor.get(target)
                if response.status_code == 403:
                    continue  # its texts are withheld; a sealed task may have a preview of other samples
                if response.is_success and (main := _MAIN.search(response.text)) is not None:
                    inner = _HEADING.sub(lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}>", _FRAME.sub("", main[2]))
                    yield int(target.rpartition("/")[2]), inner
            following = f"{address}?page={len(lists) + 1}"
            if following not in targets:
                return
            html = self._visitor.get(following).text
            lists.append((following, zlib.compress(html.encode())))

    def _write_chunk(self, address: str, list_page: str, articles: dict[int, str]) -> None:
        """Write one file of samples, in the frame of their list."""
        folder = self._paths.add(address).removesuffix(".html")
        draft = f"{folder}/x.html"  # links depend on the folder only
        crumbs = _CRUMBS.search(list_page)
        heading = re.search(r"<h1>.*?</h1>", list_page, re.DOTALL)
        parts = [match[0] for match in (crumbs, heading) if match is not None]
        parts.append(f'<p><a href="{address}">All samples</a></p>')
        parts += [f'<article id="s{index}" class="sample">{html}</article>\n' for index, html in articles.items()]
        page = _MAIN.sub(lambda main: main[1] + "".join(parts) + main[3], list_page)

        def link(target: str) -> str | None:
            if (image := _IMAGE.fullmatch(urlsplit(target).path)) is not None:
                return self._paths.link(draft, target) if self._has_image(target, image[1]) else None
            place = _SAMPLE.fullmatch(canonical(target))
            if place is not None and place[1] == address and int(target.rpartition("/")[2]) in articles:
                return f"#s{target.rpartition('/')[2]}"
            # a file named after its content cannot link to another such file, so the task's list links to the next one
            return self._paths.link(draft, _SAMPLE.sub(r"\1", target))

        body = self._finish(page, link)
        indices = list(articles)
        file = f"{folder}/{indices[0]}-{indices[-1]}-{sha256(body).hexdigest()[:16]}.html"
        self._folder.add(file, body)
        for index in articles:
            self._paths.alias(f"{address}/{index}", f"{file}#s{index}")

    def _has_image(self, address: str, digest: str) -> bool:
        """Return whether a sample's image is a file of the site; the first request of it makes it one."""
        if digest not in self._images:
            response = self._visitor.get(address)
            if not response.is_success:
                return False
            self._images[digest] = f"images/{digest}{self._suffix(response.headers['content-type'])}"
            self._folder.add(self._images[digest], response.content)
        self._paths.alias(address, self._images[digest])
        return True
