"""Golden prompts: digests of lm-eval's prompts, and the conversion of ours for comparison.

For each task and setup (shots, chat) two digests are stored: of the prompts as lm-eval hashes them (`prompt_hash`, the
first request's context), and of complete requests (contexts, continuations, stop texts). The first twelve digits of
each prompt's hash show which sample differs.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.records import GenerateQuery, LoglikelihoodQuery, Request, RollingQuery

FOLDER = Path(__file__).parent / "goldens"
N_SAMPLES = 100


@dataclass(frozen=True)
class Setup:
    """Number of shots and chat options of a task's prompts."""

    name: str
    num_fewshot: int
    chat: bool = False
    multiturn: bool = False
    system_instruction: str | None = None


SETUPS = (
    Setup("0-shot", 0),
    Setup("5-shot", 5),
    Setup("chat-0-shot", 0, chat=True, multiturn=True),
    Setup("chat-5-shot-turns", 5, chat=True, multiturn=True, system_instruction="Answer briefly."),
    Setup("chat-5-shot-one-message", 5, chat=True),
)

FAMILIES: dict[str, tuple[str, ...]] = {
    "arc": ("arc_easy", "arc_challenge"),
    "hellaswag": ("hellaswag",),
    "mmlu": ("mmlu",),
    "truthfulqa": ("truthfulqa_mc1", "truthfulqa_mc2"),
    "winogrande": ("winogrande",),
    "boolq": ("boolq",),
    "piqa": ("piqa",),
    "social_iqa": ("social_iqa",),
    "openbookqa": ("openbookqa",),
    "sciq": ("sciq",),
    "commonsense_qa": ("commonsense_qa",),
    "lambada": ("lambada_openai",),
    "wikitext": ("wikitext",),
    "agieval": ("agieval",),
    "race": ("race",),
    "logiqa": ("logiqa",),
    "musr": ("leaderboard_musr",),
    "gpqa": (
        *("gpqa_main_zeroshot", "gpqa_diamond_zeroshot", "gpqa_extended_zeroshot", "leaderboard_gpqa"),
        *("gpqa_main_n_shot", "gpqa_diamond_n_shot", "gpqa_extended_n_shot"),
    ),
    "bbh": ("leaderboard_bbh",),
}

Requests = Sequence[Sequence[Any]]  # per sample its requests, each (context, continuation), (text,) or (context, stops)


def sha(text: str) -> str:
    """Return the hex sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest(samples: Iterable[Requests], *, short: bool) -> dict[str, Any]:
    """Return the digests of the requests of a task's first samples."""
    plain = [
        [[str(part) if isinstance(part, str) else part for part in query] for query in queries] for queries in samples
    ]
    prompts = [sha(queries[0][0]) for queries in plain]
    return {
        "n": len(plain),
        "prompts": sha("\n".join(prompts)),
        "asked": sha(json.dumps(plain, ensure_ascii=False)),  # a key of the golden files
        "each": "".join(prompt[:12] for prompt in (prompts[:1] if short else prompts)),
    }


def queries_of(request: Request) -> list[list[Any]]:
    """Return the queries of one of our requests as lm-eval's request arguments."""
    results: list[list[Any]] = []
    for query in request.queries:
        if isinstance(query, LoglikelihoodQuery):
            results.append(
                ["".join(request.segments if query.segments is None else query.segments), query.continuation]
            )
        elif isinstance(query, RollingQuery):
            results.append([query.text])
        elif isinstance(query, GenerateQuery):
            results.append(["".join(request.segments), list(query.settings.stop)])
    return results


def differing(each: str, mine: Sequence[Requests]) -> list[int]:
    """Return the samples whose prompt differs from the stored digits."""
    stored = [each[i : i + 12] for i in range(0, len(each), 12)]
    return [
        i for i, (digits, queries) in enumerate(zip(stored, mine, strict=False)) if sha(queries[0][0])[:12] != digits
    ]
