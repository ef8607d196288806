"""Environments made beforehand: for each instance a venv of its pins, with its repository installed as editable.

Packages come from pip's index, and their installation code runs as pip runs it. The repository's own installation runs
in the sandbox, without network, with the repository at the path at which it is tested. What it generates there, such
as a file with the version, is kept beside the venv and shown in each copy.

The pins are those of SWE-bench's environments: a folder has `OWNER__NAME/NUMBER/environment.yml`, as
`swebench/resources/swebench-og` of SWE-bench's source does. A single file, conda's `environment.yml` or pip's
requirements, holds for all instances.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.drafts import draft_folder, write_whole
from assaymark.errors import DataError, PlanError, write_errors
from assaymark.limits.yaml_documents import load_yaml
from assaymark.platforms import alone
from assaymark.settings import home_folder
from assaymark.stopping import raise_if_requested
from assaymark.swe.base_copies import Repositories, git, make_base_copy
from assaymark.swe.environments import LEFT_OUT, MOST_FILES, Environment, interpreter_of
from assaymark.swe.instances import Instance, text_sha
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

_CONDA = re.compile(r"([A-Za-z0-9_.-]+)=([A-Za-z0-9_.+!-]+)(?:=(\S+))?")
_OF_PYTHON = re.compile(r"py(?:\d|hd)")  # conda's builds of Python packages, which pip installs by the same name
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,. -]+\])?\s*(?:(?:[=<>!~]=|[<>]).*|;.*)?")
_PYTHON = re.compile(r"[23](?:\.\d{1,2}){1,2}")
_FIRST = ("pip", "setuptools", "wheel")
LARGEST_FILE = 1 << 20  # bytes
FOLDER = "/testbed"
RECIPE = 1  # counts into an environment's folder: another number prepares all again
PIP_SECONDS = 1800.0
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_VARIABLES = {"PYTHONDONTWRITEBYTECODE": ""}  # as in a container: what is written is removed with the copy


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """The environment of an instance. problem: the reason if there is none. is_new: whether it was made now."""

    instance_id: str
    environment: Environment | None
    problem: str = ""
    is_new: bool = False


def prepare_all(
    instances: Sequence[Instance],
    pins: Path,
    repositories: Repositories,
    python: str | None = None,
    notify: Callable[[Prepared], None] = lambda _: None,
) -> list[Prepared]:
    """Prepare the environments of instances; those that are there are not made again.

    Args:
        pins: as for `pins_of`.
        python: the interpreter; None: one of the pins' version, of this machine or pyenv.
        notify: told of each.

    Raises: PlanError without a sandbox.
    """
    done = []
    for instance in instances:
        raise_if_requested()
        try:
            made = prepare(instance, pins_of(pins, instance), repositories, python)
        except DataError as error:
            made = Prepared(instance.instance_id, None, str(error))
        done.append(made)
        notify(made)
    return done


def prepare(instance: Instance, pins: Pins, repositories: Repositories, python: str | None = None) -> Prepared:
    """Make the environment of an instance.

    Raises: DataError where an interpreter or the repository is missing, or an installation fails.
    """
    try:
        source = repositories.folder_of(instance.repo)
    except PlanError as error:
        raise DataError(str(error)) from error
    interpreter = python or interpreter_for(pins)
    key = text_sha(json.dumps([RECIPE, interpreter, pins.tools, pins.packages, instance.repo, instance.base_commit]))
    folder = home_folder() / "swe" / "environments" / f"{instance.instance_id}-{key[:12]}"
    complete = folder / "complete.json"
    with alone(f"prepare {key}"):
        is_new = not complete.is_file()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)  # of a preparation that was ended
            folder.mkdir(parents=True)
            _install(instance, pins, interpreter, source, folder)
            content = {"instance_id": instance.instance_id, "python": interpreter, "pins": pins.packages}
            write_whole(complete, json.dumps(content, indent=1) + "\n")
    environment = Environment(
        str(folder / "venv/bin/python"), FOLDER, (), variables=_VARIABLES, generated=str(folder / "generated")
    )
    return Prepared(instance.instance_id, environment, is_new=is_new)


def write_environments(path: Path, prepared: Sequence[Prepared]) -> None:
    """Write a file of environments, as `--environments` reads it.

    Raises: DataError where it cannot be written.
    """
    rows = {
        each.instance_id: {
            "python": each.environment.python,
            "folder": each.environment.folder,
            "pythonpath": list(each.environment.pythonpath),
            "variables": dict(each.environment.variables),
            "generated": each.environment.generated,
        }
        for each in prepared
        if each.environment is not None
    }
    lines = [f"{json.dumps(name)}: {json.dumps(row)}\n" for name, row in rows.items()]  # JSON is YAML
    with write_errors(path, "name another file", kind=DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(lines))


def interpreter_for(pins: Pins) -> str:
    """Return an interpreter of the pins' major and minor version: from PATH, else pyenv's, else without pins this one.

    Raises: DataError where there is none that runs.
    """
    if not pins.python:
        return sys.executable
    wanted = python_named(pins.python)
    if (program := shutil.which(f"python{wanted}")) is not None and _runs(program):
        return program
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for path in sorted(root.glob(f"{wanted}.*/bin/python")):
        if _runs(str(path)):
            return str(path)
    raise DataError(f"no Python {wanted} here; install it (pyenv install {wanted}), or name one with --python")


def _runs(program: str) -> bool:
    """Return whether a program runs: pyenv puts stand-ins on PATH for versions that are not chosen."""
    return subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0


def _install(instance: Instance, pins: Pins, interpreter: str, source: Path, folder: Path) -> None:
    venv = folder / "venv"
    _run([interpreter, "-m", "venv", str(venv)], "venv")
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]
    if pins.tools:
        _run([*pip, *pins.tools], "pip")
    if pins.packages:
        _run([*pip, "--no-deps", *pins.packages], "pip")
    with draft_folder() as place:
        make_base_copy(source, instance.base_commit, place / "work")
        if needed := _needed_to_build(place / "work"):
            (folder / "constraints.txt").write_text("\n".join((*pins.tools, *pins.packages)) + "\n", encoding="utf-8")
            _run([*pip, "-c", str(folder / "constraints.txt"), *needed], "pip")
        _install_repository(instance, venv, place / "work")
        _keep_generated(place / "work", folder / "generated")


def _needed_to_build(copy: Path) -> list[str]:
    """Return the build requirements in a repository's pyproject.toml."""
    path = copy / "pyproject.toml"
    if not path.is_file() or path.is_symlink():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        required = content.get("build-system", {}).get("requires", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError):
        return []
    return [each for each in required if isinstance(each, str) and re.match(r"[A-Za-z0-9]", each) and "://" not in each]


def _install_repository(instance: Instance, venv: Path, copy: Path) -> None:
    python = str(venv / "bin/python")
    # without network there is nothing to install but the repository; older Pythons have no editable wheels
    words = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-build-isolation"]
    is_recent = "import sys; sys.exit(sys.version_info < (3, 7))"
    if subprocess.run([python, "-c", is_recent], capture_output=True, check=False).returncode == 0:
        words += ["--use-pep517", "--config-settings", "editable_mode=compat"]
    version = instance.version if _VERSION.fullmatch(instance.version) else "0"
    variables = {"SETUPTOOLS_SCM_PRETEND_VERSION": version if version.count(".") > 1 else f"{version}.0"}
    base = Path(interpreter_of(python, needs="").base_prefix)
    readable = {} if base.is_relative_to("/usr") else {str(base): base}
    place = Workplace(copy, FOLDER, readable, variables, writable={str(venv): venv})
    ended = run_sandboxed([*words, "-e", FOLDER], place, SweLimits(seconds=PIP_SECONDS))
    if ended.status or ended.limit:
        raise DataError(
            f"{instance.repo} cannot be installed at {instance.base_commit[:12]}: {ended.limit or _last(ended.output)}"
        )


def _keep_generated(copy: Path, target: Path) -> None:
    """Keep the files of a copy that are not of its commit."""
    listed = git(copy, "status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all", "--no-renames")
    target.mkdir()
    n_kept = 0
    for entry in listed.decode("utf-8", "replace").split("\0"):
        name = entry[3:].rstrip("/")
        path = copy / name
        if entry[:2] not in {"??", "!!"} or LEFT_OUT & set(Path(name).parts) or path.is_symlink():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target / name, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        elif path.is_file():
            shutil.copyfile(path, target / name)
        n_kept += 1
    if n_kept > MOST_FILES:
        raise DataError(f"the installation generated {n_kept:,} files; expected at most {MOST_FILES:,}")


def _run(words: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=PIP_SECONDS, check=False,
            stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{what} failed: {error}") from error
    if done.returncode:
        raise DataError(f"{what} failed: {_last(done.stderr or done.stdout)}")


def _last(text: str) -> str:
    """Return the line of pip's output that says most: its last error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["nothing was printed"])[-1][:300]


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
