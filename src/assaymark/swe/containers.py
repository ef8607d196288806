"""Containers in place of bubblewrap: podman, or docker's socket, with an image for each instance.

An image holds the interpreter with its packages and, in SWE-bench's images, what the installation generated in the
repository. The repository itself is our copy of the base commit, mounted over the image's. Nothing is pulled. Images
come from elsewhere: they run without network, capabilities and the host's variables, read-only but for the copy.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.errors import PlanError
from assaymark.platforms import not_here

ENGINES = ("docker", "podman")
PROBE_SECONDS = 120.0
_USERS_OWN = ("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR")
_PREFIXES = ("DOCKER_", "CONTAINER", "REGISTRY_AUTH", "DBUS_")


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A program that runs containers here.

    Attributes:
        name: docker or podman.
        options: before `run`, such as podman's `--runtime runc`.
        run_options: after it, such as limits that this machine allows.
    """

    name: str
    options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()

    def command(self, *words: str) -> list[str]:
        """Return a command of the program."""
        return [self.name, *self.options, *words]

    def run_command(
        self,
        name: str,
        image: str,
        mounts: Sequence[tuple[Path, str, bool]],
        variables: Mapping[str, str],
        folder: str,
        memory_bytes: int,
        n_processes: int,
        scratch_bytes: int,
    ) -> list[str]:
        """Return the words that run a command in a container; the command is added at the end.

        Args:
            image: that is here, or for podman the path of a folder with a root file system.
            mounts: path here, path there, whether it may be written; those inside of others later.
            variables: all of the command's, beside the image's.
            folder: in which the command starts.
            memory_bytes: of all its processes.
            n_processes: of them, threads count.
            scratch_bytes: of each of /tmp and /dev/shm.

        Raises: PlanError for a path that a mount cannot have.
        """
        words = self.command("run", "--rm", "-i", "--name", name, "--network", "none", "--read-only")
        words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        words += ["--hostname", "sandbox", "--pull", "never"]
        words += ["--memory", str(memory_bytes), "--pids-limit", str(n_processes), *self.run_options]
        words += ["--shm-size", str(scratch_bytes), "--workdir", folder]
        if all(inside != "/tmp" for _, inside, _ in mounts):  # noqa: S108 - the container's own
            words += ["--tmpfs", f"/tmp:rw,exec,mode=1777,size={scratch_bytes}"]  # noqa: S108 - its own
        for path, inside, is_writable in mounts:
            if any(letter in f"{path}{inside}" for letter in ',"\n\r'):
                raise PlanError(f"{inside!r} cannot be mounted into a container: its name has a comma or a quote")
            words += ["--mount", f"type=bind,src={path},dst={inside}{'' if is_writable else ',ro=true'}"]
        for key, value in variables.items():
            words += ["--env", f"{key}={value}"]
        image_words = ("--rootfs", f"{image}:O") if image.startswith("/") else ("--entrypoint", "", image)
        return [*words, *image_words]

    def remove(self, name: str) -> None:
        """End a container and all that runs in it; one that has ended is no error."""
        subprocess.run(
            self.command("rm", "--force", name), env=host_variables(), capture_output=True, check=False,
            timeout=PROBE_SECONDS,
        )  # fmt: skip


def host_variables() -> dict[str, str]:
    """Return the variables that docker and podman read: where their socket, storage and configuration are."""
    return {name: value for name, value in os.environ.items() if name in _USERS_OWN or name.startswith(_PREFIXES)}


def container_name() -> str:
    """Return a name for a container of this process."""
    return f"assaymark-swe-{os.getpid()}-{secrets.token_hex(6)}"


def image_name(instance_id: str) -> str:
    """Return the name of SWE-bench's image of an instance."""
    return f"docker.io/swebench/sweb.eval.x86_64.{instance_id.replace('__', '_1776_').lower()}:latest"


@cache
def find_engine(name: str, image: str) -> ContainerEngine:
    """Return an engine that ran a command in an image just now.

    podman's own settings are tried first, then runc with limits that a machine without the right to raise them allows.

    name: docker, podman, or auto for the first of them that works. image: as for `ContainerEngine.run_command`.

    Raises: PlanError with what docker or podman said.
    """
    said = []
    for engine in _candidates(name, image):
        problem = _why_not_working(engine, image)
        if not problem:
            return engine
        said.append(f"{' '.join((engine.name, *engine.options))}: {problem}")
    if not said:
        raise PlanError(f"the image {image} needs {'docker or podman' if name == 'auto' else name}, which is not here")
    raise PlanError(f"the image {image} does not run here: {'; '.join(dict.fromkeys(said))}")


def _candidates(name: str, image: str) -> list[ContainerEngine]:
    if sys.platform == "win32":
        raise not_here("a container of a patch")
    user = ("--user", f"{os.getuid()}:{os.getgid()}")
    inside = () if os.getuid() == 0 else ("--userns", "keep-id")
    raised = ("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=8192:8192")
    known = {
        "docker": [] if image.startswith("/") else [ContainerEngine("docker", (), user)],
        "podman": [
            ContainerEngine("podman", (), inside),
            ContainerEngine("podman", ("--runtime", "runc"), (*inside, *raised)),
        ],
    }
    names = ENGINES if name == "auto" else (name,)
    return [engine for each in names if shutil.which(each) is not None for engine in known[each]]


def _why_not_working(engine: ContainerEngine, image: str) -> str:
    if not image.startswith("/") and _inspected(engine, image) is None:
        return f"it is not here; get it with `{engine.name} pull {image}`"
    name = container_name()
    words = [*engine.run_command(name, image, (), {}, "/", 256 << 20, 64, 16 << 20), "true"]
    try:
        done = subprocess.run(
            words, env=host_variables(), capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        engine.remove(name)
        return str(error)[:200]
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return lines[-1][:300] if done.returncode else ""


def _inspected(engine: ContainerEngine, image: str) -> str | None:
    """Return the id of an image that is here, else None."""
    try:
        done = subprocess.run(
            engine.command("image", "inspect", image), env=host_variables(), capture_output=True, text=True,
            errors="replace", timeout=PROBE_SECONDS, check=False,
        )  # fmt: skip
        content = json.loads(done.stdout) if done.returncode == 0 else []
        return str(content[0]["Id"]) if content else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return None


@cache
def image_sha(engine: ContainerEngine, image: str) -> str:
    """Return the identity of an image: its id, or of a folder its path."""
    return image if image.startswith("/") else (_inspected(engine, image) or image).removeprefix("sha256:")
