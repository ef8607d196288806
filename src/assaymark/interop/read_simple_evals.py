"""Reader of simple-evals' JSON: `<eval>_<model>_<time>_allresults.json` with every conversation, or the totals alone.

A conversation's score is only in the HTML page that simple-evals renders of it, and is read from there. Values of
categories are imported as totals, since the files do not assign conversations to categories.
Source: https://github.com/openai/simple-evals (common.py, simple_evals.py)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, ForeignSample, Importer
from assaymark.interop.log_files import json_object
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.records.json_values import float_at, list_at, object_at, objects_of
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput

SCORE = "score"
FILE_NAME = re.compile(
    r"(?P<task>healthbench_(?:hard|consensus|meta)|[^_]+)_(?P<model>.+?)_(?P<time>\d{8}_\d{6})(?:_DEBUG)?(?:_allresults)?"
)
CHOICES = {"mmlu": 4, "gpqa": 4}
_SHOWN = r"<p>{}: (.*?)</p>"


def is_simple_evals(path: Path) -> bool:
    """Return whether a file has the name and keys of simple-evals' files."""
    if path.suffix != ".json" or not path.is_file() or FILE_NAME.fullmatch(path.stem) is None:
        return False
    return SCORE in json_object(path)


def read_simple_evals(path: Path) -> ForeignRun:
    """Return the run in a file of simple-evals; the totals alone have no samples.

    Raises: DataError if a file is not in simple-evals' format.
    """
    named = FILE_NAME.fullmatch(path.stem)
    if named is None:
        raise DataError(f"{path.name} is not a file name of simple-evals: <eval>_<model>_<date>_<time>.json")
    content = json_object(path)
    task, totals = named["task"], object_at(content, "metrics") or content
    samples = tuple(_samples(task, content)) if content.get("htmls") else ()
    reported = (
        [ReportedValue(task, SCORE, float_at(content, SCORE), None, len(samples))] if content[SCORE] is not None else []
    )
    reported += [
        ReportedValue(task, name, float(value))
        for name, value in totals.items()
        if name != SCORE and not name.endswith((":std", ":min", ":max")) and isinstance(value, int | float)
    ]
    return ForeignRun(
        tool="simple-evals",
        model=named["model"],
        date=named["time"],
        tasks=(TaskSummaryInput(task, (MetricInput(SCORE),), "generate_until", primary_metric=SCORE),),
        samples=samples,
        reported=tuple(reported),
        files=(path,),
    )


def _samples(task: str, content: Mapping[str, JsonValue]) -> Iterator[ForeignSample]:
    pages, conversations = list_at(content, "htmls"), list_at(content, "convos")
    if len(pages) != len(conversations):
        raise DataError(f"{len(pages)} pages and {len(conversations)} conversations; expected one of each per sample")
    for index, (page, conversation) in enumerate(zip(pages, conversations, strict=True)):
        *messages, answer = objects_of(conversation, "convos")
        score, target = _text_on_page(page, "Score"), _text_on_page(page, "Correct Answer")
        yield ForeignSample(
            task=task,
            index=index,
            row={"messages": messages, "target": target},
            prompt=_text(messages),
            target=target or "",
            scores={SCORE: _number(score)},
            answers=(str(answer.get("content", "")),),
            n_choices=CHOICES.get(task),
        )


def _text_on_page(page: object, what: str) -> str | None:
    text = page or ""
    if not isinstance(text, str):
        raise TypeError(f"htmls has {page!r:.60}; expected the text of a page")
    match = re.search(_SHOWN.format(what), text, re.DOTALL)
    return unescape(match[1]).strip() if match else None


def _number(text: str | None) -> float | None:
    """Return a score that Jinja rendered: a number, or True or False."""
    if text in {"True", "False"}:
        return float(text == "True")
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _text(messages: Sequence[Mapping[str, object]]) -> str:
    texts = []
    for message in messages:
        content = message.get("content", "")
        parts = content if isinstance(content, list) else [content]
        texts += [str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in parts]
    return "\n\n".join(text for text in texts if text)


IMPORTER = Importer(is_simple_evals, read_simple_evals, "simple-evals' JSON")
