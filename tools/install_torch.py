"""Install PyTorch's CPU build: no gigabytes of CUDA, and no hanging where an index is out of reach.

Usage: python tools/install_torch.py torch==2.13.0
PyTorch's own CPU index is asked first, where it answers within some seconds; the default index otherwise.
"""

import subprocess
import sys
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROBE_SECONDS = 5


def cpu_index_answers() -> bool:
    """Return whether PyTorch's CPU index can be reached from here."""
    if sys.platform == "darwin":
        return False  # the default index holds CPU builds for macOS
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=PROBE_SECONDS) as reply:  # noqa: S310
            return int(reply.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def main(requirement: str) -> int:
    """Install `requirement` and return pip's exit status."""
    name, _, wanted = requirement.partition("==")
    try:
        if version(name).split("+")[0] == wanted:
            return 0
    except PackageNotFoundError:
        pass
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    if cpu_index_answers():
        quick = ["--index-url", CPU_INDEX, "--timeout", "20", "--retries", "1"]
        if subprocess.run([*pip, *quick], check=False).returncode == 0:
            return 0
    if sys.platform == "linux":
        print(f"{CPU_INDEX} does not answer: pip's own index is asked, whose torch may hold CUDA (some GB)", flush=True)
    return subprocess.run([part for part in pip if part != "--quiet"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
