"""Prompts of a study that a model has drafted: a person accepts them one by one before they are used."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from assaymark.arena.export import cluster_prompts
from assaymark.drafts import write_whole
from assaymark.errors import DataError, UsageError, write_errors
from assaymark.limits.yaml_documents import load_yaml
from assaymark.models.model import Model
from assaymark.models.plain_prompts import PromptWriter
from assaymark.records import GenerationSettings, Output, Request
from assaymark.results.model_names import short_model_name

ROUNDS = 3  # of requests for each category: dropped texts are requested again, at most this often in all
LONGEST = 2000  # characters
MAX_TOKENS = 128
ASKED = (
    "Write one request that a person could send to an AI assistant. Kind of request: {category}. It is number {number} "
    "of a collection of very different ones. Reply with the request alone."
)
CONTINUED = "Requests that people sent to an AI assistant\n\nKind: {category}\nRequest {number}:"
STOP = ("\n\n", "\nKind:", "\nRequest")
_NUMBERED = re.compile(r"^(?:request\s*\d*\s*:|\d{1,3}[.):]|[-*•])\s+", re.IGNORECASE)
_QUOTES = (('"', '"'), ("“", "”"), ("'", "'"), ("`", "`"))
_WORD = re.compile(r"\w")
_HEAD = """\
# Prompts drafted by a model. Only those with `accepted: true` are compared: read each, correct it if need be, and
# accept it, or delete it. Then name this file in the study: `prompts: {name}`.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One drafted prompt."""

    category: str
    prompt: str
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafts of a model. dropped: number of texts by reason; sent: the first request of each category."""

    model: str
    form: str
    candidates: tuple[Candidate, ...]
    dropped: Mapping[str, int]
    sent: Mapping[str, str]
    seed: int


def draft_prompts(writer: PromptWriter, wanted: Mapping[str, int], known: Sequence[str] = (), seed: int = 0) -> Draft:
    """Let a model draft prompts of each category; empty ones, near-duplicates and those too long are dropped.

    Args:
        writer: asks the model; it samples at temperature 1.
        wanted: number of prompts of each category; it may remain unreached after three rounds.
        known: prompts that the study has already, which no candidate may repeat.

    Raises: UsageError if the model generates no text; ModelUnavailable.
    """
    model, form = writer.model, writer.form
    settings = GenerationSettings(
        MAX_TOKENS, STOP if form == "plain" else (), do_sample=True, temperature=1.0, seed=seed
    )
    kept: list[Candidate] = []
    dropped: Counter[str] = Counter()
    sent: dict[str, str] = {}
    n_asked: Counter[str] = Counter()
    for _ in range(ROUNDS):
        missing = Counter(wanted) - Counter(candidate.category for candidate in kept)
        requests = []
        for category, count in missing.items():
            requests += [_request(writer, settings, category, n_asked[category] + at) for at in range(count)]
            n_asked[category] += count
        for request in requests:
            sent.setdefault(request.task, request.prompt)
        for category, text in _texts(model, requests, dropped):
            earlier = [*known, *(candidate.prompt for candidate in kept)]
            why = _why_dropped(text, earlier)
            if why is None:
                kept.append(Candidate(category, text))
            else:
                dropped[why] += 1
    kept.sort(key=lambda candidate: list(wanted).index(candidate.category))
    return Draft(short_model_name(model.identity.name), form, tuple(kept), dict(dropped), sent, seed)


def _request(writer: PromptWriter, settings: GenerationSettings, category: str, index: int) -> Request:
    texts = [text.format(category=category, number=index + 1) for text in (ASKED, CONTINUED)]
    return writer.request(category, index, texts[0], settings, plain=texts[1])


def _texts(model: Model, requests: Sequence[Request], dropped: Counter[str]) -> list[tuple[str, str]]:
    """Return the category and the cleaned text of each answered request, in the order of the requests."""
    outputs: dict[str, Output] = {output.request_id: output for output in model.answer(requests)}
    texts = []
    for request in requests:
        output = outputs.get(request.id)
        if output is None or output.text is None:
            dropped["failed"] += 1
        else:
            texts.append((request.task, cleaned(output.text)))
    return texts


def cleaned(text: str) -> str:
    """Return a drafted text without numbering, quotation marks around it and surrounding space."""
    unnumbered = _NUMBERED.sub("", text.strip()).strip()
    for first, last in _QUOTES:
        if len(unnumbered) > 1 and unnumbered.startswith(first) and unnumbered.endswith(last):
            return unnumbered[1:-1].strip()
    return unnumbered


def _why_dropped(text: str, earlier: Sequence[str]) -> str | None:
    if not _WORD.search(text):
        return "empty"
    if len(text) > LONGEST:
        return "too long"
    return "near-duplicate" if cluster_prompts([*earlier, text])[-1] != len(earlier) else None


class _DraftDumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


_DraftDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def write_drafts(path: Path, draft: Draft) -> None:
    """Write candidates as YAML, none of them accepted. Raises: UsageError if the file exists or cannot be written."""
    if path.exists():
        raise UsageError(f"{path} exists; name another file with -o, so that what was accepted is not lost")
    content = {
        "drafted_by": draft.model, "form": draft.form, "seed": draft.seed, "sent": dict(draft.sent),
        "candidates": [
            {"category": candidate.category, "accepted": candidate.accepted, "prompt": candidate.prompt}
            for candidate in draft.candidates
        ],
    }  # fmt: skip
    text = yaml.dump(content, Dumper=_DraftDumper, sort_keys=False, allow_unicode=True, width=110)
    with write_errors(path, "name another file with -o", kind=UsageError):
        write_whole(path, _HEAD.format(name=path.name) + text)


def read_drafts(path: Path) -> tuple[Candidate, ...]:
    """Return the candidates of a file.

    Raises: DataError for a file that is not one, with the candidate and what was expected.
    """
    try:
        contents = load_yaml(path.read_bytes())
    except (OSError, DataError) as error:
        raise DataError(f"{path} cannot be read: {error}; `assaymark study draft` writes such a file") from error
    rows = contents.get("candidates") if isinstance(contents, dict) else None
    if not isinstance(rows, list):
        raise DataError(f"{path} has no list `candidates`; `assaymark study draft` writes such a file")
    return tuple(_candidate(path, number, row) for number, row in enumerate(rows, start=1))


def accepted_of(path: Path, drafted: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of a file that were accepted. Raises: DataError if there is none."""
    accepted = [candidate for candidate in drafted if candidate.accepted]
    if not accepted:
        raise DataError(
            f"{path}: none of {len(drafted)} prompts is accepted; read them and set `accepted: true` where you accept "
            "one"
        )
    return accepted


def _candidate(path: Path, number: int, row: object) -> Candidate:
    values = row if isinstance(row, dict) else {}
    category, prompt, accepted = (values.get(name) for name in ("category", "prompt", "accepted"))
    if not isinstance(prompt, str) or not prompt.strip() or not isinstance(category, str):
        raise DataError(f"{path}, candidate {number}: expected category and prompt as texts, and accepted")
    if not isinstance(accepted, bool):
        raise DataError(f"{path}, candidate {number}: `accepted` is {accepted!r}; expected true or false")
    return Candidate(category, prompt.strip(), accepted)
