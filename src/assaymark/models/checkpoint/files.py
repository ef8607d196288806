"""Find a model's files on disk or on the Hub, and hash their contents once.

A model is identified by its content, so that a renamed folder is the same model and an edited one is not. Hashing
gigabytes takes seconds, so digests are cached (`FileDigests`). Nothing here imports torch or transformers.
"""

import hashlib
import json
import operator
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TypedDict, cast

from assaymark.errors import ModelUnavailable
from assaymark.hub_access import hub_or_cache
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue
from assaymark.settings import cache_folder, remember

CONFIGURATION = ("config.json", "generation_config.json", "adapter_config.json")
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "*.tiktoken", "tekken.json",
)  # fmt: skip
TEMPLATE = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja")
SAFETENSORS = ("*.safetensors", "*.safetensors.index.json")
PICKLES = ("*.bin", "*.bin.index.json")
CODE = ("*.py",)
LARGEST_HEADER = 100_000_000  # bytes of a safetensors file's header, as in the format's own library
LARGEST_JSON = 64 << 20  # bytes; a configuration has some thousand, the index of a large model's weights a few million


MOST_VALUES = 10_000_000  # of a JSON file, each of up to 30 times its size in memory
MOST_HEADER_VALUES = 2_000_000  # of a safetensors file's header, eight for each tensor


def other_code(folder: Path) -> list[str]:
    """Return the repositories, or folders, whose classes the configurations in a folder name: `ORG/NAME--file.Class`.

    Raises: ModelUnavailable if one of them is not JSON.
    """
    maps = [read_json(path).get("auto_map") for path in matching(folder, ("config.json", "*_config.json"))]
    return sorted({named.partition("--")[0] for named in _texts(maps) if "--" in named})


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | Mapping):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Options for accessing the Hub: token, cache folder, and whether to stay offline."""

    token: str | bool | None = field(default=None, repr=False)
    cache_dir: str | None = None
    local_files_only: bool = False


def folder_of(
    name: str, revision: str | None = None, *, subfolder: str = "", weights: bool = True, hub: HubOptions = HubOptions()
) -> Path:
    """Return the folder with a model's files; a name that is not a folder is looked up on the Hub, or in its cache.

    Raises: ModelUnavailable, with the name, the locations searched and the remedy.
    """
    path = Path(name).expanduser()
    if not path.is_dir():
        looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
        if looks_local or path.is_file():
            kind = "is a file" if path.is_file() else "does not exist"
            other = "; a GGUF file is run by --model gguf" if path.is_file() and path.suffix == ".gguf" else ""
            if re.search(r",\w+=", name):
                other = "; arguments go behind a kind: hf:pretrained=" + name
            raise ModelUnavailable(
                f"model '{name}': {path.absolute()} {kind}; expected a folder with config.json, or a Hub id{other}"
            )
        path = _from_hub(name, revision, hub, weights=weights)
    path = path / subfolder if subfolder else path
    if not (path / "config.json").is_file() and not (path / "adapter_config.json").is_file():
        has_gguf = next(path.glob("*.gguf"), None) if path.is_dir() else None
        files = ", ".join(sorted(p.name for p in path.iterdir())[:5]) if path.is_dir() else "no such folder"
        if weights and has_gguf is None:
            inside = min(path.glob("*/*config.json"), default=None)
            raise ModelUnavailable(
                f"model '{name}': no config.json in {path.absolute()} (found: {files or 'nothing'}); "
                f"expected a folder written by save_pretrained{f', such as {inside.parent}' if inside else ''}"
            )
    return path


def tokenizer_place(name: str, revision: str | None, hub: HubOptions) -> Path:
    """Return the folder of a tokenizer, or its file where one is named (`tokenizer.model`, `tokenizer.json`).

    Raises: ModelUnavailable if there is no such folder, file or Hub id.
    """
    path = Path(name).expanduser()
    return path if path.is_file() else folder_of(name, revision, weights=False, hub=hub)


def _from_hub(name: str, revision: str | None, hub: HubOptions, *, weights: bool) -> Path:
    """Return the snapshot folder of a Hub repository: downloaded, or from the Hub's local cache when offline."""
    from assaymark.errors import MissingExtra

    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtra(f"model '{name}' is not a folder here; downloading it from the Hub", "hf") from None
    options: dict[str, object] = {"revision": revision, "token": hub.token, "cache_dir": hub.cache_dir}
    if revision and re.fullmatch(r"[0-9a-f]{40}", revision):
        with suppress(Exception):  # a commit never changes, so a downloaded one needs no request to the Hub
            return Path(snapshot_download(name, local_files_only=True, **options))
    try:
        if hub.local_files_only:
            return Path(snapshot_download(name, local_files_only=True, **options))
        with hub_or_cache():
            unwanted = _unwanted(name, revision, hub.token, weights=weights)
            return Path(snapshot_download(name, ignore_patterns=unwanted, **options))
    except Exception as error:  # the Hub client raises many kinds of errors; each means that there is no model
        raise ModelUnavailable(_why_not_fetched(name, revision, error)) from error


def _why_not_fetched(name: str, revision: str | None, error: Exception) -> str:
    """Return the message for an error of the Hub's client, with the remedy."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    at = f" at revision '{revision}'" if revision else ""
    no_folder = f"no such folder ({Path(name).absolute()})"
    if isinstance(error, GatedRepoError):
        return (
            f"model '{name}' is gated on the Hub; accept its licence there and set HF_TOKEN to a token that may read it"
        )
    if isinstance(error, HFValidationError):
        return f"model '{name}': {no_folder}, and not a Hub id like 'organisation/model'"
    if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return (
            f"model '{name}'{at}: {no_folder}, not in the Hub's local cache, and the Hub cannot be reached (offline?); "
            "check the spelling, or download it on a machine with a network"
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return (
        f"model '{name}'{at}: {no_folder}, and the Hub answered: {first}; check the spelling and the revision, and set "
        "HF_TOKEN if it is private"
    )


def _unwanted(name: str, revision: str | None, token: str | bool | None, *, weights: bool) -> list[str]:
    """Return patterns of files that are not needed; pickled weights are skipped if safetensors exist."""
    unwanted = ["*.h5", "*.msgpack", "*.onnx", "*.ot", "*.tflite", "*.mlmodel", "*.png", "*.jpg", "*.mp4", "original/*"]
    if not weights:
        return [*unwanted, *SAFETENSORS, *PICKLES, "*.gguf", "*.pt", "*.pth"]
    from huggingface_hub import HfApi

    try:
        listed = HfApi().list_repo_files(name, revision=revision, token=token)
    except Exception:  # noqa: BLE001 - this only saves time; the download reports the problem
        return unwanted
    if any(each.endswith(".safetensors") for each in listed):
        unwanted += ["*.bin", "*.pt", "*.pth", "*.bin.index.json"]
    return unwanted


def matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the folder's files whose relative name matches a pattern, sorted by name; of a file, itself if it does."""
    if folder.is_file():
        return [folder] if any(fnmatch(folder.name, pattern) for pattern in patterns) else []
    nested = [p for p in folder.glob("additional_chat_templates/*") if p.is_file()]
    files = [p for p in folder.iterdir() if p.is_file()] + nested
    wanted = tuple(patterns)
    names = {p.relative_to(folder).as_posix(): p for p in files}
    return [path for name, path in sorted(names.items()) if any(fnmatch(name, pattern) for pattern in wanted)]


def weight_files(folder: Path, gguf_file: str | None = None) -> list[Path]:
    """Return the files that transformers would load weights from: a named GGUF, else safetensors, else pickles."""
    if gguf_file is not None:
        return [folder / gguf_file]
    return matching(folder, SAFETENSORS) or matching(folder, PICKLES)


def _count_values(content: bytes, most: int) -> None:
    """Raise ValueError for JSON with more values than `most`, before any is made."""
    n = sum(map(content.count, (b",", b"[", b"{")))
    if n > most:
        raise ValueError(f"it has about {n:,} values; expected at most {most:,}")


def read_json_value(path: Path) -> object:
    """Return the value of a JSON file, None if the file does not exist.

    Raises: ModelUnavailable if the file is not JSON, or larger than LARGEST_JSON.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_JSON + 1)
        if len(content) > LARGEST_JSON:
            raise ModelUnavailable(
                f"{path} has {path.stat().st_size:,} bytes; expected a configuration of at most {LARGEST_JSON:,}: "
                "restore the file from the model's source"
            )
        _count_values(content, MOST_VALUES)
        return parse_json(content.decode("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"{path} cannot be read as JSON: {error}; restore the file from the model's source"
        ) from error


def read_json(path: Path) -> dict[str, JsonValue]:
    """Return a JSON object from a file, empty if the file does not exist, or another value in it.

    Raises: ModelUnavailable if the file is not JSON, or larger than LARGEST_JSON.
    """
    value = read_json_value(path)
    return cast("dict[str, JsonValue]", value) if isinstance(value, dict) else {}


def read_json_object(path: Path) -> dict[str, object]:
    """Return the JSON object in a required file.

    Raises: ModelUnavailable if it is missing, not JSON, or not a non-empty object.
    """
    value = read_json(path)
    if not value:
        raise ModelUnavailable(f"{path} contains no JSON object with keys; restore the file from the model's source")
    return value


class TensorEntry(TypedDict, total=False):
    """A tensor in a safetensors file's header: its type, extents, and first and last byte in the file's data."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def safetensors_header(path: Path) -> Mapping[str, TensorEntry]:
    """Return the entries of a safetensors file by their tensors' names; the tensors must fill the rest of the file.

    Raises: ModelUnavailable if it is not one, is truncated, or has tensors that overlap or leave gaps.
    """
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > LARGEST_HEADER:
                raise ValueError(f"its header claims {size:,} bytes; expected at most {LARGEST_HEADER:,}")  # noqa: TRY301
            n_bytes = path.stat().st_size
            content = file.read(min(size, n_bytes))
        _count_values(content, MOST_HEADER_VALUES)
        header = cast("dict[str, TensorEntry]", parse_json(content.decode("utf-8"), unique=True))
        header.pop("__metadata__", None)
        for extent in (extent for entry in header.values() for extent in entry.get("shape", ())):
            operator.index(extent)
        _check_offsets(header, n_bytes - 8 - size)
    except (OSError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise ModelUnavailable(f"{path} is not a readable safetensors file ({error}); download it again") from error
    return header


def _check_offsets(header: Mapping[str, TensorEntry], n_data: int) -> None:
    """Check that tensors lie one after the other and fill the file's data, as the format demands.

    Raises: ValueError; TypeError or AttributeError for what is not a number.
    """
    end = 0
    for begin, after in sorted(tuple(map(operator.index, entry.get("data_offsets", ()))) for entry in header.values()):
        if begin != end or after < begin:
            raise ValueError(f"a tensor has the bytes {begin:,} to {after:,}; expected them to begin at {end:,}")
        end = after
    if end > n_data:
        raise ValueError(f"it is truncated: its tensors have {end:,} bytes, and {n_data:,} are there")
    if end < n_data:
        raise ValueError(f"{n_data - end:,} of its bytes belong to no tensor")


def state_of(path: Path) -> tuple[int, int, int] | None:
    """Return a file's inode, and what a write into it changes: time and size; None if there is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


class FileDigests:
    """SHA-256 of files, cached between processes by path, size, inode and the times of both.

    The inode's time cannot be set, as `cp -p` and `rsync -t` set that of the content to the one of what they copy.
    """

    def __init__(self) -> None:
        self._path = cache_folder() / "file_digests.json"
        self._known: dict[str, str] | None = None
        self._is_changed = False

    def _load(self) -> dict[str, str]:
        if self._known is None:
            try:
                known = json.loads(self._path.read_text(encoding="utf-8"))
                self._known = known if isinstance(known, dict) else {}
            except (OSError, ValueError):  # a missing or damaged cache is rebuilt
                self._known = {}
        return self._known

    def of(self, path: Path) -> str:
        """Return the file's SHA-256 in hexadecimal.

        Raises: ModelUnavailable if it cannot be read.
        """
        try:
            state = path.stat()
            key = f"{path.resolve()}|{state.st_size}|{state.st_mtime_ns}|{state.st_ino}|{state.st_ctime_ns}"
            known = self._load()
            if key not in known:
                with path.open("rb") as file:
                    known[key] = hashlib.file_digest(file, "sha256").hexdigest()
                self._is_changed = True
        except OSError as error:
            raise ModelUnavailable(f"cannot read {path}: {error.strerror or error}") from error
        return known[key]

    def save(self) -> None:
        """Write new digests atomically. If the folder is not writable, only time is lost."""
        if self._is_changed:
            remember(self._path, json.dumps(self._load()))
            self._is_changed = False


def combined_digest(parts: Mapping[str, str]) -> str | None:
    """Return one digest over (name, digest) pairs in the names' order; None if there are none."""
    if not parts:
        return None
    whole = hashlib.sha256()
    for name in sorted(parts):
        whole.update(f"{name}\x00{parts[name]}\n".encode())
    return f"sha256:{whole.hexdigest()}"
