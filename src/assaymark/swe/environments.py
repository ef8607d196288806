"""The environments in which instances' tests run: an interpreter with its packages, prepared beforehand, and options.

A file of environments names them by instance id, `owner/name@version`, `owner/name` or `default`; the first of these
that it has counts.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from assaymark.errors import DataError, PlanError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.swe.instances import Instance, text_sha

__all__ = ["PLUGIN", "Environment", "Environments", "Interpreter", "interpreter_of"]

PLUGIN = Path(__file__).with_name("verdict_plugin.py")
GRADER = 1  # with the plugin's text it counts into what a grading is stored under: another number grades all again
_PROBE = """
import json, os, sys
try:
    from importlib.metadata import distributions
    found = sorted({"%s==%s" % (each.metadata["Name"], each.version) for each in distributions()})
except ImportError:
    import pkg_resources
    found = sorted(str(each) for each in pkg_resources.working_set)
print(json.dumps([sys.version, sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), found]))
"""
_NOT_PYTEST = frozenset({"django/django", "sympy/sympy"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER = re.compile(r"(/[\w.-]+)+")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What an interpreter says of itself."""

    version: str
    prefix: Path
    base_prefix: Path
    executable: Path
    packages: tuple[str, ...]  # name==version

    @property
    def folders(self) -> tuple[Path, ...]:
        """What a sandbox must show for it to run."""
        return self.prefix, self.base_prefix


@dataclass(frozen=True, slots=True)
class Environment:
    """Where and how tests run.

    Attributes:
        python: the interpreter; pytest must be among its packages.
        folder: path at which the repository lies in the sandbox; that of an editable installation.
        pythonpath: folders of the repository that can be imported from, relative to it.
        test_arguments: further arguments of pytest.
        variables: further variables of the tests' process.
    """

    python: str = sys.executable
    folder: str = "/testbed"
    pythonpath: tuple[str, ...] = (".", "src")
    test_arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha(self) -> str:
        """SHA-256, in hex, of the interpreter, its packages, and the options.

        Raises: PlanError where the interpreter does not run.
        """
        content = asdict(self) | {"variables": sorted(self.variables.items())}
        del content["python"]
        known = interpreter_of(self.python)
        return text_sha(
            json.dumps(
                [GRADER, text_sha(PLUGIN.read_text(encoding="utf-8")), known.version, known.packages, content],
                sort_keys=True,
            )
        )


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of a set of instances."""

    by_name: Mapping[str, Environment]

    @classmethod
    def read(cls, path: Path | None, python: str | None = None) -> "Environments":
        """Return those of a YAML file, or the one of an interpreter (default: this one).

        Raises: DataError for a file that cannot be read or has something unknown.
        """
        if path is None:
            return cls({"default": Environment(python or sys.executable)})
        try:
            content = load_yaml(path.read_bytes())
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        if not isinstance(content, dict):
            raise DataError(f"{path} is {content!r:.60}; expected names with their environments")
        made = {str(name): _environment(value, f"{path}, {name}") for name, value in content.items()}
        return cls(made if python is None else {"default": Environment(python)} | made)

    def of(self, instance: Instance) -> Environment:
        """Return the environment of an instance.

        Raises: PlanError where there is none, or its tests are not pytest's.
        """
        if instance.repo in _NOT_PYTEST:
            raise PlanError(f"the tests of {instance.repo} are not run by pytest, which alone is supported")
        names = (instance.instance_id, f"{instance.repo}@{instance.version}", instance.repo, "default")
        chosen = next((self.by_name[name] for name in names if name in self.by_name), None)
        if chosen is None:
            raise PlanError(f"no environment for {instance.instance_id}; expected one of the names {', '.join(names)}")
        return chosen


@cache
def interpreter_of(python: str) -> Interpreter:
    """Return what an interpreter says of itself.

    Raises: PlanError where it cannot be run, or has no pytest.
    """
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True)
        version, prefix, base, executable, packages = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise PlanError(
            f"the interpreter {python} does not run: {lines[-1] if lines else error}; name one with --python"
        ) from error
    if not any(each.lower().startswith("pytest==") for each in packages):
        raise PlanError(f"{python} has no pytest; install it there, or name another interpreter with --python")
    return Interpreter(version, Path(prefix), Path(base), Path(executable), tuple(packages))


def _environment(value: Any, place: str) -> Environment:
    if not isinstance(value, dict):
        raise DataError(f"{place} is {value!r:.60}; expected python, folder, pythonpath, test_arguments, variables")
    known = {"python", "folder", "pythonpath", "test_arguments", "variables"}
    if unknown := sorted(set(map(str, value)) - known):
        raise DataError(f"{place} has '{unknown[0]}'; expected {', '.join(sorted(known))}")
    options: dict[str, Any] = {}
    for name in ("pythonpath", "test_arguments"):
        if name in value:
            options[name] = tuple(_texts(value[name], f"{place}, {name}"))
    for folder in options.get("pythonpath", ()):
        if Path(folder).is_absolute() or ".." in Path(folder).parts:
            raise DataError(f"{place}, pythonpath has '{folder}'; expected folders of the repository, such as src")
    for name in ("python", "folder"):
        if name in value:
            (options[name],) = _texts([value[name]], f"{place}, {name}")
    if "folder" in options and not _FOLDER.fullmatch(options["folder"]):
        raise DataError(f"{place}, folder is '{options['folder']}'; expected an absolute path, such as /testbed")
    if "variables" in value:
        pairs = value["variables"]
        if not isinstance(pairs, dict) or not all(_VARIABLE.fullmatch(str(name)) for name in pairs):
            raise DataError(f"{place}, variables is {pairs!r:.60}; expected names with their values")
        options["variables"] = dict(zip(map(str, pairs), _texts(list(pairs.values()), place), strict=True))
    return Environment(**options)


def _texts(values: Any, place: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) and "\0" not in each for each in values):
        raise DataError(f"{place} is {values!r:.60}; expected texts (quote numbers)")
    return values
