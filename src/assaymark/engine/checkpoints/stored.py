"""Open the files in which trainers store weights: names, shapes and dtypes at once, contents only when they are read.

A file of `torch.save` is mapped into memory, safetensors are read tensor by tensor, and a folder of torch's distributed
checkpoint (what FSDP writes) is read tensor by tensor across its shards. Nothing is unpickled but tensors and plain
containers: `torch.load` runs with `weights_only=True`, and the index of a distributed checkpoint, which is a pickle as
well, may only name the classes such an index consists of.
"""

import io
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import signature
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from assaymark.errors import ModelUnavailable

# In a training of several processes each reads for itself; a torch before 2.7 does not offer that.
_ALONE = {"no_dist": True} if "no_dist" in signature(load).parameters else {}
INDEX = ".metadata"  # the file that makes a folder a distributed checkpoint
# Wrappers around modules leave their own names in a checkpoint.
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.")
# What the index of a distributed checkpoint is made of; anything else in that pickle is refused.
INDEX_MODULES = ("torch.distributed.checkpoint.", "torch.distributed._shard.")
INDEX_NAMES = {
    ("torch", "Size"), ("torch", "device"), ("torch.serialization", "_get_layout"), ("collections", "OrderedDict"),
    ("builtins", "set"), ("builtins", "frozenset"), ("pathlib", "PosixPath"), ("pathlib._local", "PosixPath"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file. `read` returns its content; file: where it is, for messages."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    file: str
    read: Callable[[], torch.Tensor]


def open_tensors(paths: Sequence[str]) -> Mapping[str, tuple[StoredTensor, ...]]:
    """Return each name's tensor; several where several files contain parts of it (Meta's tensor-parallel files).

    Nested dictionaries (`{"model": ..., "optimizer": ...}`) are given as dotted names, without the names of wrappers.

    Raises: ModelUnavailable if a file is damaged, contains other objects than tensors, or none at all.
    """
    tensors: dict[str, tuple[StoredTensor, ...]] = {}
    for path in paths:
        for name, tensor in _tensors_of(Path(path)):
            clean = name
            for wrapper in WRAPPERS:
                clean = clean.replace(wrapper, "")
            tensors[clean] = (*tensors.get(clean, ()), tensor)
    if not tensors:
        raise ModelUnavailable(f"{_shown(paths)} contains no tensors; expected a state dict")
    return tensors


def _shown(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} (and {len(paths) - 1} more files)"


def _tensors_of(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    if path.is_dir():
        return _of_distributed(path)
    if path.suffix == ".safetensors":
        return _of_safetensors(path)
    return _of_pickle(path)


def _of_pickle(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of a file of `torch.save`, mapped into memory unless it has torch's format before 1.6."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        first = str(error).strip().splitlines()[0]
        refused = next((line for line in str(error).splitlines() if "GLOBAL" in line), first).strip()
        raise ModelUnavailable(
            f"{path} contains more than tensors, and unpickling it would run code: {refused:.160}; save the state dict "
            "alone: torch.save(model.state_dict(), FILE)"
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"{path} is not a readable file of torch.save: {first:.160}; copy it again from where it was written"
        ) from error
    for name, tensor in _flattened(content):
        yield name, StoredTensor(tuple(tensor.shape), tensor.dtype, str(path), tensor.detach)


def _flattened(content: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(content, torch.Tensor):
        yield prefix.removesuffix("."), content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flattened(value, f"{prefix}{name}.")


def _of_safetensors(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    from safetensors import SafetensorError, safe_open

    def reader(name: str) -> Callable[[], torch.Tensor]:
        def read() -> torch.Tensor:
            with safe_open(str(path), framework="pt") as file:
                tensor: torch.Tensor = file.get_tensor(name)
            return tensor

        return read

    try:
        with safe_open(str(path), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                part = file.get_slice(name)
                empty = part[:0] if part.get_shape() else file.get_tensor(name)
                yield name, StoredTensor(tuple(part.get_shape()), empty.dtype, str(path), reader(name))
    except (SafetensorError, OSError) as error:
        raise ModelUnavailable(f"{path} is not a readable safetensors file: {error}; copy it again") from error


def _member_of_enum(kind: object, name: str) -> Enum:
    member = kind.__members__.get(name) if isinstance(kind, type) and issubclass(kind, Enum) else None
    if member is not None:
        return member
    raise pickle.UnpicklingError(f"it reads an attribute of {kind!r:.80}")


class _IndexUnpickler(pickle.Unpickler):
    """Unpickles the index of a distributed checkpoint, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> object:
        """Return a class that such an index may contain."""
        if (module, name) == ("builtins", "getattr"):  # by which Python before 3.11.4 writes members of an Enum
            return _member_of_enum
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or (module, name) in INDEX_NAMES:
            return super().find_class(module, name)
        kind = super().find_class(module, name) if module.startswith(INDEX_MODULES) and "." not in name else None
        if isinstance(kind, type):
            return kind
        raise pickle.UnpicklingError(f"it names {module}.{name}")


class _CheckpointReader(FileSystemReader):
    """torch's reader of a distributed checkpoint, whose index has been read already."""

    def __init__(self, path: Path, index: Metadata) -> None:
        super().__init__(path)
        self._index = index

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """Return the index."""
        del args, kwargs
        return self._index


def _of_distributed(folder: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of a distributed checkpoint; each is put together from its shards when it is read."""
    try:
        index = _IndexUnpickler(io.BytesIO((folder / INDEX).read_bytes())).load()
        described = dict(index.state_dict_metadata)
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, TypeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"{folder / INDEX} is not the index of a distributed checkpoint of torch: {first:.160}; expected the "
            "folder that torch.distributed.checkpoint.save has written"
        ) from error
    for name, each in described.items():
        if isinstance(each, TensorStorageMetadata):
            tensor = _sharded(folder, index, name, each)
            yield name, tensor


def _sharded(folder: Path, index: Metadata, name: str, described: TensorStorageMetadata) -> StoredTensor:
    dtype = described.properties.dtype

    def read() -> torch.Tensor:
        wanted: dict[str, torch.Tensor] = {name: torch.empty(described.size, dtype=dtype)}
        try:
            load(wanted, storage_reader=_CheckpointReader(folder, index), **_ALONE)
        except (CheckpointException, Exception) as error:  # torch's is not an Exception
            cause = next(iter(error.failures.values()))[0] if isinstance(error, CheckpointException) else error
            first = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
            raise ModelUnavailable(
                f"{folder}: {name} cannot be read from its shards: {first:.160}; copy every *.distcp file again"
            ) from error
        tensor: torch.Tensor = wanted[name]
        return tensor

    return StoredTensor(tuple(described.size), dtype, str(folder), read)
