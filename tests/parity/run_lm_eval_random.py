"""Have lm-evaluation-harness evaluate random task files with a model whose answers follow from the prompts.

Usage: python -m tests.parity.run_lm_eval_random SPEC.json OUT.json. Of each task: its requests' digest and its values,
or the error with which it ended.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.parity.random_tasks import log_likelihood, write_task, written


def main(spec_path: str, out_path: str) -> None:
    """Evaluate the task file of every seed."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.models.utils import normalize_gen_kwargs
    from lm_eval.tasks import TaskManager

    import datasets

    datasets.disable_progress_bars()

    class Hashing(LM):  # type: ignore[misc]
        """A model that needs no weights, and notes what it was asked."""

        def __init__(self) -> None:
            super().__init__()
            self.asked: list[list[Any]] = []

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            self.asked += [["choice", *request.args] for request in requests]
            return [log_likelihood("choice", *request.args) for request in requests]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            self.asked += [["rolling", *request.args] for request in requests]
            return [log_likelihood("rolling", "", *request.args)[0] for request in requests]

        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            repeats, texts = Counter[tuple[str, int]](), []
            for request in requests:
                context, given = request.args
                options = normalize_gen_kwargs(given)
                self.asked.append(["written", context, options["until"], options["max_gen_toks"]])
                texts.append(written(context, options["until"], repeats[request.task_name, request.doc_id]))
                repeats[request.task_name, request.doc_id] += 1
            return texts

        def chat_template(self, *_: Any) -> str:
            return "role: text"

        def apply_chat_template(self, history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            text = "\n".join(f"{turn['role']}: {turn['content']}" for turn in history)
            return f"{text}\nassistant:" if add_generation_prompt else text

        tokenizer_name = "none"

    answers: dict[str, Any] = {}
    for seed in range(json.loads(Path(spec_path).read_text())["n"]):
        with tempfile.TemporaryDirectory() as place:
            options = write_task(Path(place), seed)
            model = Hashing()
            try:
                made = simple_evaluate(
                    model=model, tasks=["drawn"], bootstrap_iters=10, log_samples=False, verbosity="ERROR",
                    task_manager=TaskManager(include_path=place, include_defaults=False), **options,
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 - what it raises for a file that it cannot evaluate
                answers[str(seed)] = {"error": f"{type(error).__name__}: {error}"}
                continue
        values = {
            f"{task},{name}": value if isinstance(value, int | float) else None
            for task, row in made["results"].items()
            for name, value in row.items()
            if "," in name
        }
        answers[str(seed)] = {"asked": sorted(map(json.dumps, model.asked)), "values": values}
    Path(out_path).write_text(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
