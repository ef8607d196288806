"""A request as the database stores it: its long texts, and a form that combines them.

The long texts (segments, own contexts, message texts, rolling texts) and the images, in base64, are the request's
*pieces*; shots and images that many samples share are stored once. Everything else is the *form*: JSON in which
numbers refer to pieces. It has no database ids, so the same request of another run (of another model, say) has the same
form and shares that text too.

The table of texts: each is stored once, found by its SHA-256 when written and by its id when read.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

from sqlalchemy import Connection, bindparam, insert, select

from assaymark.errors import HashMismatch
from assaymark.records import (
    CallPart,
    GenerateQuery,
    GenerationSettings,
    ImagePart,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    Query,
    Request,
    ResultPart,
    RollingQuery,
    TextPart,
)
from assaymark.store.packing import pack_text, text_bytes, text_digest, to_json, unpack_text
from assaymark.store.runs import next_id
from assaymark.store.schema import insert_rows, texts

T = TypeVar("T")
LOOKED_UP_AT_ONCE = 500  # values in one IN (...)
UNPACKED_AT_ONCE = 2**30  # characters of texts read together, above which MOST_SHRUNK applies
MOST_SHRUNK = 50  # largest ratio of unpacked to packed length of such a set of texts

_ids_by_hash = select(texts.c.sha256, texts.c.id).where(texts.c.sha256.in_(bindparam("hashes", expanding=True)))
_insert = insert(texts)
_contents_by_id = select(texts.c.id, texts.c.content, texts.c.sha256).where(
    texts.c.id.in_(bindparam("ids", expanding=True))
)


def chunks(items: Sequence[T], size: int = LOOKED_UP_AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield consecutive pieces of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def store_texts(connection: Connection, wanted: Mapping[bytes, str]) -> dict[bytes, int]:
    """Return the id of each text by its hash; new texts are added.

    The transaction must hold the structure lock, so that no text found here is removed before its id is used.
    """
    ids: dict[bytes, int] = {}
    for some in chunks(list(wanted)):
        ids.update(connection.execute(_ids_by_hash, {"hashes": some}).all())
    first = next_id(connection, texts)
    new = [(sha256, text) for sha256, text in wanted.items() if sha256 not in ids]
    rows = [{"id": first + i, "sha256": sha256, "content": pack_text(text)} for i, (sha256, text) in enumerate(new)]
    insert_rows(connection, _insert, rows)
    ids.update({sha256: first + i for i, (sha256, _) in enumerate(new)})
    return ids


def load_texts(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """Return texts by id.

    Raises: HashMismatch if one is missing or is not as it was saved, or a few bytes unpack to gigabytes.
    """
    wanted = ids if isinstance(ids, Collection) else list(ids)
    contents: dict[int, str] = {}
    n_packed = n_unpacked = 0
    for some in chunks(list(dict.fromkeys(wanted))):
        for number, content, sha256 in connection.execute(_contents_by_id, {"ids": some}):
            contents[number] = unpack_text(content)
            if text_digest(contents[number]) != sha256:
                raise HashMismatch(f"text {number} is not as it was saved; `assaymark verify` says what uses it")
            n_packed, n_unpacked = n_packed + len(content), n_unpacked + len(contents[number])
            if n_unpacked > max(UNPACKED_AT_ONCE, MOST_SHRUNK * n_packed):
                raise HashMismatch(
                    f"texts of {n_packed:,} bytes unpack to more than {UNPACKED_AT_ONCE:,} characters; expected "
                    f"at most {MOST_SHRUNK} times as many: assaymark writes no such texts"
                )
    for number in wanted:
        if number not in contents:
            raise HashMismatch(
                f"text {number} is not in the store though a request refers to it; run `assaymark verify`"
            )
    return contents


_SETTINGS = tuple(field.name for field in fields(GenerationSettings))
_DEFAULTS = GenerationSettings()
REMEMBERED = 2**17  # characters; longer texts, such as images, would fill the memory


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A request split into its texts, to be stored or compared."""

    request: Request
    pieces: tuple[str, ...]  # distinct, in the order of their first use
    form: str  # JSON
    n_outputs: int  # of all queries, with their repeats


class _QueryForm(TypedDict):
    """A query; numbers stand for pieces, but for its index."""

    index: int
    generate: NotRequired[Mapping[str, JsonValue]]  # the generation settings that are not the default
    rolling: NotRequired[int]
    continuation: NotRequired[str]
    segments: NotRequired[list[int]]
    role: NotRequired[Literal["choice", "unconditional", "rotated"]]


class TextDigests:
    """SHA-256 digests of texts, each computed once: samples that share shots share the string objects too."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def of(self, text: str) -> bytes:
        """Return the digest of a text."""
        if len(text) > REMEMBERED:
            return hashlib.sha256(text_bytes(text)).digest()
        digest = self._known.get(text)
        if digest is None:
            digest = self._known[text] = hashlib.sha256(text_bytes(text)).digest()
        return digest


def split_request(request: Request) -> SplitRequest:
    """Return the pieces and the form of a request."""
    pieces: dict[str, int] = {}

    def number(text: str) -> int:
        return pieces.setdefault(text, len(pieces))

    form: dict[str, object] = {
        "segments": [number(segment) for segment in request.segments],
        "asks": [_query_content(query, number) for query in request.queries],
        "target": request.target,
        "n_shots": request.n_shots,
        "n_leaked_shots": request.n_leaked_shots,
    }
    if request.messages:
        form["messages"] = [
            [message.role, [_part_form(part, number) for part in message.parts]] for message in request.messages
        ]
    if request.tools is not None:  # omitted without tools, so that requests of earlier versions keep their hash
        form["tools"] = number(request.tools)
    count = request.n_outputs
    return SplitRequest(request, tuple(pieces), to_json(form), count)


def content_hash(key: tuple[str, int, int], sample_sha256: str, form: str, piece_digests: Sequence[bytes]) -> bytes:
    """Return the SHA-256 of a request's content: `key` (task, sample index, turn), sample, form and pieces."""
    digest = hashlib.sha256(text_bytes(to_json([*key, sample_sha256])))
    digest.update(hashlib.sha256(text_bytes(form)).digest())
    digest.update(b"".join(piece_digests))
    return digest.digest()


def hash_of(split: SplitRequest, digests: TextDigests) -> bytes:
    """Return the content hash of a split request."""
    request = split.request
    key = (request.task, request.sample_index, request.turn)
    return content_hash(key, request.sample_sha256, split.form, [digests.of(piece) for piece in split.pieces])


def join_request(key: tuple[str, int, int], sample_sha256: str, form: str, pieces: Sequence[str]) -> Request:
    """Return the request of a form and its pieces; `key` is task, sample index and turn.

    Raises: HashMismatch if form and pieces do not match.
    """
    try:
        content = json.loads(form)
        return Request(
            task=key[0],
            sample_index=key[1],
            sample_sha256=sample_sha256,
            segments=tuple(pieces[i] for i in content["segments"]),
            queries=tuple(_query(query, pieces) for query in content["asks"]),
            messages=tuple(
                Message(role, tuple(_part(part, pieces) for part in parts))
                for role, parts in content.get("messages", ())
            ),
            tools=pieces[content["tools"]] if "tools" in content else None,
            turn=key[2],
            target=content["target"],
            n_shots=content["n_shots"],
            n_leaked_shots=content["n_leaked_shots"],
        )
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise HashMismatch(
            f"the stored request {key[0]}/{key[1]}/{key[2]} cannot be read: {error!r}; "
            f"`assaymark verify` lists what is damaged"
        ) from error


def _query_content(query: Query, number: Callable[[str], int]) -> _QueryForm:
    if isinstance(query, LoglikelihoodQuery):
        form: _QueryForm = {"index": query.index, "continuation": query.continuation}
        if query.segments is not None:
            form["segments"] = [number(segment) for segment in query.segments]
        if query.role != "choice":
            form["role"] = query.role
        return form
    if isinstance(query, RollingQuery):
        return {"index": query.index, "rolling": number(query.text)}
    changed = {
        name: value for name in _SETTINGS if (value := getattr(query.settings, name)) != getattr(_DEFAULTS, name)
    }
    return {"index": query.index, "generate": changed}


def _query(form: _QueryForm, pieces: Sequence[str]) -> Query:
    if "generate" in form:
        return GenerateQuery(form["index"], generation_settings(form["generate"]))
    if "rolling" in form:
        return RollingQuery(form["index"], pieces[form["rolling"]])
    own = form.get("segments")
    return LoglikelihoodQuery(
        index=form["index"],
        continuation=form["continuation"],
        segments=None if own is None else tuple(pieces[i] for i in own),
        role=form.get("role", "choice"),
    )


def generation_settings(content: Mapping[str, Any]) -> GenerationSettings:
    """Return generation settings of their JSON."""
    values = dict(content)
    if "stop" in values:
        values["stop"] = tuple(values["stop"])
    if "extra" in values:
        values["extra"] = tuple((name, value) for name, value in values["extra"])
    return GenerationSettings(**values)


def _part_form(part: TextPart | ImagePart | CallPart | ResultPart, number: Callable[[str], int]) -> int | list[object]:
    """Return the form of a part; an image's file is a piece of its own, in base64, so that it is stored once too."""
    if isinstance(part, TextPart):
        return number(part.text)
    if isinstance(part, CallPart):
        return ["call", part.id, part.name, number(part.arguments)]
    if isinstance(part, ResultPart):
        return ["result", part.call_id, part.name, number(part.text)]
    return [part.sha256, part.media_type, *([number(b64encode(part.data).decode())] if part.data else [])]


def _part(form: JsonValue, pieces: Sequence[str]) -> TextPart | ImagePart | CallPart | ResultPart:
    """Return the part of its form; `verify` gives empty pieces, whose hashes it checks itself.

    Raises: ValueError for what is no part, or an image that is not the one that its hash names.
    """
    match form:
        case int(number):
            return TextPart(pieces[number])
        case ["call", str(call_id), str(name), int(number)]:
            return CallPart(call_id, name, pieces[number])
        case ["result", str(call_id), str(name), int(number)]:
            return ResultPart(call_id, name, pieces[number])
        case [str(sha256), str(media_type)]:
            return ImagePart(sha256, media_type, b"")
        case [str(sha256), str(media_type), int(number)]:
            data = b64decode(pieces[number], validate=True)
            if data and f"sha256:{hashlib.sha256(data).hexdigest()}" != sha256:
                raise ValueError(f"an image is not the one with hash {sha256}")
            return ImagePart(sha256, media_type, data)
    raise ValueError(f"{form!r} is no part of a message")
