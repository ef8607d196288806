"""Ratings of 2 million votes on 200 models: fit, clustered sandwich, bootstraps, beside the package arena-rank.

Votes are simulated: models are drawn with unequal popularity, a fifth of the votes are ties, and each prompt has four
votes. The bootstraps run in two processes of one thread each. With --arena-rank PYTHON, an interpreter that has that
package fits the same votes and computes its vote-level sandwich.

Usage: python benchmarks/rating_speed.py [--votes 2000000] [--models 200] [--draws 1000] [--arena-rank PYTHON]
"""

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes of two threads each wait for each other

import numpy as np

from assaymark.randomness import generator_for
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import ELO_SCALE, fit_bradley_terry
from assaymark.statistics.rating_errors import bootstrap_strengths, clustered_errors

PER_PROMPT = 4
PROCESSES = 2


def simulated(n_votes: int, n_models: int) -> tuple[Battles, np.ndarray]:
    """Return votes and their prompts."""
    generator = generator_for("rating speed", n_votes, n_models)
    strengths = generator.normal(0.0, 0.8, n_models)
    popularity = generator.pareto(2.0, n_models) + 0.2
    first = generator.choice(n_models, n_votes, p=popularity / popularity.sum())
    second = (first + generator.integers(1, n_models, n_votes)) % n_models
    prompts = np.arange(n_votes) // PER_PROMPT
    suits = generator.normal(0.0, 0.3, (n_votes // PER_PROMPT + 1, 8))  # a prompt favours one eighth of the models
    score = strengths[first] - strengths[second] + suits[prompts, first % 8] - suits[prompts, second % 8]
    won = (generator.random(n_votes) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)
    outcome = np.where(generator.random(n_votes) < 0.2, 0.5, won)
    return Battles(first, second, outcome, n_models), prompts


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Run, print the seconds, return the result."""
    began = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - began:.2f} s", flush=True)
    return result


def _half(given: tuple[str, int]) -> np.ndarray:
    """Return half of the draws; a forked process has the votes already."""
    kind, part = given
    battles, prompts, fit, n_draws = _SHARED[0]
    share = n_draws[kind] // PROCESSES
    clusters = np.arange(len(battles)) if kind == "exact by vote" else prompts
    return bootstrap_strengths(battles, fit, clusters, draws=share, part=part)


_SHARED: list[Any] = []


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=int, default=2_000_000)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--arena-rank", metavar="PYTHON", help="interpreter with the package arena-rank")
    inputs = parser.parse_args()
    print(f"{inputs.votes:,} votes, {inputs.models} models, load average {os.getloadavg()[0]:.2f}")
    battles, prompts = timed("simulation", lambda: simulated(inputs.votes, inputs.models))
    began = time.perf_counter()
    fit = timed("fit", lambda: fit_bradley_terry(battles))
    errors = timed("sandwich by prompt", lambda: clustered_errors(battles, fit, prompts))
    print(f"fit and sandwich by prompt: {time.perf_counter() - began:.2f} s (aim: below 5)")
    by_vote = timed("sandwich by vote", lambda: clustered_errors(battles, fit, np.arange(len(battles))))
    _SHARED.append((battles, prompts, fit, {"exact by vote": inputs.draws, "exact by prompt": inputs.draws // 10}))
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        for kind, sandwich in (("exact by vote", by_vote), ("exact by prompt", errors)):
            work = [(kind, part) for part in range(PROCESSES)]
            halves = timed(f"bootstrap, {kind}, {_SHARED[0][3][kind]:,} draws", partial(pool.map, _half, work))
            spread = np.concatenate(halves).std(axis=0)
            expected = np.sqrt(np.diag(sandwich.covariance))
            print(f"  median error {ELO_SCALE * np.median(spread):.2f} points; of the sandwich "
                  f"{ELO_SCALE * np.median(expected):.2f}")  # fmt: skip
    if inputs.arena_rank:
        beside_arena_rank(inputs.arena_rank, battles, fit.strengths)
    print(f"load average at the end {os.getloadavg()[0]:.2f}")


def beside_arena_rank(python: str, battles: Battles, strengths: np.ndarray) -> None:
    """Fit the same votes with arena-rank, in its own interpreter, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "votes.npz"
        np.savez(file, first=battles.first, second=battles.second, outcome=battles.outcome)
        subprocess.run([python, str(Path(__file__).with_name("arena_rank_fit.py")), str(file)], check=True)
        theirs = np.load(f"{file}.ratings.npy")
    ours = 1000.0 + ELO_SCALE * strengths
    farthest = np.abs(theirs - theirs.mean() + 1000.0 - ours).max()
    print(f"  largest difference of ratings (both with mean 1000): {farthest:.4f} points")


if __name__ == "__main__":
    main()
