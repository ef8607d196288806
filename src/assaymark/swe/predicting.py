"""Predictions of a model: one shot, or as an agent; each attempt is stored as it ends, and not made again.

One shot is asked with the issue and files of the repository: named ones, or those that BM25 finds.
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assaymark.drafts import draft_folder, write_whole
from assaymark.errors import DataError, ModelError, PlanError, write_errors
from assaymark.models.cost.prices import Price
from assaymark.models.model import Model
from assaymark.records import GenerationSettings, content_hash
from assaymark.stopping import raise_if_requested
from assaymark.store.connection import OpenStore
from assaymark.swe.agent import AgentLimits, Asker, run_agent
from assaymark.swe.base_copies import Repositories, copy_tree, files_of, make_base_copy
from assaymark.swe.environments import Environments
from assaymark.swe.grading_log import GradingLog, StoredAttempt
from assaymark.swe.instances import Instance, Prediction, paths_of_patch, text_sha
from assaymark.swe.sandbox import SweLimits

LARGEST_FILE = 1 << 20  # bytes that are indexed
_TOKEN = re.compile(r"[a-z0-9]+|[A-Z][a-z0-9]*")
_BLOCK = re.compile(r"<patch>\n?(.*?)</patch>|```(?:diff|patch)[ \t]*\n(.*?)```", re.DOTALL)
_PROMPT = (
    "You will be provided with a partial code base and an issue statement explaining a problem to resolve.\n\n"
    "<issue>\n{issue}\n</issue>\n\n<code>\n{code}\n</code>\n\n"
    "Answer with one patch that resolves the issue, in the format of `git diff`, in a block:\n\n"
    "```diff\ndiff --git a/FILE b/FILE\n--- a/FILE\n+++ b/FILE\n@@ ...\n```\n"
)
PROMPTS = 1  # counts into what an attempt is stored under


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """How patches are written.

    Attributes:
        repositories: where they are.
        environments: whose interpreter an agent has.
        how: agent, oracle (one shot with the files of the gold patch) or bm25 (one shot with retrieved files).
        name: of the model in predictions; empty: its own.
        settings: of generation.
        most_characters: of files in a one-shot question.
        agent: limits of the agent.
        limits: of its commands.
        attempt: number, so that an instance can be tried again.
        price: of the model; None: not known, and `agent.cost` limits nothing. No part of what an attempt is stored
            under: an attempt that is stored keeps its cost.
    """

    repositories: Repositories
    environments: Environments
    how: str = "agent"
    name: str = ""
    settings: GenerationSettings = field(default_factory=lambda: GenerationSettings(max_tokens=4096))
    most_characters: int = 60_000
    agent: AgentLimits = field(default_factory=AgentLimits)
    limits: SweLimits = field(default_factory=SweLimits)
    attempt: int = 1
    price: Price | None = None


def predict(
    store: OpenStore,
    instances: Sequence[Instance],
    model: Model,
    options: PredictOptions,
    notify: Callable[[str], None] = lambda _: None,
) -> tuple[list[Prediction], dict[str, str]]:
    """Let a model write a patch for each instance.

    Returns: the predictions, and instance id -> why there is none: its repository or the model's answer is missing.
    Raises: UsageError for a model that generates no text; PlanError without a sandbox; StoreError.
    """
    asker, log = Asker(model, options.settings, options.price), GradingLog(store)
    name = options.name or model.identity.name
    predictions: list[Prediction] = []
    failures: dict[str, str] = {}
    for instance in instances:
        raise_if_requested()
        try:
            attempt = _attempt(log, asker, instance, name, options)
        except (DataError, PlanError, ModelError) as error:
            failures[instance.instance_id] = str(error)
            notify(f"{instance.instance_id}: {error}")
            continue
        info = attempt.trajectory["info"]
        submission = info["submission"] if isinstance(info, Mapping) else ""
        predictions.append(Prediction(instance.instance_id, name, str(submission)))
        notify(f"{instance.instance_id}: {attempt.exit_status} after {attempt.n_calls} calls")
    return predictions, failures


def _attempt(log: GradingLog, asker: Asker, instance: Instance, name: str, options: PredictOptions) -> StoredAttempt:
    environment = options.environments.of(instance)
    how: list[object] = [PROMPTS, options.how, options.attempt, asdict(options.settings), instance.problem_statement]
    how += [asdict(options.agent), environment.sha] if options.how == "agent" else [options.most_characters]
    key = text_sha(content_hash([name, asdict(asker.model.identity), instance.instance_id, instance.sha, how]))
    if (stored := log.attempt(key)) is not None:
        return stored
    source = options.repositories.folder_of(instance.repo)
    with draft_folder() as folder:
        make_base_copy(source, instance.base_commit, folder / "base")
        if options.how == "agent":
            copy_tree(folder / "base", folder / "work")
            (folder / "scratch").mkdir(mode=0o1777)
            run = run_agent(asker, instance, folder, environment, options.agent, options.limits)
            status, patch, n_calls, cost = run.exit_status, run.patch, run.n_calls, run.cost
            trajectory = dict(run.trajectory)
        else:
            status, n_calls = "Submitted", 1
            patch, cost, trajectory = _one_shot(asker, instance, folder / "base", options)
    made = StoredAttempt(key, instance.instance_id, name, text_sha(patch), status, n_calls, cost, trajectory)
    log.add_attempt(made)
    return made


def _one_shot(
    asker: Asker, instance: Instance, base: Path, options: PredictOptions
) -> tuple[str, float | None, dict[str, object]]:
    prompt = one_shot_prompt(instance, chosen_files(instance, base, options.how, options.most_characters))
    reply = asker.ask([("user", prompt)])
    patch = extract_patch(reply.text)
    info = {
        "model_stats": {"instance_cost": reply.cost or 0.0, "api_calls": 1},
        "config": {"one_shot": options.how, "model": {"model_name": asker.model.identity.name}},
        "exit_status": "Submitted",
        "submission": patch,
    }
    messages = [
        {"role": "user", "content": prompt, "extra": {}},
        {"role": "assistant", "content": reply.text, "extra": {"cost": reply.cost, "timestamp": time.time()}},
    ]
    return patch, reply.cost, {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}


def write_trajectories(store: OpenStore, predictions: Sequence[Prediction], folder: Path) -> None:
    """Write the latest stored attempt of each prediction as `{instance}.traj.json`, mini-swe-agent's form.

    Raises: DataError where a file cannot be written.
    """
    log = GradingLog(store)
    for each in predictions:
        attempts = log.attempts_of(each.patch_sha, each.instance_id, each.model_name_or_path)
        path = folder / f"{each.instance_id}.traj.json"
        with write_errors(path, kind=DataError):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(attempts[-1].trajectory, indent=2) + "\n")


def bm25_order(query: str, documents: Mapping[str, str]) -> list[str]:
    """Return the names of documents, the best match first; equal ones by name.

    sum over tokens of ln(1 + (N - n + 0.5)/(n + 0.5)) f (k1 + 1) / (f + k1 (1 - b + b length/mean length)).

    Args:
        query: its tokens count once each.
        documents: name -> text; the name is part of the text.

    Source: Robertson and Zaragoza 2009; k1 and b are Pyserini's, with which SWE-bench's files were retrieved.
    """
    k1, b = 0.9, 0.4  # how slowly repeated tokens count less, how much long documents are reduced
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
