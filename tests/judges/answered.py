"""Stored runs with known answers: each model's answers come from a real chat server that tells which model it is."""

import json
from pathlib import Path
from typing import Any

import assaymark
from assaymark.store import Store
from tests.judges.judge_server import judging_server

QUESTIONS = [f"What is special about the number {n}?" for n in range(8)]


def questions_task(folder: Path, *, turns: int = 1, questions: list[str] = QUESTIONS) -> str:
    """Write a small open-ended task of one or two turns, and return its file."""
    rows = [
        {"question_id": index, "turns": [question, "And of its double?"][:turns], "reference": f"fact {index}"}
        for index, question in enumerate(questions)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "turns.py").write_text("def turns(doc):\n    return list(doc['turns'])\n")
    (folder / "open_questions.yaml").write_text(
        "task: open_questions\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        "output_type: generate_until\nnum_fewshot: 0\ndoc_to_turns: !function turns.turns\n"
        "doc_to_target: reference\ngeneration_kwargs: {until: [], max_gen_toks: 32}\nmetric_list: []\n"
        "metadata: {version: 1.0}\n"
    )
    return str(folder / "open_questions.yaml")


def answered_run(model: str, task: str, store: Path, **options: Any) -> str:
    """Evaluate a task with a server whose every answer is `MODEL says: QUESTION`; return the run's id."""
    with judging_server(lambda text: f"{model} says: {text}") as server:
        arguments = {"model": model, "base_url": server.arguments.split("base_url=")[1].split(",")[0]}
        run = assaymark.evaluate("local-chat-completions", task, model_args=arguments, apply_chat_template=True,
                                 store=str(store), **options)  # fmt: skip
    with Store.open(str(store)) as opened:
        assert opened.run(run.id).status == "finished"
    return run.id
