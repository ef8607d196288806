"""Stored runs of an application's rows with known scores, made by a real evaluation of a chat server's answers."""

import json
from collections.abc import Sequence
from pathlib import Path

import assaymark
from assaymark.runs.run import Run
from tests.judges.judge_server import judging_server

__all__ = ["scored_run"]


def scored_run(folder: Path, model: str, right: Sequence[bool | None]) -> Run:
    """Return a run whose `exact_match` is 1 or 0 by row; None: the row's request fails.

    Runs in one folder have the same rows, as many as the first had at most.
    """
    rows = folder / "rows.jsonl"
    if not rows.exists():
        lines = [{"inputs": f"question {at}", "expected": f"answer {at}"} for at in range(len(right))]
        rows.write_text("".join(json.dumps(row) + "\n" for row in lines))
        (folder / "known_rows.yaml").write_text(
            "task: known_rows\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
            "output_type: generate_until\nnum_fewshot: 0\ndoc_to_text: '{{inputs}}'\ndoc_to_target: expected\n"
            "generation_kwargs: {until: [], max_gen_toks: 32}\nmetric_list: [{metric: exact_match}]\n"
            "metadata: {version: 1.0}\n"
        )

    def reply(text: str) -> str:
        at = int(text.removeprefix("question "))
        if right[at] is None:
            raise ConnectionError("the application failed")
        return f"answer {at}" if right[at] else "?"

    with judging_server(reply) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        arguments = server.arguments.replace("model=judge", f"model={model}")
        return assaymark.evaluate(
            "local-chat-completions", str(folder / "known_rows.yaml"), apply_chat_template=True, limit=len(right),
            model_args=f"{arguments},max_retries=1,retry_budget=1,num_concurrent=8", store=str(folder / "s.sqlite"),
        )  # fmt: skip
