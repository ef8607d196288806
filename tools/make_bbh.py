"""Write BIG-Bench Hard's task files from the prompts its authors published.

`python tools/make_bbh.py ../shared/data/SaylorTwift/bbh/_cot_prompts` reads `cot-prompts/*.txt` of
suzgunmirac/BIG-Bench-Hard (MIT): a line on what the task is, then three questions with worked answers. Three families
come of each: `bbh_cot_fewshot_<task>` with the worked answers, `bbh_cot_authors_<task>` with the same as their authors
put them, and `leaderboard_bbh_<task>` with the last word of each and the choices.
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library" / "tasks" / "bbh"
STEP = re.compile(r"^\s*Let's think step by step\.\s")
FINAL = re.compile(r"answer is (.*?)\.?$")

# Open LLM Leaderboard v2 put 24 of the 27 as choices; the number stands for that many letters in brackets
CHOICES: dict[str, int | list[str]] = {
    "boolean_expressions": ["False", "True"],
    "causal_judgement": ["Yes", "No"],
    "date_understanding": 6,
    "disambiguation_qa": 3,
    "formal_fallacies": ["valid", "invalid"],
    "geometric_shapes": 11,
    "hyperbaton": 2,
    "logical_deduction_five_objects": 5,
    "logical_deduction_seven_objects": 7,
    "logical_deduction_three_objects": 3,
    "movie_recommendation": 6,
    "navigate": ["Yes", "No"],
    "object_counting": [str(number) for number in range(19)],
    "penguins_in_a_table": 5,
    "reasoning_about_colored_objects": 18,
    "ruin_names": 6,
    "salient_translation_error_detection": 6,
    "snarks": 2,
    "sports_understanding": ["yes", "no"],
    "temporal_sequences": 4,
    "tracking_shuffled_objects_five_objects": 5,
    "tracking_shuffled_objects_seven_objects": 7,
    "tracking_shuffled_objects_three_objects": 3,
    "web_of_lies": ["Yes", "No"],
}


class Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent a text: a block if it has several lines."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, as_block)


def published(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return a published prompt's line on the task and its (question, worked answer) pairs."""
    body = path.read_text(encoding="utf-8").split("\n-----\n", 1)[1].rstrip("\n")
    description, *pairs = body.split("\n\nQ: ")
    split = [pair.split("\nA:", 1) for pair in pairs]
    return description, [(question, STEP.sub("", answer)) for question, answer in split]


def cot_file(name: str, description: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the task with worked answers."""
    return {
        "include": "../_cot_fewshot.yaml",
        "task": f"bbh_cot_fewshot_{name}",
        "dataset_name": name,
        "description": f"{description}\n\n",
        "fewshot_config": {
            "sampler": "first_n",
            "samples": [{"input": question, "target": answer} for question, answer in pairs],
        },
    }


def authors_file(name: str) -> dict[str, Any]:
    """Return the task with worked answers in its authors' form; one prompt has a space where others break a line."""
    made = {"include": [f"../cot_fewshot/bbh_cot_fewshot_{name}.yaml", "../_authors.yaml"]}
    own: dict[str, Any] = {"task": f"bbh_cot_authors_{name}", "metadata": {"version": 1.0}}
    return made | own | ({"target_delimiter": " "} if name == "sports_understanding" else {})


def leaderboard_file(name: str, description: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the task as choices; its description has no line end, so prompts begin as the board's did."""
    choices = CHOICES[name]
    finals = [FINAL.search(answer.strip()) for _, answer in pairs]
    return {
        "include": "../_leaderboard.yaml",
        "task": f"leaderboard_bbh_{name}",
        "dataset_name": name,
        "description": description,
        "doc_to_choice": [f"({chr(65 + i)})" for i in range(choices)] if isinstance(choices, int) else choices,
        "fewshot_config": {
            "sampler": "first_n",
            "samples": [
                {"input": question, "target": final.group(1) if final else ""}
                for (question, _), final in zip(pairs, finals, strict=True)
            ],
        },
    }


def group_file(name: str, members: list[str], metric: dict[str, Any], version: float | None) -> dict[str, Any]:
    """Return a group that weighs its members by size."""
    made: dict[str, Any] = {"group": name, "task": members, "aggregate_metric_list": [metric]}
    return made | ({"metadata": {"version": version}} if version else {})


def files(prompts: Path) -> dict[str, str]:
    """Return every file that is made, by its name below the folder."""
    made: dict[str, dict[str, Any]] = {}
    for path in sorted(prompts.glob("*.txt")):
        description, pairs = published(path)
        made[f"cot_fewshot/bbh_cot_fewshot_{path.stem}.yaml"] = cot_file(path.stem, description, pairs)
        made[f"authors/bbh_cot_authors_{path.stem}.yaml"] = authors_file(path.stem)
        if path.stem in CHOICES:
            made[f"leaderboard/leaderboard_bbh_{path.stem}.yaml"] = leaderboard_file(path.stem, description, pairs)
    worked = [Path(name).stem for name in made if name.startswith("cot_")]
    choices = [Path(name).stem for name in made if name.startswith("leaderboard")]
    size = {"aggregation": "mean", "weight_by_size": True}
    matched = {"metric": "exact_match", **size, "filter_list": "get-answer"}
    made["bbh.yaml"] = group_file("bbh", worked, matched, 3.0)
    made["bbh_cot_fewshot.yaml"] = group_file("bbh_cot_fewshot", worked, matched, 3.0)
    made["leaderboard_bbh.yaml"] = group_file("leaderboard_bbh", choices, {"metric": "acc_norm", **size}, None)
    return {
        name: yaml.dump(content, Dumper=Readable, sort_keys=False, allow_unicode=True, width=110)
        for name, content in made.items()
    }


def main() -> None:
    """Write them."""
    for name, text in files(Path(sys.argv[1])).items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
