"""The library of prompt presets and system prompts, found by name or by file."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from assaymark.errors import DataError, UnknownName
from assaymark.limits.yaml_documents import load_yaml
from assaymark.prompts.presets import PromptPreset
from assaymark.registry import nearest
from assaymark.tasks.catalog import LIBRARY

NONE = "none"  # no preset: plain text, or the model's own template
_ROLES = ("system", "user", "assistant")
_KEYS = {*_ROLES, "name", "opening", "system_in_user", "default_system", "trim", "stop", "source"}


def preset_names() -> list[str]:
    """Return the names of all presets of the library, `none` first."""
    return [NONE, *sorted(path.stem for path in (LIBRARY / "prompt_presets").glob("*.yaml"))]


def find_preset(name: str | PromptPreset) -> PromptPreset | None:
    """Return a preset given by its name, its YAML file or itself; None for `none`.

    Raises: UnknownName with the nearest names; DataError for a file that is not a preset.
    """
    if isinstance(name, PromptPreset):
        return name
    if name == NONE:
        return None
    if name.endswith((".yaml", ".yml")):
        return preset_from(_mapping(Path(name).expanduser()), name)
    path = LIBRARY / "prompt_presets" / f"{name}.yaml"
    if name not in preset_names():
        known = preset_names()
        raise UnknownName("prompt preset", name, nearest(name, known), f"known: {', '.join(known)}, or a YAML file")
    return _of_library(path)


@cache
def _of_library(path: Path) -> PromptPreset:
    return preset_from(_mapping(path), str(path))


def preset_from(spec: Mapping[str, object], where: str) -> PromptPreset:
    """Return the preset that the content of a YAML file, or a stored run, describes.

    Raises: DataError naming `where`, the key and what was expected.
    """
    for key in spec:
        if key not in _KEYS:
            raise DataError(f"{where}: unknown key '{key}'; nearest: {', '.join(nearest(str(key), _KEYS)) or 'none'}")
    for key in ("name", "user", "assistant", "opening"):
        if key not in spec:
            raise DataError(f"{where}: '{key}' is missing; a preset needs name, user, assistant and opening")
    if "system" not in spec and "system_in_user" not in spec:
        raise DataError(f"{where}: neither system nor system_in_user; expected [before, after] of a system text")
    stop = spec.get("stop") or ()
    if not isinstance(stop, list | tuple):
        raise DataError(f"{where}: stop is {stop!r:.80}; expected a list of texts")
    return PromptPreset(
        name=str(spec["name"]),
        around={role: _pair(spec, role, where) for role in _ROLES if role in spec},
        opening=str(spec["opening"]),
        system_in_user=_pair(spec, "system_in_user", where) if "system_in_user" in spec else None,
        default_system=None if spec.get("default_system") is None else str(spec["default_system"]),
        trim=bool(spec.get("trim", False)),
        stop=tuple(map(str, stop)),
        source=str(spec.get("source", "")),
    )


def _pair(spec: Mapping[str, object], key: str, where: str) -> tuple[str, str]:
    value = spec[key]
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)):
        raise DataError(f"{where}: {key} is {value!r:.80}; expected two texts: what comes before and after")
    return value[0], value[1]


def _mapping(path: Path) -> Mapping[str, object]:
    try:
        content = load_yaml(path.read_bytes())
    except (OSError, DataError) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, Mapping):
        raise DataError(f"{path} contains {type(content).__name__}; expected keys and values")
    return content


@cache
def system_prompts() -> Mapping[str, str]:
    """Return the library's system prompts by name."""
    items = _mapping(LIBRARY / "system_prompts.yaml").items()
    return {name: str(item["text"]) for name, item in items if isinstance(item, Mapping)}


def find_system_prompt(name: str) -> str:
    """Return a system prompt's text by its name, or a text file's content without its final line end.

    Raises: UnknownName with the nearest names; DataError for a file that cannot be read or is empty.
    """
    known = system_prompts()
    if name not in known and ("/" in name or Path(name).suffix):
        return _text_of(Path(name).expanduser())
    if name not in known:
        remedy = f"known: {', '.join(known)}, or a text file; for a text of your own use --system_instruction"
        raise UnknownName("system prompt", name, nearest(name, known), remedy)
    return known[name]


def _text_of(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"system prompt {path} cannot be read: {' '.join(str(error).split())}") from error
    if not text.strip():
        raise DataError(f"system prompt {path} is empty")
    return text
