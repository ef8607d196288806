"""Commands and scripts, as of documentation pages, in forks of one process that has imported what they need.

Start-up is most of what a page's commands cost. Each still is a process with a folder, an environment, standard streams
and signals of its own, as for users of `assaymark warm start`, whose parts these are; it takes every command here,
scripts of Python, and any environment.
"""

import gc
import importlib
import os
import pkgutil
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import assaymark
from assaymark.cli import warm_client

ROOT = Path(__file__).resolve().parents[1]
MAIN = str(Path(assaymark.__file__).with_name("__main__.py"))
LIBRARIES = ("torch", "torch._dynamo", "transformers", "transformers.models.llama.modeling_llama", "pyarrow.parquet")


@contextmanager
def warm_commands() -> Iterator[list[str]]:
    """Start the process; yield the words after which `assaymark` or `python` and its words stand."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-m", "tools.warm_commands", folder]
        with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the process for the commands of pages did not start")
            try:
                yield [sys.executable, str(Path(__file__).resolve()), folder]
            finally:
                process.kill()  # with the commands that a failed test left, such as servers


def _serve(folder: str) -> int:
    """Import, say so, and run commands until it is terminated."""
    from assaymark.cli.main import main, yield_while_waiting
    from assaymark.warm.__main__ import end_forked
    from assaymark.warm.server import WarmServer, become, import_for

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
    gc.collect()
    gc.freeze()  # as the product's own warm process
    print("ready", flush=True)
    accepted = server.serve()
    if accepted is None:
        return 0
    become(accepted, {name: value for name, value in os.environ.items() if before.get(name) != value})
    return end_forked(main(may_hand_over=False) if sys.argv[0] == MAIN else _run_script(sys.argv[0]))


def _run_script(name: str) -> int:
    """Run a script, `-` for standard input, as the interpreter does; return its exit code."""
    script = types.ModuleType("__main__")
    sys.path[0] = "" if name == "-" else str(Path(name).resolve().parent)
    try:
        if name != "-":
            script.__file__ = name
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        sys.modules["__main__"] = script
        exec(compile(text, name, "exec"), script.__dict__)  # noqa: S102 - a page's own
        script.__dict__.clear()  # which closes its files, as an interpreter's end does
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
        return 1
    return 0


def _hand_over(folder: str, program: str, *words: str) -> int:
    """Let the process run `assaymark` or `python` with these words."""
    cold = [sys.executable, *(["-m", "assaymark"] if program == "assaymark" else []), *words]
    is_script = program == "python" and words and (words[0] == "-" or not words[0].startswith("-"))
    if program == "assaymark" or is_script:
        warm_client.SERVED = frozenset(words[:1])
        warm_client.socket_folder = lambda: Path(folder)
        warm_client.process_facts = dict
        sys.argv = [MAIN, *words] if program == "assaymark" else list(words)
        code = warm_client.run_warm(words, lambda text: print(text, file=sys.stderr))
        if code is not None:
            return code
    return os.execv(cold[0], cold)  # noqa: S606 - no shell


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1]) if len(sys.argv) == 2 else _hand_over(*sys.argv[1:]))
