"""Every environment variable and every path this package uses, read in one place and listed by `assaymark doctor`.

Nothing else reads os.environ. Values are read when they are needed, so a test or a notebook may set them first.
"""

import hashlib
import logging
import math
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.errors import UsageError

LEASE_SECONDS = 60.0  # renewed three times as often, since swapping or a full disk may delay a renewal
VERSION = "1.0.0"  # also in pyproject.toml; a test compares the two
FORMER_NAME = "evalstone"  # of this program: its stores are read, wherever they are
STORE_FILE = "store.sqlite"
_LOG = logging.getLogger("assaymark")
_PASSWORD = re.compile(r"(://[^:/@]*:).*@", re.DOTALL)  # also with a slash or an at sign in it, which should be escaped
_PASSWORD_FIELD = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable that this package reads."""

    name: str
    meaning: str


VARIABLES: tuple[Variable, ...] = (
    Variable("ASSAYMARK_HOME", "folder for the store and caches (default: the user's data folder)"),
    Variable("ASSAYMARK_CACHE", "folder for files that can be rebuilt (default: <home>/cache)"),
    Variable("ASSAYMARK_STORE", "store to use: a file or a database URL (default: <home>/store.sqlite)"),
    Variable("ASSAYMARK_DATA", "folder with <hub path>/<config>/<split>.parquet, used instead of the Hub"),
    Variable("ASSAYMARK_THREADS", "CPU threads of the engine (default: as many as the process may use)"),
    Variable(
        "ASSAYMARK_LEASE_SECONDS", "how long a run's writer may be silent before another takes over (default: 60)"
    ),
    Variable("ASSAYMARK_CODE_CONTAINER", "command of a container that runs model-written code, instead of bubblewrap"),
    Variable("ASSAYMARK_BROWSER", "browser that prints a report to PDF (default: Chromium, Chrome, Edge or Brave)"),
    Variable(
        "ASSAYMARK_SECRET", "secret of the web application, shared by its processes (default: <home>/server.secret)"
    ),
    Variable("ASSAYMARK_PUBLIC_ONLY", "1: endpoints under evaluation must be at public addresses"),
    Variable("ASSAYMARK_VLLM_OWNER", "set for the processes that vLLM starts: the process that they belong to"),
    Variable("VLLM_LOGGING_LEVEL", "what vLLM logs (default on the command line: ERROR, as --verbosity says)"),
    Variable("HF_TOKEN", "token for gated repositories on the Hub"),
    Variable("OPENAI_API_KEY", "key for models behind an OpenAI-compatible server; sent to that server only"),
    Variable("ASSAYMARK_TOKEN", "token with which `assaymark submit` sends to a leaderboard; sent to that server only"),
    Variable("HF_HUB_OFFLINE", "1: never contact the Hub"),
    Variable("COLUMNS", "width of tables if the output is not a terminal"),
    Variable("NO_COLOR", "any value: no colours"),
    Variable("RANK", "set by torchrun or accelerate: number of this process"),
    Variable("WORLD_SIZE", "set by torchrun or accelerate: number of processes"),
    Variable("LOCAL_RANK", "set by torchrun or accelerate: number of this process on its machine"),
)


def read(name: str) -> str | None:
    """Return the variable's value, None if unset or empty; only names listed in VARIABLES may be read."""
    if name not in {variable.name for variable in VARIABLES}:
        raise KeyError(f"{name} is not in settings.VARIABLES")
    return os.environ.get(name) or None


def home_folder() -> Path:
    """Return the folder for the store and caches; it need not exist."""
    if value := read("ASSAYMARK_HOME"):
        return Path(value).expanduser()
    from platformdirs import user_data_path

    return user_data_path("assaymark", appauthor=False)


def store_location(explicit: str | None = None) -> str:
    """Return where the store is: the argument, else ASSAYMARK_STORE, else a file in the home folder.

    A value with `://` is a database URL and returned unchanged. Anything else is a path, whatever characters it has,
    and returned absolute. Where the default data folder has no store and the one of this program's former name has,
    that one is returned, and a line says so.
    """
    value = explicit or read("ASSAYMARK_STORE")
    if value and "://" in value:
        return value
    path = Path(value).expanduser() if value else home_folder() / STORE_FILE
    with suppress(PermissionError):  # of a home that may not be looked into: whoever opens the store says so
        if not value and not read("ASSAYMARK_HOME") and not path.exists():
            from platformdirs import user_data_path

            former = user_data_path(FORMER_NAME, appauthor=False) / STORE_FILE
            if former.is_file():
                _say_former_store(former, path)
                return str(former.absolute())
    return str(path.absolute())


def without_password(location: str) -> str:
    """Return a store's location as it may be shown: of a database URL without the password."""
    if "://" not in location:
        return location
    return _PASSWORD_FIELD.sub(r"\1***", _PASSWORD.sub(r"\1***@", location))


@cache
def _say_former_store(former: Path, path: Path) -> None:
    """Say once in a process that a store in the former data folder is used."""
    _LOG.warning("using the store that %s, the former name of assaymark, left at %s; to keep it, move it to %s",
                 FORMER_NAME.capitalize(), former, path)  # fmt: skip


def cache_folder() -> Path:
    """Return the folder for files that can be rebuilt (task index, file digests)."""
    value = read("ASSAYMARK_CACHE")
    return Path(value).expanduser() if value else home_folder() / "cache"


def remember(note: Path, text: str) -> None:
    """Write a small file of the cache atomically; a folder that is not writable is not an error."""
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.tmp")
        draft.write_text(text, encoding="utf-8")
        draft.replace(note)


def data_folder(explicit: str | Path | None = None) -> Path | None:
    """Return the folder with local benchmark data, or None: then data comes from the Hub.

    Raises: UsageError if the given folder does not exist.
    """
    value = explicit or read("ASSAYMARK_DATA")
    if value is None:
        return None
    path = Path(value).expanduser()
    if not path.is_dir():
        origin = "--data_dir" if explicit else "ASSAYMARK_DATA"
        raise UsageError(
            f"{origin} is '{path}', which is not a folder; expected <folder>/<hub path>/<config>/<split>.parquet"
        )
    return path


def thread_count() -> int:
    """Return the CPU threads to use: ASSAYMARK_THREADS, else the processors this process may run on.

    Raises: UsageError if the variable is not a positive integer.
    """
    value = read("ASSAYMARK_THREADS")
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.isdigit() or int(value) < 1:
        raise UsageError(f"ASSAYMARK_THREADS is '{value}'; expected a whole number from 1")
    return int(value)


def lease_seconds() -> float:
    """Return how long a run's writer may be silent before another process takes the run over. Units: seconds.

    Raises: UsageError if the variable is not a number from 1.
    """
    value = read("ASSAYMARK_LEASE_SECONDS")
    if value is None:
        return LEASE_SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise UsageError(f"ASSAYMARK_LEASE_SECONDS is '{value}'; expected a number of seconds from 1")
    return seconds


PASSED = (  # to processes that evaluate what others submitted; nothing else of this process's variables is
    *("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"),
    *("ASSAYMARK_THREADS", "ASSAYMARK_DATA"),
)
PASSED_WITH_NETWORK = (*PASSED, "HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|DATABASE_URL|ASSAYMARK_STORE", re.IGNORECASE)


def environment_of_job(home: Path, *, network: bool) -> dict[str, str]:
    """Return the variables of a process that evaluates what others submitted: none of this machine's tokens.

    home: its home, where all that it caches goes. network: whether it may fetch.
    """
    passed = PASSED_WITH_NETWORK if network else PASSED
    found = {name: os.environ[name] for name in passed if name in os.environ}
    own = {"HOME": home, "ASSAYMARK_HOME": home / "assaymark", "HF_HOME": home / "hf", "TMPDIR": home / "tmp"}
    found |= {name: str(path) for name, path in own.items()}
    found |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "ASSAYMARK_LEASE_SECONDS": "10"}
    found |= {"ASSAYMARK_PUBLIC_ONLY": "1"}
    if not network or read("HF_HUB_OFFLINE"):
        found |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return found


def secrets_here() -> list[str]:
    """Return the values of this process's variables that are secrets by their name, to hide them in logs."""
    return [value for name, value in os.environ.items() if value and _SECRET.search(name)]


def public_only() -> bool:
    """Return whether endpoints under evaluation must be at public addresses, as on a machine that works for others."""
    return (read("ASSAYMARK_PUBLIC_ONLY") or "0") != "0"


def process_of() -> tuple[int, int]:
    """Return (rank, world size) as set by torchrun or accelerate; (0, 1) for a single process."""
    return int(read("RANK") or 0), int(read("WORLD_SIZE") or 1)


def current() -> Mapping[str, str | None]:
    """Return every variable with its present value; secrets are hidden."""
    secret = {"HF_TOKEN", "ASSAYMARK_TOKEN", "OPENAI_API_KEY", "ASSAYMARK_SECRET"}
    values = {v.name: ("(set)" if v.name in secret and read(v.name) else read(v.name)) for v in VARIABLES}
    return {name: value and without_password(value) for name, value in values.items()}


def environment() -> dict[str, str]:
    """Return the facts of this process that belong to an attempt at a run, not to the run."""
    return {
        "assaymark": VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
    }
