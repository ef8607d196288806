"""Images of rows are read in each of their forms, and what is none of them is refused in one line."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")

from PIL import Image

from assaymark.errors import MalformedSample
from assaymark.tasks.images import MOST_PIXELS, ImageReader, image_part, is_image_value, sha256_of
from tests.pictures import data_url, digit


def test_every_form_gives_the_same_image(tmp_path: Path) -> None:
    """Bytes, the Hub's struct, a path, the struct with a path, and a data URL are one image, kept to the byte."""
    data = digit(7)
    (tmp_path / "seven.png").write_bytes(data)
    reader = ImageReader(tmp_path)
    forms: list[Any] = [
        data,
        {"bytes": data, "path": "elsewhere.png"},
        "seven.png",
        {"bytes": None, "path": "seven.png"},
        data_url(data),
    ]
    for form in forms:
        part = image_part(reader.bytes_of(form))
        assert (part.data, part.sha256, part.media_type) == (data, sha256_of(data), "image/png")
        assert is_image_value(form)
    assert not is_image_value("a text")


@pytest.mark.parametrize(("kind", "media_type"), [("PNG", "png"), ("JPEG", "jpeg"), ("WEBP", "webp"), ("GIF", "gif")])
def test_the_four_formats(kind: str, media_type: str) -> None:
    """The media type follows from the bytes, whatever the name."""
    assert image_part(digit(3, kind)).media_type == f"image/{media_type}"


def bomb(width: int, height: int) -> bytes:
    """Return a small PNG file whose header promises so many pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def bmp() -> bytes:
    """Return an image of a format that is not taken."""
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "BMP")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"no image at all",
            r"15 bytes that are no image, beginning with b'no image'; expected PNG, JPEG, WebP or GIF",
        ),
        (b"", "0 bytes that are no image"),
        (bmp(), "no image, beginning with b'BM"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "no image"),
        (digit(1)[:-60], "cannot be decoded"),
        (digit(1, "JPEG")[:200], "cannot be decoded"),
        (bomb(20_000, 20_000), "too large|20,000 x 20,000 pixels; expected at most 50,000,000"),
        (bomb(9_000, 9_000), "9,000 x 9,000 pixels; expected at most 50,000,000"),
        (bomb(10**6, 10**6), "too large"),
    ],
    ids=["text", "empty", "bmp", "svg", "short png", "short jpeg", "bomb", "smaller bomb", "larger bomb"],
)
def test_what_is_no_image_is_refused(data: bytes, message: str) -> None:
    """A file that is none, is cut off, or would unpack to too much is one line; nothing else is raised."""
    with pytest.raises(MalformedSample, match=message) as caught:
        image_part(data)
    assert "\n" not in str(caught.value)
    assert MOST_PIXELS == 50_000_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("https://example.org/a.png", "is an address, and images are not fetched"),
        ("file:///etc/passwd", "is an address"),
        ("../secret.png", "is outside .*; expected a path within the folder"),
        ("/etc/passwd", "is outside"),
        ("link.png", "is outside"),
        ("absent.png", "no image .*absent.png: No such file"),
        (".", "no image .*directory"),
        ("a\0b.png", "is not an image"),
        (17, "17 is not an image; expected a file's path, a data URL or the Hub's bytes"),
        ({"bytes": None, "path": None}, "None is not an image"),
        ("data:image/png;base64,@@@", "a data URL that is not base64"),
    ],
)
def test_values_that_are_refused(tmp_path: Path, value: Any, message: str) -> None:
    """Nothing is fetched, nothing outside the folder is read, not through a link either, and each line says why."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(digit(1))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(MalformedSample, match=message):
        ImageReader(folder).bytes_of(value)


def test_paths_of_rows_without_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in rows of the Hub does not reach this machine's files."""
    (tmp_path / "a.png").write_bytes(digit(1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MalformedSample, match="this data set has no folder; expected the image's bytes"):
        ImageReader().bytes_of("a.png")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """A file beyond the limit is refused by its size."""
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(33 * 2**20)
    with pytest.raises(MalformedSample, match=r"34,603,008 bytes; expected at most 33,554,432"):
        ImageReader(tmp_path).bytes_of("large.png")
