"""Sources of models: folders that the host allows, and the Hub. Both give the same facts, without weights.

A folder's revision is the hash of its content. Fetching makes a copy, which is hashed meanwhile, so that exactly the
checked files are evaluated, even if the folder changes.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Protocol

from assaymark.errors import AssaymarkError, DataError, ModelUnavailable
from assaymark.leaderboard.rows import Fact
from assaymark.limits.yaml_documents import front_matter, load_yaml
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.config_check import check_config, check_index
from assaymark.records import JsonValue, content_hash

CARD = "README.md"
LONGEST_CARD = 1 << 20
MOST_BYTES = 400 << 30  # of a model's weights
PIECE = 1 << 22  # bytes copied at a time
READ = (*files.CONFIGURATION, "tokenizer_config.json", *files.TEMPLATE)


class ModelMissing(ModelUnavailable):
    """There is no such model, or no such revision of it; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """The facts about a model that are known before its weights are loaded."""

    name: str
    revision: str  # commit, or hash of a folder's content
    source: str  # hub | folder
    sizes: Mapping[str, int]  # bytes by file, of the files that are fetched
    digests: Mapping[str, str]  # hash of each of these files: SHA-256, or what the Hub lists
    weights: tuple[str, ...]  # which of them are weights
    config: Mapping[str, JsonValue]
    adapter: Mapping[str, JsonValue]
    has_template: bool
    card: str = ""
    licence: str | None = None
    tags: tuple[str, ...] = ()
    n_parameters: int | None = None
    fault: str = ""  # the reason why it cannot be loaded, if configuration or headers of weights show one
    needs_permission: bool = False
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes of its weights."""
        return sum(self.sizes.get(name, 0) for name in self.weights)

    @property
    def n_other_bytes(self) -> int:
        """Bytes of the other files that are fetched: configuration, tokenizer, templates."""
        return sum(size for name, size in self.sizes.items() if name not in self.weights)

    @property
    def content_hash(self) -> str:
        """The hash of all that is evaluated: weights, configuration, tokenizer, template.

        It is the same for a copy under another name. Weights alone do not identify a model: a copy with a broken
        configuration would keep the real one from being submitted.
        """
        weights = sorted(self.digests[name] for name in self.weights)  # their files' names do not count
        return content_hash([weights, {name: self.digests[name] for name in self.digests if name not in self.weights}])


class ModelSource(Protocol):
    """A source of models."""

    def find(self, name: str, revision: str) -> FoundModel:
        """Return the facts about a model.

        Raises: ModelMissing if it is not here; ModelUnavailable if it cannot be read; Retryable if the source cannot be
            reached now.
        """
        ...

    def fetch(self, name: str, revision: str, into: Path) -> Path:
        """Copy the files that `find` lists, at exactly this revision, into a folder; return the model's folder there.

        Raises: as `find`; ModelMissing if a file is not the one that was checked.
        """
        ...


class FolderModels:
    """Models in folders that the host allowed: DIR/model or DIR/organisation/model."""

    def __init__(self, folders: Sequence[Path], most_bytes: int = MOST_BYTES) -> None:
        """Args: folders: absolute ones. most_bytes: of one model's weights; larger ones are not read."""
        self._folders = tuple(folder.resolve() for folder in folders)
        self._most_bytes = most_bytes

    def names(self, most: int = 200) -> list[str]:
        """Return the names of the models in the folders."""
        names = [
            place.parent.relative_to(folder).as_posix()
            for folder in self._folders
            for pattern in ("*/config.json", "*/*/config.json", "*/adapter_config.json")
            for place in sorted(folder.glob(pattern))
        ]
        return list(dict.fromkeys(names))[:most]

    def _place(self, name: str) -> Path:
        for folder in self._folders:
            place = (folder / name).resolve()
            if place.is_relative_to(folder) and place != folder and place.is_dir():
                for path in (*_listed(place), CARD):
                    target = Path(os.path.realpath(place / path))
                    if not any(target.is_relative_to(each) for each in self._folders):
                        raise ModelMissing(
                            f"'{name}' has a link out of the folders of this host, {path}; copy the file"
                        )
                return place
        raise ModelMissing(f"there is no model '{name}' in the folders of this host")

    def find(self, name: str, revision: str) -> FoundModel:
        """Return the facts about a model in a folder."""
        place = self._place(name)
        digests = files.FileDigests()
        held = _weights(place)
        if (n_bytes := sum(path.stat().st_size for path in held)) > self._most_bytes:
            limit = f"this host takes at most {self._most_bytes / 1e9:,.0f} GB"
            raise ModelMissing(f"'{name}' has {n_bytes / 1e9:,.0f} GB of weights; {limit}")
        listed = _listed(place)
        content = {path: digests.of(place / path) for path in listed}
        digests.save()
        digest = content_hash(content)
        if revision not in {"", digest, digest.removeprefix("sha256:")}:
            raise _changed(name, revision)
        card = place / CARD
        text = ""
        if card.is_file():
            with card.open("rb") as file:
                text = file.read(LONGEST_CARD).decode("utf-8", "replace")
        named = _json(place, "tokenizer_config.json").get("chat_template")
        has_template = bool(named) or bool(files.matching(place, files.TEMPLATE))
        return FoundModel(
            name=name,
            revision=digest,
            source="folder",
            sizes={path: (place / path).stat().st_size for path in listed},
            digests=content,
            weights=tuple(path.name for path in held),
            config=_json(place, "config.json"),
            adapter=_json(place, "adapter_config.json"),
            has_template=has_template,
            card=text,
            licence=_licence(text),
            tags=(),
            n_parameters=_n_parameters(held),
            fault=_fault(place, held),
        )

    def fetch(self, name: str, revision: str, into: Path) -> Path:
        """Copy the model; the copy is hashed, so that a folder that changes meanwhile is refused."""
        place, copy = self._place(name), into / name
        shutil.rmtree(copy, ignore_errors=True)  # of an earlier attempt
        content = {}
        for path in _listed(place):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            content[path] = _copied(place / path, copy / path)
        if content_hash(content) not in {revision, f"sha256:{revision}"}:
            shutil.rmtree(copy, ignore_errors=True)
            raise _changed(name, revision)
        return copy


def _json(place: Path, name: str) -> dict[str, JsonValue]:
    """Return the content of a file of a model. Raises: ModelMissing, without the path of the host's folder."""
    try:
        return dict(files.read_json(place / name))
    except AssaymarkError as error:
        raise ModelMissing(str(error).replace(f"{place}/", "")) from None


def _weights(place: Path) -> list[Path]:
    return [path for path in files.weight_files(place) if path.suffix in {".safetensors", ".bin"}]


def _listed(place: Path) -> list[str]:
    """Return the files of a folder that make up a model, by their names relative to it."""
    rest = files.matching(place, (*files.CONFIGURATION, *files.TOKENIZER, *files.TEMPLATE, "*.index.json"))
    return [path.relative_to(place).as_posix() for path in (*_weights(place), *rest)]


def _copied(source: Path, target: Path) -> str:
    """Copy a file; return the SHA-256 of the copy, in hexadecimal."""
    digest = hashlib.sha256()
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            while piece := reading.read(PIECE):
                digest.update(piece)
                writing.write(piece)
    except FileNotFoundError as error:
        raise ModelMissing(f"{source.name} was removed while it was fetched; submit the model again") from error
    return digest.hexdigest()


def _changed(name: str, revision: str) -> ModelMissing:
    return ModelMissing(f"'{name}' in the folder of this host is not at revision {revision}: it was changed")


def _n_parameters(weights: Sequence[Path]) -> int | None:
    counted = 0
    for path in weights:
        if path.suffix != ".safetensors":
            continue
        try:
            shapes = [entry.get("shape", ()) for entry in files.safetensors_header(path).values()]
        except AssaymarkError:
            return None
        counted += sum(prod(int(extent) for extent in shape) for shape in shapes)
    return counted or None


def _fault(place: Path, weights: Sequence[Path]) -> str:
    """Return why a model cannot be loaded, without the path of the host's folder; empty if no fault shows."""
    try:
        for path in weights:
            if path.suffix == ".safetensors":
                files.safetensors_header(path)
        check_index(place, weights)
        check_config(place, weights)
    except AssaymarkError as error:
        return str(error).replace(f"{place}/", "")
    return ""


def _licence(card: str) -> str | None:
    """Return the licence that a model card states as a text; None where it states none, or cannot be read."""
    try:
        content = load_yaml(front_matter(card))
    except DataError:
        return None
    stated = content.get("license") if isinstance(content, Mapping) else None
    return stated if isinstance(stated, str) and stated else None
