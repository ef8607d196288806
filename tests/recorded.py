"""What other programs answered to the tests, kept with what they were asked and the hashes of all that it follows from.

A record is compared in every run. Where a hash changed, or the question, the program is asked anew where it is
installed, and the test fails until the new record is committed; `make oracles` asks for everything anew.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "tests" / "records"


def sha256(file: Path) -> str:
    """Return a file's hash."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def recorded(
    oracle: str, asked: Any, sources: Sequence[Path], ask: Callable[[], Any], *, is_installed: bool = False
) -> Any:
    """Return what an oracle answered when it was asked the same; else ask it, write that down and fail.

    Args:
        oracle: the name of the program.
        asked: as JSON; the same on every machine, and holds all that the answer follows from besides the sources.
        sources: files of the repository that say how it is asked: the script, and the lock file of its environment.
        ask: asks it; called only where there is no such record.
        is_installed: with the tests, so that it can be asked wherever they run: what is new fails nothing.
    """
    asked = json.loads(json.dumps(asked))
    record = {
        "oracle": oracle,
        "sources": {str(each.relative_to(ROOT)): sha256(each) for each in sources},
        "asked": asked,
    }
    key = hashlib.sha256(json.dumps([sorted(record["sources"]), asked], sort_keys=True).encode()).hexdigest()
    file = RECORDS / f"{oracle}-{key[:12]}.json"
    renews = "RENEW_ORACLES" in os.environ
    if file.is_file() and not renews:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if {**stored, "answer": None} == {**record, "answer": None}:
            return stored["answer"]
    answer = ask()
    RECORDS.mkdir(exist_ok=True)
    file.write_text(json.dumps({**record, "answer": answer}, ensure_ascii=False) + "\n", encoding="utf-8")
    if not (renews or is_installed):
        # a machine without the program has no record of this, so passing here would say nothing of what is committed
        pytest.fail(f"{oracle} was asked anew: commit {file.relative_to(ROOT)} and what it replaces, then run again")
    return answer
