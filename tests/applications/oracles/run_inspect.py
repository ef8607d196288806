"""Run in the environment of `inspect.txt`: run eval.yaml files with inspect-ai, on a model that says what it is told.

Reads a JSON list of {"eval_yaml": text, "rows": rows, "answers": [answers of each row, one for each call], "prompts":
whether prompts are returned, "grades": replies of each row's graders}; the rows' questions begin with "[0]", "[1]" and
so on. Writes for each of them the list of its tasks: the messages of each row's requests, each row's answers as they
were read and scored, the reduced scores by scorer (null for one that no grader gave), and what graders were asked, in
order. A row's only grader replies in turn, to as many answers as there are epochs.
"""

import json
import math
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["INSPECT_LOG_DIR"] = "logs"
os.environ["INSPECT_DISPLAY"] = "none"

import huggingface_hub
from inspect_ai import eval as run_tasks
from inspect_ai._eval.task import hf
from inspect_ai.dataset import json_dataset
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, modelapi

ANSWERS: list[list[str]] = []
SEEN: dict[int, list[list[Any]]] = {}
CALLS: Counter[int] = Counter()
GRADES: list[list[str]] = []
GRADED: dict[int, dict[str, list[str]]] = {}


class Told(ModelAPI):  # type: ignore[misc]
    """Says each row's answers in turn, and keeps what it was asked."""

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: GenerateConfig) -> ModelOutput:  # noqa: A002
        """Return the next answer to the row that the messages are of."""
        messages = [[message.role, _content(message)] for message in input]
        row = int(re.search(r"\[(\d+)\]", json.dumps(messages))[1])  # type: ignore[index]
        SEEN.setdefault(row, []).append(messages)
        CALLS[row] += 1
        return ModelOutput.from_content("told", ANSWERS[row][CALLS[row] - 1])


def _content(message: Any) -> Any:
    if isinstance(message.content, str):
        return message.content
    return [part.text if part.type == "text" else {"image": part.image} for part in message.content]


modelapi(name="told")(Told)


class Judge(ModelAPI):  # type: ignore[misc]
    """Replies to each row what the grader of its name does; the name is a position."""

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: GenerateConfig) -> ModelOutput:  # noqa: A002
        """Return the reply to the row that the prompt is of."""
        (message,) = input
        row = int(re.search(r"\[(\d+)\]", message.text)[1])  # type: ignore[index]
        asked = GRADED.setdefault(row, {}).setdefault(self.model_name, [])
        asked.append(message.text)
        return ModelOutput.from_content("judge", GRADES[row][int(self.model_name) + len(asked) - 1])


modelapi(name="judge")(Judge)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _of_task(task: Any, *, with_prompts: bool) -> dict[str, Any]:
    """Return what inspect asked and gave for one task."""
    SEEN.clear()
    CALLS.clear()
    GRADED.clear()
    graders = {"model_roles": {"grader": "judge/0"}} if GRADES else {}
    (log,) = run_tasks(task, **graders, model="told/told", max_samples=1, max_connections=1, score_display=False)
    if log.status != "success" or log.samples is None or log.results is None:
        return {"error": str(log.error.message if log.error else log.status)}
    rows: dict[int, dict[str, list[Any]]] = {}
    for sample in sorted(log.samples, key=lambda each: each.epoch):
        for name, score in (sample.scores or {}).items():
            rows.setdefault(int(sample.id) - 1, {}).setdefault(name, []).append([_plain(score.value), score.answer])
    return {
        "prompts": [SEEN[row] for row in sorted(SEEN)] if with_prompts else [],
        "graded": [rows[row] for row in sorted(rows)],
        "reduced": {each.scorer: [_plain(one.value) for one in each.samples] for each in log.reductions or []},
        "values": {
            each.scorer: {name: _plain(m.value) for name, m in each.metrics.items()} for each in log.results.scores
        },
        **({"asked of graders": [GRADED[row] for row in sorted(GRADED)]} if GRADES else {}),
    }


def main() -> None:
    """Run every benchmark."""
    made = []
    for number, benchmark in enumerate(json.load(sys.stdin)):
        folder = Path(f"benchmark{number}")
        folder.mkdir(exist_ok=True)
        (folder / "eval.yaml").write_text(benchmark["eval_yaml"], encoding="utf-8")
        rows = folder / "test.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in benchmark["rows"]), encoding="utf-8")
        huggingface_hub.hf_hub_download = lambda *_, here=folder, **__: str(here / "eval.yaml")
        hf.hf_dataset = lambda *_, here=rows, sample_fields, **__: json_dataset(str(here), sample_fields, auto_id=True)
        ANSWERS[:] = benchmark["answers"]
        GRADES[:] = benchmark["grades"]
        try:
            tasks = hf.task_create_from_hf("hf/org/name")
        except Exception as error:  # noqa: BLE001 - that it is refused is the answer
            made.append([{"error": f"{type(error).__name__}: {error}"[:200]}])
            continue
        made.append([_of_task(task, with_prompts=benchmark["prompts"]) for task in tasks])
    sys.stdout.write(json.dumps(made))


if __name__ == "__main__":
    main()
