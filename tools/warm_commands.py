"""Commands of documentation pages in forks of one process that has imported what they need.

Start-up is most of what a page's commands cost. Each still is a process with a folder, an environment, standard streams
and signals of its own, as for users of `assaymark warm start`, whose parts these are; it takes every command here, and
any environment.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import assaymark
from assaymark.cli import warm_client
from assaymark.cli.main import main, yield_while_waiting
from assaymark.warm.__main__ import end_forked
from assaymark.warm.server import WarmServer, become, import_for

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("torch", "torch._dynamo", "transformers", "transformers.models.llama.modeling_llama", "pyarrow.parquet")


@contextmanager
def warm_commands() -> Iterator[str]:
    """Start the process; yield the words of a shell for `assaymark`."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-m", "tools.warm_commands", folder]
        with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the process for the commands of pages did not start")
            try:
                yield f'"{sys.executable}" "{Path(__file__).resolve()}" {folder}'
            finally:
                process.terminate()


def _serve(folder: str) -> int:
    """Import, say so, and run commands until it is terminated."""
    yield_while_waiting()
    before = dict(os.environ)
    import_for(LIBRARIES)
    for part in pkgutil.iter_modules(assaymark.__path__, "assaymark."):
        if part.ispkg and part.name != "assaymark.library":
            path = importlib.import_module(part.name).__path__
            names = (module.name for module in pkgutil.walk_packages(path, f"{part.name}."))
            import_for(name for name in names if not name.endswith("__main__"))
    server = WarmServer(Path(folder, warm_client.socket_name()), 3600.0, {}, lambda _text: None)
    server.open()
    print("ready", flush=True)
    accepted = server.serve()
    if accepted is None:
        return 0
    become(accepted, {name: value for name, value in os.environ.items() if before.get(name) != value})
    return end_forked(main(may_hand_over=False))


def _hand_over(folder: str, words: list[str]) -> int:
    """Let the process run one command; the words are those of a command line."""
    warm_client.SERVED = frozenset(words[:1])
    warm_client.socket_folder = lambda: Path(folder)
    warm_client.process_facts = dict
    sys.argv = [str(Path(assaymark.__file__).with_name("__main__.py")), *words]
    code = warm_client.run_warm(words, lambda text: print(text, file=sys.stderr))
    return main(words) if code is None else code


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1]) if len(sys.argv) == 2 else _hand_over(sys.argv[1], sys.argv[2:]))
