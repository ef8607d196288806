"""The warm process itself, which `assaymark warm start` starts; see `warm.server`."""

import atexit
import fcntl
import gc
import json
import os
import sys
import threading
import time
from typing import NoReturn

from assaymark.cli.main import main, quieten_libraries, yield_while_waiting
from assaymark.cli.warm_client import process_facts, socket_folder, socket_name
from assaymark.warm.server import WarmServer, become, import_for, modules_of_run

assert sys.platform == "linux"  # noqa: S101 - else the server could not be imported

LOCK_SECONDS = 10.0  # a process that was stopped has removed its socket, and may take a moment to end


def _report(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _lock(descriptor: int) -> None:
    """Lock a file for this process's life. Raises: BlockingIOError if another one has it for LOCK_SECONDS."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _serve(options: dict[str, object]) -> int:
    """Import, listen, and run commands; returns the exit code of this process, also as a forked one."""
    lock = os.open(socket_folder() / f"{socket_name()}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    ready = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    facts, before = json.loads(json.dumps(process_facts())), dict(os.environ)
    try:
        _lock(lock)
        import_for(modules_of_run([str(each) for each in options["models"]]))  # type: ignore[attr-defined]
        server = WarmServer(socket_folder() / socket_name(), float(str(options["idle_seconds"])), facts, _report)
        server.open()
    except BlockingIOError:
        ready.write(json.dumps({"error": "another one is being started"}))
        return 1
    except (OSError, RuntimeError) as error:
        ready.write(json.dumps({"error": str(error)}))
        return 1
    ready.write(json.dumps({"process_id": os.getpid(), "n_modules": len(sys.modules)}))
    ready.close()
    _report("ready")
    gc.collect()
    gc.freeze()  # collections in the forks would write to, and so copy, every page of the imported objects
    accepted = server.serve()
    if accepted is None:
        _report("stopped")
        return 0
    os.close(lock)
    become(accepted, {name: value for name, value in os.environ.items() if before.get(name) != value})
    return end_forked(main(may_hand_over=False))


def end_forked(code: int) -> NoReturn:
    """End a forked process as the interpreter would, except that modules are not freed.

    That would write to, and so first copy, the pages of everything that the warm process imported: 0.4 s.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing ends a forked process
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            code = code or 120  # the interpreter's own
    os._exit(code)


if __name__ == "__main__":
    yield_while_waiting()
    quieten_libraries()
    sys.exit(_serve(json.loads(sys.argv[1])))
