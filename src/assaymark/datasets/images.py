"""Images in rows: the Hub's bytes, a path beside the file of rows, or a data URL; each checked before it is used.

Files of rows come from anywhere. So nothing is fetched, a path stays within its file's folder, a file is decoded once
here before a model or a server sees it, and one that would unpack to more than `MOST_PIXELS` is refused unread.
"""

import base64
import binascii
import hashlib
import io
import re
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assaymark.errors import MalformedSample, MissingExtra
from assaymark.records import ImagePart

MEDIA_TYPES: Mapping[str, str] = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "WEBP": "image/webp",
    "GIF": "image/gif",
}  # what chat servers take and browsers show; none of them can hold a script
MOST_PIXELS = 50_000_000
LARGEST_FILE = 32 * 2**20  # bytes
_TAKEN = "expected PNG, JPEG, WebP or GIF"
_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_ANY_URL = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")


def is_image_value(value: object) -> bool:
    """Return whether a value of a row has a form that `ImageReader` reads."""
    if isinstance(value, Mapping):
        return {"bytes", "path"} >= set(value) and bool(value)
    if isinstance(value, str):
        return bool(_DATA_URL.match(value)) or value.lower().endswith(_SUFFIXES)
    return isinstance(value, bytes)


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads the images of one data set.

    folder: of the file of rows, to which paths are relative; None for rows from elsewhere, whose paths are refused.
    """

    folder: Path | None = None

    def bytes_of(self, value: object) -> bytes:
        """Return the file of an image: bytes, as the Hub stores it (`bytes`, `path`), a path or a data URL.

        Raises: MalformedSample for what is none of these, or longer than LARGEST_FILE.
        """
        data = self._bytes(value)
        if len(data) > LARGEST_FILE:
            raise MalformedSample(f"an image file of {len(data):,} bytes; expected at most {LARGEST_FILE:,}: shrink it")
        return data

    def _bytes(self, value: object) -> bytes:
        if isinstance(value, Mapping):
            content = value.get("bytes")
            return content if isinstance(content, bytes) else self._file(value.get("path"))
        if isinstance(value, bytes):
            return value
        if isinstance(value, str) and (url := _DATA_URL.match(value)):
            try:
                return base64.b64decode(value[url.end() :], validate=True)
            except binascii.Error as error:
                raise MalformedSample(
                    f"a data URL that is not base64 ({error}); expected data:image/png;base64,..."
                ) from None
        return self._file(value)

    def _file(self, path: object) -> bytes:
        """Return the content of a file in the folder of the rows."""
        if not isinstance(path, str) or not path.strip() or "\0" in path:
            raise MalformedSample(
                f"{path!r:.60} is not an image; expected a file's path, a data URL or the Hub's bytes"
            )
        if _ANY_URL.match(path) and not Path(path).is_absolute():
            raise MalformedSample(
                f"{path!r:.80} is an address, and images are not fetched; download it beside the rows and give its path"
            )
        if self.folder is None:
            raise MalformedSample(
                f"{path!r:.80} is a path, and this data set has no folder; expected the image's bytes"
            )
        root = self.folder.resolve()
        file = (root / path).resolve()
        if not file.is_relative_to(root):
            raise MalformedSample(f"{path!r:.80} is outside {root}; expected a path within the folder of the rows")
        try:
            if file.stat().st_size > LARGEST_FILE:
                raise MalformedSample(
                    f"{path!r:.80} has {file.stat().st_size:,} bytes; expected at most {LARGEST_FILE:,}"
                )
            return file.read_bytes()
        except OSError as error:
            raise MalformedSample(f"no image {file}: {error.strerror or error}") from None


def image_part(data: bytes) -> ImagePart:
    """Return an image, after decoding it once.

    Raises: MalformedSample for bytes that are no image; MissingExtra without Pillow.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingExtra("a task with images", "images") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours is the smaller limit
            image = Image.open(io.BytesIO(data), formats=tuple(MEDIA_TYPES))
        with image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise MalformedSample(
                    f"the image has {width:,} x {height:,} pixels; expected at most {MOST_PIXELS:,}: shrink it"
                )
            image.load()
            media_type = MEDIA_TYPES[str(image.format)]
    except UnidentifiedImageError:
        raise MalformedSample(f"{len(data):,} bytes that are no image, beginning with {data[:8]!r}; {_TAKEN}") from None
    except Image.DecompressionBombError as error:
        raise MalformedSample(f"the image is too large: {error}; expected at most {MOST_PIXELS:,} pixels") from None
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
        raise MalformedSample(f"the image cannot be decoded: {error}; {_TAKEN}, whole") from None
    return ImagePart(sha256_of(data), media_type, data)


def sha256_of(data: bytes) -> str:
    """Return the hash by which an image is stored."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
