"""A conversation as a task of one sample: a YAML file and its JSONL, which `assaymark run --tasks` evaluates."""

import json
from collections.abc import Sequence
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import DataError, UsageError
from assaymark.records import GenerationSettings, Message


def save_as_task(
    path: Path,
    messages: Sequence[Message],
    system: str | None,
    settings: GenerationSettings,
    *,
    plain: str | None = None,
) -> tuple[Path, Path]:
    """Append the conversation to PATH.jsonl and write PATH.yaml; return both paths.

    A sample has the user's turns and, as the reference of each, the answer that was given. Where the model has no
    template, `plain` is the text before its last answer, and that is the sample's prompt. A second conversation saved
    under the same path is a second sample.

    Raises: UsageError for an empty conversation or a path that cannot be a task; DataError if it cannot be written.
    """
    if not messages:
        raise UsageError("there is nothing to save yet")
    stem = path.with_suffix("") if path.suffix in {".yaml", ".yml", ".jsonl"} else path
    if not stem.name.replace("_", "").replace("-", "").isalnum():
        raise UsageError(f"'{stem.name}' cannot be a task's name; expected letters, digits, - and _")
    rows, task = stem.with_name(stem.name + ".jsonl"), stem.with_name(stem.name + ".yaml")
    row = _row([message.text for message in messages], plain)
    text = _task(rows.stem, None if plain else system, settings, is_plain=plain is not None)
    try:
        if task.exists() and task.read_text(encoding="utf-8") != text:
            raise UsageError(f"{task} exists with another system prompt or other settings; save under another name")
        before = rows.read_text(encoding="utf-8") if rows.exists() else ""
        write_whole(rows, before + row)
        write_whole(task, text)
    except (OSError, UnicodeError) as error:
        raise DataError(f"{stem} cannot be written: {error}") from error
    return task, rows


def task_texts(
    name: str, texts: Sequence[str], system: str | None, settings: GenerationSettings
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return (file name, text) of the task file and of its rows, for a conversation under a template.

    Args:
        name: of the task: letters, digits, - and _.
        texts: questions and answers in turn.
        settings: under which the answers were generated.
    """
    return (f"{name}.yaml", _task(name, system, settings, is_plain=False)), (f"{name}.jsonl", _row(texts, None))


def _row(texts: Sequence[str], plain: str | None) -> str:
    row = {"turns": texts[0::2], "answers": texts[1::2]} if plain is None else {"prompt": plain, "answer": texts[-1]}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _task(name: str, system: str | None, settings: GenerationSettings, *, is_plain: bool) -> str:
    """Return the task file; JSON strings are YAML strings, but for escapes of surrogate pairs."""
    generation: dict[str, object] = {"until": list(settings.stop), "max_gen_toks": settings.max_tokens or 256}
    if settings.do_sample:
        generation |= {"do_sample": True, "temperature": settings.temperature, "seed": settings.seed}
        generation |= {
            key: value for key in ("top_p", "top_k", "min_p") if (value := getattr(settings, key)) is not None
        }
    lines = [
        "# A conversation saved from a chat. exact_match compares each answer with the one given then.",
        f"task: {json.dumps(name, ensure_ascii=False)}",
        "dataset_path: json",
        f"dataset_kwargs: {{data_files: {{test: {json.dumps(f'{name}.jsonl', ensure_ascii=False)}}}}}",
        "test_split: test",
        "output_type: generate_until",
        "num_fewshot: 0",
        *(
            ["doc_to_text: prompt", "doc_to_target: answer"]
            if is_plain
            else ["doc_to_turns: turns", "doc_to_target: answers"]
        ),
        f"generation_kwargs: {json.dumps(generation, ensure_ascii=False)}",
        "metric_list:",
        "  - {metric: exact_match, aggregation: mean, higher_is_better: true}",
    ]
    if system:
        lines.insert(7, f"description: {json.dumps(system, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
