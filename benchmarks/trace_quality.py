"""How fast the page of quality over time answers, over a store of many traces in a server of its own.

python benchmarks/trace_quality.py [--traces 100000] [--days 30] [--per_session N] [--store URL]

The traces are spread evenly over the days, in three versions; a half of them has two scores. With `--per_session` so
many traces in a row share a session. The time is that of the whole request in the client, HTML with all charts; median
of 9 after one that is not counted. Beside it the processor time of this process for a request, client and server
together: two readers of the database work at once, so on idle processors the request takes less. `--store URL`: of an
empty PostgreSQL database, whose statistics are computed once it is filled; without it a SQLite file in a temporary
folder.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import httpx
from sqlalchemy import text
from tests.applications.watch.filling import MadeTrace, fill
from tests.served import running

from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import trace_feature
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.pages import watch_feature
from assaymark.store import Store
from assaymark.web.app import create_app

REPEATS = 9


def made_traces(n: int, days: int, per_session: int = 0) -> list[MadeTrace]:
    """Return traces that end now."""
    generator, now = random.Random(1), time.time()
    return [
        MadeTrace(
            at=now - days * 86_400 * (n - at) / n,
            seconds=generator.lognormvariate(0, 0.6),
            version=("1.0", "1.1", "1.2")[3 * at // n],
            failed=generator.random() < 0.04,
            cost=generator.random() / 100,
            tokens=generator.randrange(100, 2000),
            session=f"session {at // per_session}" if per_session else None,
            scores=(("faithful", float(generator.random() < 0.9)), ("relevance", generator.betavariate(8, 2)))
            if at % 2
            else (),
        )
        for at in range(n)
    ]


def main() -> None:
    """Fill a store, serve it, and print a line for each address."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--per_session", type=int, default=0)
    parser.add_argument("--store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(options.store or str(Path(folder) / "s.sqlite"))
        token = TraceLog(store).add_project("bench")
        made = made_traces(options.traces, options.days, options.per_session)
        for first in range(0, len(made), 5000):
            fill(store, TraceLog(store).project_id("bench"), made[first : first + 5000], first)
        if not store._database.is_sqlite:  # as autovacuum does within a minute of so many rows
            with store._database.writing() as connection:
                connection.execute(text("ANALYZE"))
        app = create_app([trace_feature(store, Redaction()), watch_feature(store)])
        with running(app) as url, httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
            for query in ("days=1", "days=7", "days=7&by=all", f"days={options.days}", f"days={options.days}&by=all"):
                seconds, own = [], []
                for _ in range(REPEATS + 1):
                    began, began_own = time.perf_counter(), time.process_time()
                    client.get(f"/traces/quality?{query}", timeout=60).raise_for_status()
                    seconds.append(time.perf_counter() - began)
                    own.append(time.process_time() - began_own)
                wall, processor = (1000 * statistics.median(each[1:]) for each in (seconds, own))
                print(f"{query}: {wall:.0f} ms, {processor:.0f} ms of processor time (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
