"""The sandbox of an evaluation: no network, no home, none of the host's variables, no rights, and few of its files.

Only the system's programs, this Python with its packages, the model, the data and the board's task files are there,
read-only; one folder of the job can be written. Without bubblewrap the evaluation runs as a plain process, still
without the host's variables.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from assaymark.limits.bubblewrap import LIBRARIES, SYSTEM, OpenedPaths, WorkingBubblewrap
from assaymark.limits.resources import Resources

_OPENCL = ("OpenCL",)
_SSL = ("ssl/certs", "ssl/openssl.cnf", "ca-certificates")  # of /etc/ssl no more: it holds private keys
_DEVICES = ("nvidia*", "dri", "kfd")


def job_command(
    sandbox: WorkingBubblewrap,
    command: Sequence[str],
    folder: Path,
    readable: Sequence[Path],
    environment: Mapping[str, str],
    limits: Resources,
) -> list[str]:
    """Return a command that runs a job's in the sandbox.

    Args:
        sandbox: in which it runs.
        command: what to run.
        folder: may be written; its folder `cwd` is the working directory.
        readable: files and folders that may be read, beside Python and the system.
        environment: all its variables.
        limits: of what is written into memory.
    """
    mounts = ["--ro-bind-try", "/sys", "/sys"]
    for pattern in _DEVICES:
        for device in sorted(Path("/dev").glob(pattern)):
            mounts += ["--dev-bind-try", str(device), str(device)]
    for path in _without_nested([*_python(), *_libraries(environment), *readable]):
        mounts += ["--ro-bind-try", str(path), str(path)]
    mounts += ["--bind", str(folder), str(folder)]
    opened = OpenedPaths(mounts, (*LIBRARIES, *_OPENCL, *_SSL), scratch_bytes=limits.scratch_size)
    return sandbox.command(command, opened, environment, str(folder / "cwd"))


def package_folders() -> list[str]:
    """Return this process's folders of installed packages; its working directory is none of them."""
    return [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"} and Path(each).is_dir()]


def _python() -> list[Path]:
    """Return the folders of this Python, its packages and this package."""
    import assaymark

    package = Path(assaymark.__file__).resolve().parent
    return [*map(Path, (sys.prefix, sys.base_prefix, *package_folders())), package]


def _libraries(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of libraries below /opt that the host's own variables name; nothing else of it is shown."""
    named = [*environment.get("LD_LIBRARY_PATH", "").split(":"), environment.get("CUDA_HOME", "")]
    places = [Path(each) for each in named if each]
    return [place for place in places if place.is_relative_to("/opt") and place.is_dir() and place != Path("/opt")]


def _without_nested(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are neither inside another one nor in a folder of the system, outermost first."""
    kept: list[Path] = []
    covered = [Path("/", name) for name in SYSTEM]
    for path in sorted({each.absolute() for each in paths}, key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(other) for other in [*covered, *kept]):
            kept.append(path)
    return kept
