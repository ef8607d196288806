"""Votes through the arena's web API on loopback: votes per second, p95, and none lost or counted twice by kill -9.

The server is a process of its own; voters are threads of this one. In the middle the server is killed with SIGKILL and
started again, and voters send what was not acknowledged again, with the same idempotency key.

Usage: python benchmarks/arena_votes.py [--votes 100000] [--voters 4] [--store URL]
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from assaymark.arena.arena_log import ArenaLog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.randomness import generator_for
from assaymark.store import Store

VOTES_OF_ONE = 50  # then the thread becomes another voter, at another address


@dataclass
class Tally:
    """What the voters saw."""

    wanted: int
    cast: dict[str, str] = field(default_factory=dict)  # battle -> choice, acknowledged
    seconds: list[float] = field(default_factory=list)  # of a vote
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_done(self) -> bool:
        """Return whether enough votes are acknowledged."""
        return len(self.cast) >= self.wanted


def start(folder: Path, port: int, store: str) -> subprocess.Popen[str]:
    """Start the server; return when it answers."""
    words = ["--answers", str(folder / "answers.jsonl"), "--store", store, "--port", str(port), "--cooldown", "0"]
    limits = ["--address_votes_per_day", "1000000", "--batch", "1000", "--proxy", "127.0.0.1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assaymark", "arena", "serve", *words, *limits],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "ASSAYMARK_HOME": str(folder)},
    )  # fmt: skip
    if process.stdout is None or "Arena (" not in process.stdout.readline():
        sys.exit("the server did not start")
    return process


def vote_on(url: str, tally: Tally, name: int) -> None:
    """Vote until there are enough votes, through the death of the server."""
    generator = generator_for("arena votes", name)
    while not tally.is_done():
        address = ".".join(map(str, generator.integers(1, 255, 4)))  # as a reverse proxy tells it
        try:
            with httpx.Client(base_url=url, timeout=30, headers={"x-forwarded-for": address}) as client:
                result = re.search(r'name="token" value="(\w+)"', client.get("/arena").text)
                headers = {"x-form-token": result[1] if result else ""}
                for _ in range(VOTES_OF_ONE):
                    battle = client.post("/arena/battles", json={}, headers=headers).json()["battle"]
                    choice = ("a", "b", "tie", "both_bad")[int(generator.integers(4))]
                    send_until_acknowledged(client, tally, battle, {"choice": choice, "key": battle}, headers)
                    if tally.is_done():
                        return
        except httpx.TransportError:
            time.sleep(0.2)


def send_until_acknowledged(
    client: httpx.Client, tally: Tally, battle: str, vote: dict[str, str], headers: dict[str, str]
) -> None:
    """Send a vote, again with the same key after a broken connection."""
    while True:
        try:
            before = time.perf_counter()
            answer = client.post(f"/arena/battle/{battle}/vote", json=vote, headers=headers)
        except httpx.TransportError:
            time.sleep(0.2)
            continue
        if answer.status_code != 200:
            sys.exit(f"a vote got {answer.status_code}: {answer.text[:200]}")
        with tally.lock:
            tally.seconds.append(time.perf_counter() - before)
            tally.cast[battle] = vote["choice"]
        return


def write_answers(folder: Path) -> None:
    """Write answers of ten models to 200 prompts."""
    rows = [
        {"instruction": f"Prompt {n}?", "output": f"text {m} of {n}", "generator": f"model {m}"}
        for n in range(200) for m in range(10)
    ]  # fmt: skip
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))


def main() -> None:
    """Vote, kill, vote, and compare what was acknowledged with the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=int, default=100_000)
    parser.add_argument("--voters", type=int, default=4)
    parser.add_argument("--store", help="URL of an empty store (default: a SQLite file)")
    inputs = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, socket.socket() as held:
        folder = Path(made)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        held.close()
        write_answers(folder)
        store = inputs.store or str(folder / "store.sqlite")
        tally, process = Tally(inputs.votes), start(folder, port, store)
        url = f"http://127.0.0.1:{port}"
        threads = [threading.Thread(target=vote_on, args=(url, tally, name)) for name in range(inputs.voters)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        while len(tally.cast) < inputs.votes // 2:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start(folder, port, store)
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        process.kill()
        process.wait()
        report(tally, took, store, inputs.voters)


def report(tally: Tally, took: float, store: str, n_voters: int) -> None:
    """Print speed and what the log has."""
    with Store.open(store) as opened:
        stored = {vote.battle: vote.choice for vote in ArenaLog(opened).votes()}
        n, problems = ArenaLog(opened).head().sequence, ArenaLog(opened).problems()
    lost = sum(stored.get(battle) != choice for battle, choice in tally.cast.items())
    times = sorted(tally.seconds)
    p95 = 1000 * times[int(0.95 * len(times))]
    print(f"{len(tally.cast):,} votes acknowledged in {took:.0f} s by {n_voters} voters at once, one kill -9: "
          f"{len(tally.cast) / took:.0f} votes/s, p95 of a vote {p95:.0f} ms")  # fmt: skip
    print(f"stored {n:,}; acknowledged and not stored as cast: {lost}; battles with two votes: {n - len(stored)}; "
          f"problems of the chain: {len(problems)}")  # fmt: skip
    if lost or problems or n != len(stored):
        sys.exit(1)


if __name__ == "__main__":
    main()
