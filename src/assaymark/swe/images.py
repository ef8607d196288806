"""The files that an installation generated in a repository: of a prepared environment, or of an image."""

import shutil
from pathlib import Path

from assaymark.drafts import draft_folder
from assaymark.errors import PlanError
from assaymark.platforms import alone
from assaymark.settings import home_folder
from assaymark.swe.containers import find_engine, image_sha
from assaymark.swe.environments import Environment
from assaymark.swe.instances import text_sha
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

COPYING = SweLimits(seconds=300, memory_bytes=1 << 30, n_processes=64)
LEFT_OUT = frozenset({"build", ".eggs", "__pycache__", ".pytest_cache"})
MOST_FILES = 2_000
_OUT = "/assaymark-out"
_COPY = 'test -d "$1/.git" || exit 0; cd "$1" && git ls-files -oz | xargs -0 -r cp -P --parents -t "$2"'


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
        COPYING,
    )
    if ended.status or ended.limit:
        lines = ended.output.strip().splitlines() or [f"status {ended.status}"]
        raise PlanError(f"{environment.image} does not show its repository: {ended.limit or lines[-1][:200]}")
    for path in list(target.rglob("*")):
        if path.name in LEFT_OUT and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
    if (n_files := sum(1 for path in target.rglob("*") if not path.is_dir())) > MOST_FILES:
        raise PlanError(f"{environment.image} has {n_files:,} files beside its commit; expected at most {MOST_FILES:,}")
