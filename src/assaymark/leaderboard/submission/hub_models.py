"""Models of the Hub, read without a token, so that only public models can be submitted."""

import glob
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import MissingExtra, ModelUnavailable, Unreachable
from assaymark.leaderboard.submission.sources import CARD, READ, FoundModel, ModelMissing
from assaymark.records import JsonValue

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

LARGEST_READ = 8 << 20  # bytes of a configuration file
FETCHED = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")  # of the repository's own folder
SECONDS = 10.0


class HubModels:
    """The Hub, or another server with its API."""

    def __init__(self, endpoint: str | None = None, cache: Path | None = None) -> None:
        """Args: endpoint: None for the Hub's own (or HF_ENDPOINT); cache: folder for fetched files, None: the Hub's."""
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise MissingExtra("finding models on the Hub", "hub") from None
        self._api = HfApi(endpoint=endpoint, token=False)
        self._endpoint = endpoint
        self._cache = cache

    def find(self, name: str, revision: str) -> FoundModel:
        """Return the facts about a model, at the commit that the revision means now."""
        with _translated(name, revision):
            info, listed = self._listed(name, revision)
            read = {
                each: self._read(name, each, str(info.sha))
                for each in (*READ, CARD)
                if each in listed and (listed[each].size or 0) <= LARGEST_READ
            }
        weights = tuple(each for each in listed if each.endswith((".safetensors", ".bin")) and "/" not in each)
        evaluated = {each: file for each, file in listed.items() if each in weights or _is_fetched(each)}
        tokenizer = _object(read.get("tokenizer_config.json"))
        card = info.card_data.to_dict() if info.card_data else {}
        return FoundModel(
            name=str(info.id),
            revision=str(info.sha),
            source="hub",
            sizes={each: int(file.size or 0) for each, file in evaluated.items()},
            digests={each: file.lfs.sha256 if file.lfs else str(file.blob_id) for each, file in evaluated.items()},
            weights=weights,
            config=_object(read.get("config.json")),
            adapter=_object(read.get("adapter_config.json")),
            has_template=bool(tokenizer.get("chat_template")) or any(each.endswith(".jinja") for each in listed),
            card=(read.get(CARD) or b"").decode("utf-8", "replace"),
            licence=_licence(card),
            tags=tuple(str(tag) for tag in info.tags or ()),
            n_parameters=info.safetensors.total if info.safetensors else None,
            needs_permission=bool(info.gated) or bool(info.private),
        )

    def _listed(self, name: str, revision: str) -> tuple["ModelInfo", dict[str, "RepoSibling"]]:
        """Return the Hub's facts about a model, and about each file at that revision."""
        info = self._api.model_info(name, revision=revision or None, files_metadata=True, timeout=SECONDS)
        return info, {file.rfilename: file for file in info.siblings or ()}

    def _read(self, name: str, file: str, revision: str) -> bytes:
        path = self._api.hf_hub_download(name, file, revision=revision, cache_dir=self._cache)
        return Path(path).read_bytes()

    def fetch(self, name: str, revision: str, into: Path) -> Path:
        """Download the files that were checked, one by one: configuration, tokenizer, safetensors."""
        with _translated(name, revision):
            _, listed = self._listed(name, revision)
            wanted = {each: file for each, file in listed.items() if _is_fetched(each)}
            folder = Path(
                self._api.snapshot_download(
                    name, revision=revision, allow_patterns=[glob.escape(each) for each in wanted], cache_dir=into
                )
            )
        for each, file in wanted.items():
            path = folder / each
            n_bytes = path.stat().st_size if path.is_file() else -1
            if n_bytes != file.size or (file.lfs and _digest(path) != file.lfs.sha256):
                raise ModelMissing(
                    f"'{name}': {each} is not the file that the Hub lists at {revision[:12]} ({n_bytes:,} bytes; "
                    f"expected {file.size or 0:,}); submit the model again"
                )
        return folder


def _is_fetched(file: str) -> bool:
    """Return whether a file of a repository is fetched; files in folders are not."""
    return "/" not in file and any(fnmatch(file, pattern) for pattern in FETCHED)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _licence(card: Mapping[str, JsonValue]) -> str | None:
    named = card.get("license")
    if named == "other":
        name = card.get("license_name")
        return name if isinstance(name, str) and card.get("license_link") else None
    return str(named) if named else None


def _object(content: bytes | None) -> dict[str, JsonValue]:
    try:
        value = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextmanager
def _translated(name: str, revision: str) -> Iterator[None]:
    """Translate the Hub client's errors."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except GatedRepoError as error:
        raise ModelMissing(
            f"'{name}' is gated on the Hub, and this server fetches without a token; make it public"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelMissing(f"'{name}' has no revision '{revision}' on the Hub; check the branch or commit") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelMissing(
            f"'{name}' is not a public model on the Hub; check the spelling, or make it public"
        ) from error
    except (ModelUnavailable, MissingExtra):
        raise
    except Exception as error:  # the client raises those of its HTTP library and of the system
        first = " ".join(str(error).split())[:200] or type(error).__name__
        raise Unreachable(f"the Hub cannot be reached or failed ({first}); try again later") from error
