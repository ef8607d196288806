"""The environments in which instances' tests run: an interpreter with its packages, prepared beforehand, and options.

A file of environments names them by instance id, `owner/name@version`, `owner/name` or `default`; the first of these
that it has counts. The files that an installation generated in the repository are of the prepared environment, or of an
image.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import cast

from assaymark.drafts import draft_folder
from assaymark.errors import DataError, PlanError
from assaymark.limits.nesting import parse_json
from assaymark.limits.yaml_documents import load_yaml
from assaymark.platforms import alone
from assaymark.settings import home_folder
from assaymark.swe.containers import ENGINES, find_engine, image_name, image_sha
from assaymark.swe.instances import Instance, text_sha
from assaymark.swe.runners import RUNNERS
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

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
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PYTHON_OF_IMAGES = "/opt/miniconda3/envs/testbed/bin/python"  # of SWE-bench's
PROBE_LIMITS = SweLimits(seconds=120, memory_bytes=1 << 30, n_processes=64)
_KEYS = ("folder", "generated", "image", "python", "pythonpath", "test_arguments", "variables")
_FOLDER = re.compile(r"(/[\w.-]+)+")
_IMAGE = re.compile(r"/?\w[\w./:@-]*")
_COPYING = SweLimits(seconds=300, memory_bytes=1 << 30, n_processes=64)
LEFT_OUT = frozenset({"build", ".eggs", "__pycache__", ".pytest_cache"})
MOST_FILES = 2_000
_OUT = "/assaymark-out"
_COPY = 'test -d "$1/.git" || exit 0; cd "$1" && git ls-files -oz | xargs -0 -r cp -P --parents -t "$2"'


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Facts that an interpreter reports about itself."""

    version: str
    prefix: Path
    base_prefix: Path
    executable: Path
    packages: tuple[str, ...]  # name==version

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that a sandbox must show for the interpreter to run."""
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
        generated: folder with files that the repository's installation made in it, which each copy has too,
            read-only; empty: none.
        image: of a container in which the tests run, or a folder with a root file system; `python` is then a path
            in it. Empty: bubblewrap.
        where: which engine runs the container: docker, podman, or auto.
        runner: pytest, or the repository whose own runner runs the tests; the instance decides it.
    """

    python: str = sys.executable
    folder: str = "/testbed"
    pythonpath: tuple[str, ...] = (".", "src")
    test_arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    generated: str = ""
    image: str = ""
    where: str = "auto"
    runner: str = "pytest"

    @property
    def sha(self) -> str:
        """SHA-256, in hex, of the interpreter, its packages, the image, and the options.

        Raises: PlanError where the interpreter or the image does not run.
        """
        content = asdict(self) | {"variables": sorted(self.variables.items())}
        if self.runner == "pytest":
            del content["runner"]
        for name in ("python", "generated", "image", "where"):
            del content[name]
        if self.generated:
            content["generated"] = _generated_sha(self.generated)
        if self.image:
            content["image"] = image_sha(find_engine(self.where, self.image), self.image)
        needs = "pytest" if self.runner == "pytest" else ""
        known = (
            interpreter_in(self.image, self.where, self.python, needs)
            if self.image
            else interpreter_of(self.python, needs)
        )
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
    where: str = "auto"

    @classmethod
    def read(cls, path: Path | None, python: str | None = None, where: str = "auto") -> "Environments":
        """Return those of a YAML file, or the one of an interpreter (default: this one).

        Args:
            path: of the file; None: none.
            python: the interpreter of instances that the file does not name.
            where: bwrap, docker, podman, or auto: a container where the file names an image, else bubblewrap. With
                docker and podman, instances that the file does not name have SWE-bench's images.

        Raises: DataError for a file that cannot be read or has something unknown.
        """
        if path is None:
            is_container = where in ENGINES and python is None
            return cls({} if is_container else {"default": Environment(python or sys.executable)}, where)
        try:
            content = load_yaml(path.read_bytes())
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        if not isinstance(content, dict):
            what = "is empty" if content is None else f"is {content!r:.60}"
            raise DataError(f"{path} {what}; expected names with their environments")
        made = {str(name): _environment(value, f"{path}, {name}") for name, value in content.items()}
        return cls(made if python is None else {"default": Environment(python)} | made, where)

    def of(self, instance: Instance) -> Environment:
        """Return the environment of an instance.

        Raises: PlanError where there is none.
        """
        names = (instance.instance_id, f"{instance.repo}@{instance.version}", instance.repo, "default")
        chosen = next((self.by_name[name] for name in names if name in self.by_name), None)
        if chosen is None and self.where in ENGINES:
            chosen = Environment(PYTHON_OF_IMAGES, pythonpath=(), image=image_name(instance.instance_id))
        if chosen is None:
            raise PlanError(f"no environment for {instance.instance_id}; expected one of the names {', '.join(names)}")
        if chosen.image and self.where == "bwrap":
            raise PlanError(f"the environment of {instance.instance_id} is an image, and --where is bwrap")
        if not chosen.image and self.where in ENGINES:
            raise PlanError(f"the environment of {instance.instance_id} has no image, and --where is {self.where}")
        if instance.repo in RUNNERS:
            chosen = replace(chosen, runner=instance.repo)
        return replace(chosen, where=self.where) if chosen.image else chosen


@cache
def _generated_sha(folder: str) -> str:
    """Return the SHA-256, in hex, of a folder's files."""
    root = Path(folder)
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return text_sha(json.dumps([[str(path.relative_to(root)), path.read_bytes().hex()] for path in files]))


@cache
def interpreter_of(python: str, needs: str = "pytest") -> Interpreter:
    """Return an interpreter's facts, which it prints itself.

    python: a program. needs: a package that it must have; empty: none.

    Raises: PlanError where it cannot be run, or lacks the package.
    """
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True)
        version, prefix, base, executable, packages = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise PlanError(
            f"the interpreter {python} does not run: {lines[-1] if lines else error}; name one with --python"
        ) from error
    return _checked(Interpreter(version, Path(prefix), Path(base), Path(executable), tuple(packages)), python, needs)


@cache
def interpreter_in(image: str, engine: str, python: str, needs: str = "pytest") -> Interpreter:
    """Return the facts of an image's interpreter, as `interpreter_of`."""
    with draft_folder() as folder:
        ended = run_sandboxed(
            [python, "-c", _PROBE], Workplace(folder, "/assaymark-empty", image=image, engine=engine), PROBE_LIMITS
        )
    lines = ended.output.strip().splitlines() or [f"status {ended.status}"]
    try:
        version, prefix, base, executable, packages = cast(
            "tuple[str, str, str, str, list[str]]", parse_json(lines[-1])
        )
        known = Interpreter(
            str(version), Path(str(prefix)), Path(str(base)), Path(str(executable)), tuple(map(str, packages))
        )
    except (ValueError, TypeError) as error:  # it printed what went wrong in place of that
        raise PlanError(f"{python} of the image {image} does not run: {ended.limit or lines[-1][:200]}") from error
    return _checked(known, f"{python} of {image}", needs)


def _checked(known: Interpreter, python: str, needs: str) -> Interpreter:
    if needs and not any(each.lower().startswith(f"{needs}==") for each in known.packages):
        raise PlanError(f"{python} has no {needs}; install it there, or name another interpreter with --python")
    return known


def _environment(value: object, place: str) -> Environment:
    if not isinstance(value, dict):
        raise DataError(f"{place} is {value!r:.60}; expected {', '.join(_KEYS)}")
    if unknown := sorted(set(map(str, value)) - set(_KEYS)):
        raise DataError(f"{place} has '{unknown[0]}'; expected {', '.join(_KEYS)}")
    default = Environment()
    pythonpath, arguments = (
        tuple(_texts(value[name], f"{place}, {name}")) if name in value else unset
        for name, unset in (("pythonpath", default.pythonpath), ("test_arguments", default.test_arguments))
    )
    for folder in pythonpath:
        if Path(folder).is_absolute() or ".." in Path(folder).parts:
            raise DataError(f"{place}, pythonpath has '{folder}'; expected folders of the repository, such as src")
    texts = {
        name: _texts([value[name]], f"{place}, {name}")[0]
        for name in ("python", "folder", "generated", "image")
        if name in value
    }
    if texts.get("generated") and not Path(texts["generated"]).is_dir():
        raise DataError(f"{place}, generated is '{texts['generated']}'; expected a folder, as `swe prepare` makes it")
    if "folder" in texts and not _FOLDER.fullmatch(texts["folder"]):
        raise DataError(f"{place}, folder is '{texts['folder']}'; expected an absolute path, such as /testbed")
    if not _IMAGE.fullmatch(texts.get("image", "x")):
        raise DataError(f"{place}, image is '{texts['image']:.80}'; expected an image's name, or an absolute path")
    variables = default.variables
    if "variables" in value:
        pairs = value["variables"]
        if not isinstance(pairs, dict) or not all(_VARIABLE.fullmatch(str(name)) for name in pairs):
            raise DataError(f"{place}, variables is {pairs!r:.60}; expected names with their values")
        variables = dict(zip(map(str, pairs), _texts(list(pairs.values()), place), strict=True))
    return Environment(
        python=texts.get("python", PYTHON_OF_IMAGES if texts.get("image") else default.python),
        folder=texts.get("folder", default.folder),
        pythonpath=pythonpath,
        test_arguments=arguments,
        variables=variables,
        generated=texts.get("generated", default.generated),
        image=texts.get("image", default.image),
    )


def _texts(values: object, place: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) and "\0" not in each for each in values):
        raise DataError(f"{place} is {values!r:.60}; expected texts (quote numbers)")
    return values


def generated_in(environment: Environment) -> str:
    """Return the folder of an environment's generated files; empty: none.

    Those of an image are copied out of it once: all files in its repository that are not of its commit.

    Raises: PlanError where they cannot be copied, or are too many.
    """
    if not environment.image or environment.generated:
        return environment.generated
    key = text_sha(
        f"{image_sha(find_engine(environment.where, environment.image), environment.image)} {environment.folder}"
    )
    kept = home_folder() / "swe" / "images" / key[:32]
    with alone(f"image {key}"):
        if not kept.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with draft_folder(kept.parent) as folder:
                (folder / "out").mkdir()
                _copy_out(environment, folder / "out")
                (folder / "out").rename(kept)
    return str(kept)


def _copy_out(environment: Environment, target: Path) -> None:
    ended = run_sandboxed(
        ["/bin/sh", "-c", _COPY, "sh", environment.folder, _OUT],
        Workplace(target, _OUT, image=environment.image, engine=environment.where),
        _COPYING,
    )
    if ended.status or ended.limit:
        lines = ended.output.strip().splitlines() or [f"status {ended.status}"]
        raise PlanError(f"{environment.image} does not show its repository: {ended.limit or lines[-1][:200]}")
    for path in list(target.rglob("*")):
        if path.name in LEFT_OUT and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
    if (n_files := sum(1 for path in target.rglob("*") if not path.is_dir())) > MOST_FILES:
        raise PlanError(f"{environment.image} has {n_files:,} files beside its commit; expected at most {MOST_FILES:,}")
