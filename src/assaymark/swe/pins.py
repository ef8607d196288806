"""Which packages an instance's tests need: the pins of SWE-bench's environments, or of a file of the user's.

A folder has `OWNER__NAME/NUMBER/environment.yml`, as `swebench/resources/swebench-og` of SWE-bench's source does. A
single file, conda's `environment.yml` or pip's requirements, holds for all instances.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from assaymark.errors import DataError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.swe.instances import Instance

_CONDA = re.compile(r"([A-Za-z0-9_.-]+)=([A-Za-z0-9_.+!-]+)(?:=(\S+))?")
_OF_PYTHON = re.compile(r"py(?:\d|hd)")  # conda's builds of Python packages, which pip installs by the same name
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,. -]+\])?\s*(?:(?:[=<>!~]=|[<>]).*|;.*)?")
_PYTHON = re.compile(r"[23](?:\.\d{1,2}){1,2}")
_FIRST = ("pip", "setuptools", "wheel")
LARGEST_FILE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Pins:
    """The interpreter and the packages of an environment.

    Attributes:
        python: version, such as 3.9.20; empty where the file names none.
        tools: requirements of pip itself, setuptools and wheel, which are installed first.
        packages: requirements, in pip's form.
    """

    python: str
    tools: tuple[str, ...]
    packages: tuple[str, ...]


def pins_of(place: Path, instance: Instance) -> Pins:
    """Return the pins of an instance.

    Raises: DataError where there are none, or they cannot be read.
    """
    path = place
    if place.is_dir():
        number = instance.instance_id.rpartition("-")[2]
        path = place / instance.repo.replace("/", "__") / number / "environment.yml"
        if not path.is_file():
            raise DataError(
                f"{place} has no pins of {instance.instance_id}: expected {path.relative_to(place)}, as the folder "
                "swebench/resources/swebench-og of SWE-bench's source has them"
            )
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DataError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; expected pins of packages")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected conda's YAML or pip's requirements") from error
    if path.suffix not in {".yml", ".yaml"}:
        return _of_pip(text.splitlines(), path)
    try:
        content = load_yaml(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return _of_conda(content, path)


def _of_conda(content: object, path: Path) -> Pins:
    entries = content.get("dependencies") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise DataError(f"{path} has no list `dependencies`; expected conda's environment.yml")
    python, lines = "", []
    for entry in entries:
        if isinstance(entry, dict):
            lines += [str(line) for line in entry.get("pip") or ()]
            continue
        parts = _CONDA.fullmatch(str(entry))
        if parts is None:
            continue  # an unpinned library of the system's
        name, version, build = parts.groups()
        if name == "python":
            python = version
        elif build is not None and _OF_PYTHON.match(build):
            lines.append(f"{name}=={version}")
    made = _of_pip(lines, path)
    return Pins(python, made.tools, made.packages)


def _of_pip(lines: list[str], path: Path) -> Pins:
    """Return requirements; options, URLs and paths are refused, since pip would read or contact what they name."""
    kept = []
    for line in lines:
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        if not _REQUIREMENT.fullmatch(text) or any(each in text for each in ("://", " @ ", " -")):
            raise DataError(f"{path} has '{text:.80}'; expected a package with its version, such as click==8.1.3")
        kept.append(text)
    tools = tuple(text for text in kept if re.split(r"[\[=<>!~; ]", text)[0].lower() in _FIRST)
    return Pins("", tools, tuple(text for text in kept if text not in tools))


def python_named(version: str) -> str:
    """Return the version's major and minor number. Raises: DataError for an invalid version."""
    if not _PYTHON.fullmatch(version):
        raise DataError(f"the pins name Python '{version:.40}'; expected a version such as 3.9.20")
    return ".".join(version.split(".")[:2])
