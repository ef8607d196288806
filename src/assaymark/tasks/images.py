"""Tasks with images: the keys of their files, and the images of a row.

`doc_to_image` names a column, several columns, a template of a column's name, or a function that returns images. An
image is read when its prompt is made; until then a row has a `RowImage`, which JSON and logs show by its hash.

Columns of images in rows of one's own, in MMMU's layout: `image`, or `image_1` to `image_7`. A value is the Hub's
bytes, a path beside the file of rows, or a data URL.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assaymark.datasets import Row, Rows
from assaymark.errors import DataError, MalformedSample, MissingExtra
from assaymark.prompts.images import PLACEHOLDER, check_places
from assaymark.python_source import python_value
from assaymark.records import ImagePart, content_hash
from assaymark.tasks.task import Field

_IMAGE = re.compile(r"image(_[1-7])?", re.IGNORECASE)
_OTHER = re.compile(r"(audio|video|sound|clip)(_\d+)?", re.IGNORECASE)
_FILES = (".mp4", ".webm", ".mov", ".avi", ".mkv", ".wav", ".mp3", ".flac", ".ogg", ".m4a")
_LISTS = ("options", "choices")
_MEDIA_TYPES: Mapping[str, str] = {
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
            image = Image.open(io.BytesIO(data), formats=tuple(_MEDIA_TYPES))
        with image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise MalformedSample(
                    f"the image has {width:,} x {height:,} pixels; expected at most {MOST_PIXELS:,}: shrink it"
                )
            image.load()
            media_type = _MEDIA_TYPES[str(image.format)]
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


def is_image_column(name: str) -> bool:
    """Return whether a column is one of images, by its name."""
    return _IMAGE.fullmatch(name) is not None


def image_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of images, in the order of their numbers."""
    return sorted(filter(is_image_column, names), key=str.lower)


def refuse_other_media(where: object, rows: Rows) -> None:
    """Raise DataError where a column has audio or video: as the Hub stores them, or the name of such a file."""
    for name in filter(_OTHER.fullmatch, rows.column_names):
        value = next((row for row in rows.values(name) if row is not None), None)
        if isinstance(value, Mapping | bytes) or (isinstance(value, str) and value.lower().endswith(_FILES)):
            raise DataError(
                f"{where}: column '{name}' has audio or video, which no model here takes; rows have texts and images: "
                "give frames of a video as columns image_1 to image_7"
            )


def with_option_lists(rows: Rows) -> Rows:
    """Return rows of which options that are the text of a list, as in MMMU's files, are lists; no options: None."""
    named = [name for name in rows.column_names if name.lower() in _LISTS]
    if not named or not image_columns(rows.column_names):
        return rows

    def change(row: Row) -> Row:
        return {**row, **{name: _listed(row[name]) for name in named}}

    return rows.changed(change)


def _listed(value: object) -> object:
    if isinstance(value, list):
        return value or None
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return value
    try:
        parsed = python_value(value)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return value
    return (parsed or None) if isinstance(parsed, list) and all(isinstance(each, str) for each in parsed) else value


Given = Mapping[str, object]  # a row
_NUMBERED = re.compile(r"<image ([1-7])>")


class RowImage:
    """An image of a row, read when it is needed. As text it is its hash, so rows with images have a hash too."""

    __slots__ = ("_column", "_reader", "_value")

    def __init__(self, value: object, column: str, reader: ImageReader) -> None:
        self._value, self._column, self._reader = value, column, reader

    @property
    def is_file(self) -> bool:
        """Whether the row has a path, so that its file's hash does not cover the image."""
        value = self._value.get("path") if isinstance(self._value, Mapping) else self._value
        return isinstance(value, str) and not value.startswith("data:") and not self._has_bytes

    @property
    def _has_bytes(self) -> bool:
        return isinstance(self._value, Mapping) and isinstance(self._value.get("bytes"), bytes)

    def part(self) -> ImagePart:
        """Return the image as a part of a message.

        Raises: MalformedSample, naming the column, for a file that is none or cannot be read; MissingExtra.
        """
        try:
            return image_part(self._reader.bytes_of(self._value))
        except MalformedSample as error:
            raise MalformedSample(f"column '{self._column}': {error}") from None

    def __str__(self) -> str:
        try:
            return f"[image {sha256_of(self._reader.bytes_of(self._value))}]"
        except MalformedSample:
            return f"[no image: {self._value!r:.80}]"  # reported where the prompt is made

    __repr__ = __str__


def with_images(rows: Rows, field: Field, folder: Path | None) -> Rows:
    """Return rows in which images are `RowImage`s.

    They are in the columns of `field`, in those called image or image_1, and where values have the Hub's form.
    """
    reader = ImageReader(folder)
    listed = field if isinstance(field, list) else [field]
    named = {str(each) for each in listed}

    def is_image(column: str, value: object) -> bool:
        if value is None or value == "":
            return False
        return column in named or is_image_column(column) or (isinstance(value, Mapping) and is_image_value(value))

    def change(row: Row) -> Row:
        return {
            column: _row_image(value, column, reader) if is_image(column, value) else value
            for column, value in row.items()
        }

    return with_option_lists(rows).changed(change)


def _row_image(value: object, column: str, reader: ImageReader) -> RowImage | list[RowImage]:
    if isinstance(value, list):
        return [RowImage(each, column, reader) for each in value if each is not None]
    return RowImage(value, column, reader)


class TaskImages:
    """The images of a task's rows, in the order in which their prompts show them.

    `text` is the question's own function. Where it has numbered places, `<image 2>` is column `image_2`, as in MMMU.
    """

    def __init__(self, field: object, columns: Collection[str], text: Callable[[Given], object]) -> None:
        self._find = _finder(field, columns)
        self._text = text
        self._by_number = None if callable(field) else {name.lower(): name for name in columns}

    def of(self, row: Given) -> tuple[ImagePart, ...]:
        """Return a row's images.

        Raises: MalformedSample for one that cannot be used; MissingExtra without Pillow.
        """
        parts = []
        for each in self._values(row):
            if not isinstance(each, RowImage):
                raise MalformedSample(f"doc_to_image returns {each!r:.60}; expected values of image columns")
            parts.append(each.part())
        return tuple(parts)

    def text(self, row: Given) -> object:
        """Return the question with a place for each image; an index into choices stays one.

        A stored row, which has its images by hash only, has the same text.
        """
        own = self._text(row)
        if not isinstance(own, str):
            return own
        plain = _NUMBERED.sub(PLACEHOLDER, own) if self._by_number is not None else own
        return check_places(plain, len(self._values(row)))

    def _values(self, row: Given) -> list[object]:
        flat = [image for each in self._images_of(row) for image in (each if isinstance(each, list) else [each])]
        return [each for each in flat if each is not None and each != ""]

    def _images_of(self, row: Given) -> Sequence[object]:
        own = self._text(row) if self._by_number is not None else None
        numbers = _NUMBERED.findall(own) if isinstance(own, str) else []
        return [self._numbered(row, number) for number in numbers] if numbers else self._find(row)

    def _numbered(self, row: Given, number: str) -> object:
        known = self._by_number or {}
        column = known.get(f"image_{number}", known.get("image", "") if number == "1" else "")
        if row.get(column) is None:
            raise MalformedSample(f"the question shows <image {number}>, and column 'image_{number}' is empty")
        return row[column]


def _finder(field: object, columns: Collection[str]) -> Callable[[Given], Sequence[object]]:
    """Return the function for `doc_to_image`: the values of a row that are its images."""
    if isinstance(field, list):
        finders = [_finder(each, columns) for each in field]
        return lambda row: [image for find in finders for image in find(row)]
    if callable(field):
        return partial(_called, field)
    column = str(field).strip().removeprefix("{{").removesuffix("}}").strip()
    if column not in columns:
        raise DataError(f"doc_to_image is {field!r:.80}; expected a column: {', '.join(sorted(columns))}")
    return lambda row: [row.get(column)]


def _called(function: Callable[[Given], object], row: Given) -> Sequence[object]:
    name = getattr(function, "__name__", "a function")
    try:
        images = function(row)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise MalformedSample(f"the task's function {name} failed on a row: {error!r:.160}") from error
    return images if isinstance(images, list) else [images]


def hash_of_rows(content_hash_of_files: str, rows: Rows) -> str:
    """Return the hash of a data set with the files that its rows name; without such files, its own hash."""
    first = next(iter(rows.passing()), {})
    if not any(
        isinstance(each, RowImage) and each.is_file
        for value in first.values()
        for each in (value if isinstance(value, list) else [value])
    ):
        return content_hash_of_files
    return content_hash([content_hash_of_files, [content_hash(row) for row in rows.passing()]])


def refuse_unfit_image_keys(spec: Mapping[str, object], source: object) -> None:
    """Raise DataError for keys that do not go with images."""
    if spec.get("doc_to_image") is None:
        return
    if spec.get("output_type") == "loglikelihood_rolling":
        raise DataError(f"{source}: output_type is loglikelihood_rolling; expected another with doc_to_image")
    for key in ("doc_to_turns", "doc_to_tools", "num_fewshot"):
        if spec.get(key):
            raise DataError(f"{source}: {key} is {spec[key]!r:.80}; expected none with doc_to_image")
