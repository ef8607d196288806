"""One answer of a model with a patch, from the issue and files of the repository: named ones, or those BM25 finds."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from assaymark.swe.base_copies import files_of
from assaymark.swe.instances import Instance, paths_of_patch

LARGEST_FILE = 1 << 20  # bytes that are indexed
_TOKEN = re.compile(r"[a-z0-9]+|[A-Z][a-z0-9]*")
_BLOCK = re.compile(r"<patch>\n?(.*?)</patch>|```(?:diff|patch)[ \t]*\n(.*?)```", re.DOTALL)
_PROMPT = (
    "You will be provided with a partial code base and an issue statement explaining a problem to resolve.\n\n"
    "<issue>\n{issue}\n</issue>\n\n<code>\n{code}\n</code>\n\n"
    "Answer with one patch that resolves the issue, in the format of `git diff`, in a block:\n\n"
    "```diff\ndiff --git a/FILE b/FILE\n--- a/FILE\n+++ b/FILE\n@@ ...\n```\n"
)


def bm25_order(query: str, documents: Mapping[str, str], k1: float = 0.9, b: float = 0.4) -> list[str]:
    """Return the names of documents, the best match first; equal ones by name.

    sum over tokens of ln(1 + (N - n + 0.5)/(n + 0.5)) f (k1 + 1) / (f + k1 (1 - b + b length/mean length)).

    Args:
        query: its tokens count once each.
        documents: name -> text; the name is part of the text.
        k1: how slowly repeated tokens count less.
        b: how much long documents are reduced.

    Source: Robertson and Zaragoza 2009; k1 and b are Pyserini's, with which SWE-bench's files were retrieved.
    """
    counts = {name: Counter(_tokens(f"{name}\n{text}")) for name, text in documents.items()}
    lengths = {name: sum(each.values()) for name, each in counts.items()}
    mean = sum(lengths.values()) / max(len(lengths), 1) or 1.0
    scores = dict.fromkeys(counts, 0.0)
    for token in set(_tokens(query)):
        having = [name for name, each in counts.items() if token in each]
        weight = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for name in having:
            n = counts[name][token]
            scores[name] += weight * n * (k1 + 1) / (n + k1 * (1 - b + b * lengths[name] / mean))
    return sorted(scores, key=lambda name: (-scores[name], name))


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(text)]


def chosen_files(instance: Instance, base: Path, how: str, most_characters: int) -> dict[str, str]:
    """Return path -> text of the files that are shown.

    Args:
        instance: whose issue is the query.
        base: a copy of its base commit.
        how: oracle (those that the gold patch changes) or bm25 (of the Python files).
        most_characters: of all; files that do not fit are left out.
    """
    texts: dict[str, str] = {}
    wanted = set(paths_of_patch(instance.patch))
    for name, path in sorted(files_of(base).items()):
        is_wanted = name in wanted if how == "oracle" else name.endswith(".py")
        if is_wanted and path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_FILE:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    order: Sequence[str] = list(texts) if how == "oracle" else bm25_order(instance.problem_statement, texts)
    chosen: dict[str, str] = {}
    for name in order:
        if sum(map(len, chosen.values())) + len(texts[name]) <= most_characters:
            chosen[name] = texts[name]
    return chosen


def one_shot_prompt(instance: Instance, files: Mapping[str, str]) -> str:
    """Return the question: the issue, and files with numbered lines."""
    parts = []
    for name, text in files.items():
        lines = "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), start=1))
        parts.append(f"[start of {name}]\n{lines}\n[end of {name}]")
    return _PROMPT.format(issue=instance.problem_statement, code="\n".join(parts))


def extract_patch(answer: str) -> str:
    """Return the last patch of an answer: a `<patch>` or a block of diff; an answer that is a diff; else nothing."""
    blocks: list[str] = [first or second for first, second in _BLOCK.findall(answer)]
    if blocks:
        return blocks[-1].strip("\n") + "\n"
    start = re.search(r"^(?:diff --git |--- a/)", answer, re.MULTILINE)
    return answer[start.start() :].strip("\n") + "\n" if start else ""
