"""Our version of lm-eval's table equals its own, character for character."""

import random
from typing import Any

import pytest

from assaymark.interop.lm_eval_files import lm_eval_table

VALUES = (0.0, 1.0, 0.25, 0.1234567, 803049.79, 1612878000.418423, -0.5, float("nan"), float("inf"), 999, "N/A")
ERRORS = (0.0, 0.5, 0.0123, 2.0, 12003440143100.234, "N/A", None)


def made_results(rng: random.Random) -> dict[str, Any]:
    """Return random results in lm-eval's format: tasks, groups inside groups, every kind of value."""
    names = [f"task{i}" for i in range(rng.randint(1, 5))]
    groups = {"group": names[:2], "top": ["group", names[-1]]} if len(names) > 2 and rng.random() < 0.6 else {}
    results, versions, shots = {}, {}, {}
    for name in [*names, *groups]:
        entry: dict[str, Any] = {"name": name, "alias": name * rng.randint(1, 3), "sample_len": 3}
        for metric in rng.sample(["acc", "acc_norm", "perplexity", "exact_match"], rng.randint(name in names, 3)):
            name_of_filter = rng.choice(["none", "strict-match"])
            entry[f"{metric},{name_of_filter}"] = rng.choice([*VALUES, rng.random()])
            if (error := rng.choice([*ERRORS, rng.random()])) is not None:
                entry[f"{metric}_stderr,{name_of_filter}"] = error
        results[name] = entry
        versions[name] = rng.choice([1.0, 2.0, "N/A", "1.0", 0.1])
        if rng.random() < 0.8:
            shots[name] = rng.choice([0, 5, 25])
    return {
        "results": results,
        "groups": {name: results[name] for name in groups},
        "versions": versions,
        "n-shot": shots,
        "higher_is_better": {name: {"acc": True, "perplexity": False, "exact_match": None} for name in results},
        "group_subtasks": groups,
    }


@pytest.mark.slow
@pytest.mark.oracle
def test_the_table_is_lm_evals_own_for_random_results() -> None:
    """120 random results print the same table as lm-eval's own printer, tasks and groups alike."""
    utils = pytest.importorskip("lm_eval.utils", reason="lm_eval is not installed: pip install '.[lm-eval]'")
    pytest.importorskip("pytablewriter")
    rng = random.Random(6)
    for _ in range(120):
        results = made_results(rng)
        assert lm_eval_table(results) == utils.make_table(results)
        if results["groups"]:
            assert lm_eval_table(results, "groups") == utils.make_table(results, "groups")


def test_the_table_of_one_task() -> None:
    """A table printed by lm-eval, for machines without lm-eval."""
    results = {
        "results": {
            "arc_easy": {
                "name": "arc_easy",
                "alias": "arc_easy",
                "sample_len": 6,
                "acc,none": 0.0,
                "acc_stderr,none": 0.0,
                "acc_norm,none": 0.3333333333333333,
                "acc_norm_stderr,none": 0.210818510677892,
            }
        },
        "versions": {"arc_easy": 1.0},
        "n-shot": {"arc_easy": 0},
        "higher_is_better": {"arc_easy": {"acc": True, "acc_norm": True}},
        "group_subtasks": {},
    }
    assert lm_eval_table(results) == (
        "| Tasks  |Version|Filter|n-shot| Metric |   |Value |   |Stderr|\n"
        "|--------|------:|------|-----:|--------|---|-----:|---|-----:|\n"
        "|arc_easy|      1|none  |     0|acc     |↑  |0.0000|±  |0.0000|\n"
        "|        |       |none  |     0|acc_norm|↑  |0.3333|±  |0.2108|\n"
    )
