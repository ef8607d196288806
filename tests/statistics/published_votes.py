"""Real votes and textbook problems with published ratings, as battles."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.statistics.battles import Battles


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return a CSV or JSON lines file's rows."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [json.loads(line) for line in stream] if path.suffix == ".jsonl" else list(csv.DictReader(stream))


def battles_between(pairs: list[tuple[str, str]], outcomes: list[float]) -> tuple[list[str], Battles]:
    """Return the models' names, sorted, and their battles."""
    names = sorted({name for pair in pairs for name in pair})
    place = {name: number for number, name in enumerate(names)}
    sides = np.array([(place[first], place[second]) for first, second in pairs])
    return names, Battles(sides[:, 0], sides[:, 1], np.array(outcomes), len(names))


def llmfao(shared: Path) -> tuple[list[str], Battles, dict[str, NDArray[Any]]]:
    """Return 8,931 human votes on 59 models (Ustalov 2023), with the columns by which they can be clustered."""
    rows = rows_of(shared / "data/arena/llmfao/crowd-comparisons.csv")
    words = {"left": 1.0, "right": 0.0, "tie": 0.5}
    pairs, outcomes = [(row["left"], row["right"]) for row in rows], [words[row["winner"]] for row in rows]
    labels = {name: np.array([row[name] for row in rows]) for name in ("id", "prompt", "worker")}
    return *battles_between(pairs, outcomes), labels


def golden(shared: Path, algorithm: str, names: list[str]) -> NDArray[np.float64]:
    """Return the ratings that Evalica publishes for those votes, in the order of the names."""
    rows = rows_of(shared / "data/arena/llmfao/golden_scores_evalica.csv")
    scores = {row["item"]: float(row["score"]) for row in rows if row["algorithm"] == algorithm}
    return np.array([scores[name] for name in names])


def baseball(shared: Path) -> tuple[list[str], Battles]:
    """Return the American League's East of 1987, the home team first (Agresti 2002, table 10.10)."""
    pairs, outcomes = [], []
    for row in rows_of(shared / "data/arena/btcheck/baseball_1987_AL_east.csv"):
        for column, outcome in (("home.wins", 1.0), ("away.wins", 0.0)):
            pairs += [(row["home.team"], row["away.team"])] * int(row[column])
            outcomes += [outcome] * int(row[column])
    return battles_between(pairs, outcomes)


def springall(shared: Path) -> Battles:
    """Return nine items' tastes compared by people, with ties (Springall 1973)."""
    pairs, outcomes = [], []
    for row in rows_of(shared / "data/arena/btcheck/springall_taste_ties.csv"):
        for column, outcome in (("win_1", 1.0), ("loss_1", 0.0), ("tie", 0.5)):
            count = int(float(row[column]))
            pairs += [(row["item_1"], row["item_2"])] * count
            outcomes += [outcome] * count
    return battles_between(pairs, outcomes)[1]


def mt_bench(shared: Path, file: str) -> tuple[list[str], Battles]:
    """Return MT-bench's judgments, by people (`human`) or by GPT-4 (`gpt4_pair`)."""
    rows = rows_of(shared / f"data/arena/mtbench/{file}.jsonl")
    outcomes = [{"model_a": 1.0, "model_b": 0.0}.get(row["winner"], 0.5) for row in rows]
    return battles_between([(row["model_a"], row["model_b"]) for row in rows], outcomes)


def simulated(
    rng: np.random.Generator, *, n_models: int, n_prompts: int, per_prompt: int, spread: float
) -> tuple[Battles, NDArray[np.int64]]:
    """Return battles whose prompts favour some models, and their prompts; the last model is the best."""
    strengths = np.linspace(-1.0, 1.0, n_models)
    n = n_prompts * per_prompt
    first = rng.integers(0, n_models, n)
    second = (first + rng.integers(1, n_models, n)) % n_models
    prompts = np.repeat(np.arange(n_prompts), per_prompt)
    suits = rng.normal(0.0, spread, (n_prompts, n_models))
    score = strengths[first] - strengths[second] + suits[prompts, first] - suits[prompts, second]
    won = (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)
    outcome = np.where(rng.random(n) < 0.3, 0.5, won)
    return Battles(first, second, outcome, n_models), prompts
