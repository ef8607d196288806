"""Write the Eval Gauntlet's task files and its suite from the table of its version 0.3.

Run as `python -m tools.make_gauntlet`. Benchmarks, shots, baselines, categories and what stands between question and
answer are those of mosaicml/llm-foundry 8c8dd48f, `scripts/eval/yamls/tasks_v0.3.yaml` and `eval_gauntlet_v0.3.yaml`.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from tools.make_mmlu import SUBJECTS

LIBRARY = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library"
FOLDER = LIBRARY / "tasks" / "gauntlet"
JEOPARDY = ("american_history", "literature", "science", "word_origins", "world_history")
MMLU = tuple(sorted(subject for subjects in SUBJECTS.values() for subject in subjects))
ANSWER = "\nAnswer:"


class Benchmark(NamedTuple):
    """One line of the Gauntlet."""

    name: str
    kind: Literal["choices", "words", "schema", "written"]
    shots: int
    chance: float
    after: str = ""  # what the prompt ends with, after the question


CATEGORIES: dict[str, tuple[Benchmark, ...]] = {
    "world knowledge": (
        Benchmark("jeopardy", "words", 3, 0, ANSWER),
        Benchmark("bigbench_qa_wikidata", "words", 3, 0),
        Benchmark("arc_easy", "choices", 3, 0.25, ANSWER),
        Benchmark("arc_challenge", "choices", 3, 0.25, ANSWER),
        Benchmark("mmlu", "choices", 5, 0.25, ANSWER),
        Benchmark("triviaqa_sm_sub", "written", 3, 0),
    ),
    "commonsense reasoning": (
        Benchmark("copa", "choices", 0, 0.5),
        Benchmark("siqa", "choices", 3, 0.5),
        Benchmark("commonsense_qa", "choices", 0, 0.25),
        Benchmark("piqa", "choices", 0, 0.5, ANSWER),
        Benchmark("openbook_qa", "choices", 10, 0.25),
        Benchmark("bigbench_strange_stories", "choices", 0, 0.5),
        Benchmark("bigbench_strategy_qa", "choices", 0, 0.5),
    ),
    "language understanding": (
        Benchmark("lambada_openai", "words", 0, 0),
        Benchmark("hellaswag", "choices", 0, 0.25),
        Benchmark("winograd", "schema", 3, 0.5),
        Benchmark("winogrande", "schema", 5, 0.5),
    ),
    "symbolic problem solving": (
        Benchmark("bigbench_elementary_math_qa", "choices", 1, 0.25),
        Benchmark("bigbench_dyck_languages", "words", 5, 0),
        Benchmark("bigbench_operators", "words", 3, 0),
        Benchmark("simple_arithmetic_withspaces", "words", 5, 0),
        Benchmark("simple_arithmetic_nospaces", "words", 5, 0),
        Benchmark("gsm8k", "written", 0, 0),
        Benchmark("svamp", "written", 5, 0),
        Benchmark("agi_eval_lsat_ar", "choices", 5, 0.25),
    ),
    "reading comprehension": (
        Benchmark("squad", "words", 3, 0),
        Benchmark("boolq", "choices", 0, 0.5, ANSWER),
        Benchmark("coqa", "words", 0, 0),
        Benchmark("agi_eval_lsat_rc", "choices", 5, 0.25),
        Benchmark("agi_eval_lsat_lr", "choices", 5, 0.25),
        Benchmark("agi_eval_sat_en", "choices", 5, 0.25),
    ),
}
DIVIDED = {"jeopardy": JEOPARDY, "mmlu": MMLU}  # each category a task with shots of its own; they weigh alike
METRIC = {"choices": "acc_tokens", "words": "acc", "schema": "acc", "written": "prefix_match"}
QUESTION = {"choices": "query", "words": "context", "written": "context"}
NOTE = """Chance is taken off and the rest rescaled, nothing clipped; a category is the unweighted mean of its
benchmarks, the number the mean of five categories. A missing benchmark refuses the whole: the Gauntlet itself drops
its category without a word. Rows: scripts/eval/local_data of mosaicml/llm-foundry, each file as mosaicml/llm-
foundry/<benchmark>/test.jsonl in the data folder; they are trimmed copies, so no score compares with the benchmarks
they are named after. The first hundred prompts of 26 of the 31 files equal those of llm-foundry 8c8dd48f; the files of
hellaswag, elementary_math_qa, squad, coqa and mmlu were not at hand: of these, and in the tests of all, it is the
prompts of fixture rows in the same schemas. The Gauntlet tokenises question and answer apart, here they are
tokenised together."""


def task_file(one: Benchmark) -> dict[str, Any]:
    """Return the task of a benchmark."""
    made: dict[str, Any] = {"include": f"_{one.kind}.yaml", "task": f"gauntlet_{one.name}", "dataset_name": one.name}
    if one.shots:
        made["num_fewshot"] = one.shots
    if one.name in {"gsm8k", "svamp"}:
        made["include"] = "_reasoned.yaml"
        made["doc_to_text"] = f"{'Question: ' if one.name == 'svamp' else ''}{{{{context.strip()}}}}\n\nA:"
    elif one.after:
        made["doc_to_text"] = f"{{{{{QUESTION[one.kind]}.strip()}}}}{one.after}"
    return made


def divided_files(one: Benchmark) -> dict[str, dict[str, Any]]:
    """Return the tasks of a benchmark's categories and the group of them."""
    made = {}
    for category in DIVIDED[one.name]:
        own = {"task": f"gauntlet_{one.name}_{category}", "process_docs": f"!function rows.{category}"}
        made[f"gauntlet_{one.name}_{category}.yaml"] = task_file(one) | own
    group = {"group": f"gauntlet_{one.name}", "task": [name.removesuffix(".yaml") for name in made]}
    metric = {"metric": METRIC[one.kind], "aggregation": "mean", "weight_by_size": False}
    return made | {
        f"gauntlet_{one.name}.yaml": {**group, "aggregate_metric_list": [metric], "metadata": {"version": 0.3}}
    }


def member(one: Benchmark, column: str) -> dict[str, Any]:
    """Return a benchmark's line in the suite."""
    return {
        "task": f"gauntlet_{one.name}",
        "shots": one.shots,
        "metric": METRIC[one.kind],
        "chance": one.chance,
        "column": column,
    }


def text_of(content: dict[str, Any]) -> str:
    """Return a file's text; a function's name is written with its tag."""
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
    return "".join(
        line.replace("'!function ", "!function ").replace("'\n", "\n") if "'!function " in line else line
        for line in text.splitlines(keepends=True)
    )


def suite_text() -> str:
    """Return the suite's file."""
    head = {"name": "gauntlet-v0.3", "aliases": ["gauntlet", "eval-gauntlet"], "version": "2",
            "title": "Mosaic Eval Gauntlet v0.3", "profile": "gauntlet-v0.3"}  # fmt: skip
    members = [member(each, column) for column, ones in CATEGORIES.items() for each in ones]
    lines = [yaml.safe_dump(item, default_flow_style=True, sort_keys=False, width=1000).strip() for item in members]
    tail = {"normalise": "chance", "clip": False, "missing": "refuse", "group_by": "column", "aggregate": "mean",
            "reproduced": True}  # fmt: skip
    note = "\n".join(f"  {line}" for line in NOTE.split("\n"))
    return "".join(
        (
            yaml.safe_dump(head, sort_keys=False, width=1000),
            "members:\n",
            *(f"  - {line}\n" for line in lines),
            yaml.safe_dump(tail, sort_keys=False),
            f"note: >-\n{note}\n",
        )
    )


def files() -> dict[Path, str]:
    """Return every file that is made, by its place below the library."""
    made: dict[str, dict[str, Any]] = {}
    for ones in CATEGORIES.values():
        for each in ones:
            if each.name in DIVIDED:
                made |= divided_files(each)
            else:
                made[f"gauntlet_{each.name}.yaml"] = task_file(each)
    place = FOLDER.relative_to(LIBRARY)
    texts = {place / name: text_of(content) for name, content in made.items()}
    return texts | {Path("suites", "gauntlet-v0.3.yaml"): suite_text()}


def main() -> None:
    """Write them."""
    for place, text in files().items():
        (LIBRARY / place).parent.mkdir(parents=True, exist_ok=True)
        (LIBRARY / place).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
