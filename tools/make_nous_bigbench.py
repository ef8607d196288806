"""Write the 18 BIG-bench tasks of the Nous suite from the headers of their published task files.

Run as `python tools/make_nous_bigbench.py ../shared/data/google/bigbench_resources/task_headers.json`. The prompts are
those of dmahan93/lm-evaluation-harness, branch add-agieval (ca333d98), which YALL's table was made with: prefix of the
task, prefix of the example, input, its choices where the task wants them shown, prefix of the answer.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library" / "tasks" / "nous_bigbench"
# in the fork's data, not in the suite
NOT_IN_THE_SUITE = {"dyck_languages"}


def text_of(header: dict[str, Any]) -> str:
    """Return the prompt's template; the defaults are BIG-bench's."""
    result = header.get("choice_prefix", "\n  choice: ")
    choices = f"{{% for choice in shown %}}{result}{{{{choice}}}}{{% endfor %}}"
    return "".join(
        (
            header.get("task_prefix", ""),
            header.get("example_input_prefix", "\nQ: "),
            "{{input}}",
            choices if header.get("append_choices_to_input", True) else "",
            header.get("example_output_prefix", "\nA: "),
        )
    )


def files(headers: Path) -> dict[str, str]:
    """Return every file that is made, by name."""
    made: dict[str, dict[str, Any]] = {}
    for name, header in sorted(json.loads(headers.read_text(encoding="utf-8")).items()):
        if name not in NOT_IN_THE_SUITE:
            task = {"include": "_choice.yaml", "task": f"nous_bigbench_{name}", "dataset_name": name}
            made[f"nous_bigbench_{name}.yaml"] = {**task, "doc_to_text": text_of(header)}
    group = {"group": "nous_bigbench", "task": [Path(name).stem for name in made]}
    metric = {"metric": "multiple_choice_grade", "aggregation": "mean", "weight_by_size": False}
    made["nous_bigbench.yaml"] = {**group, "aggregate_metric_list": [metric], "metadata": {"version": 1.0}}
    return {
        name: yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110) for name, content in made.items()
    }


def main() -> None:
    """Write them."""
    for name, text in files(Path(sys.argv[1])).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
