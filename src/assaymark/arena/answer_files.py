"""Stored answers of models to the same prompts, for battles: from files, in AlpacaEval's format, or from stored runs.

Also who made the models, and their licences, from a file of the host.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assaymark.datasets.files import READABLE, read_files
from assaymark.documents.numbers import counted
from assaymark.errors import DataError, UnknownName, UsageError, few
from assaymark.registry import meant, nearest
from assaymark.store import RunRow, SampleRecord, Store
from assaymark.store.public_store import PublicStore, public_store

PROMPTS = ("instruction", "prompt", "question")
OUTPUTS = ("output", "answer", "response")
MODELS = ("generator", "model")
CATEGORIES = ("category", "dataset")
NAMES = ("model", "name")
MAKERS = ("organization", "organisation", "org")
LICENCES = ("license", "licence")
LISTED = 5  # models that a line names
Answers = dict[str, dict[str, str]]
_MAKERS = (
    *("openai", "chatgpt", "anthropic", "mistral ai", "meta ai", "deepmind", "google ai", "alibaba cloud"),
    *("tongyi qianwen", "lmsys", "vicuna", "deepseek", "cohere", "eleutherai", "hugging face"),
)
_NO_NAME = {"chat", "instruct", "model", "base", "small", "large", "medium", "mini", "turbo", "preview", "latest"}
_SHORTEST_NAME = 4  # letters: shorter parts of a model's name are ordinary words


@dataclass(frozen=True, slots=True)
class ArenaPrompt:
    """A prompt of a source."""

    id: str
    text: str
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt with the answers of two models, in the order in which the models were named."""

    prompt: ArenaPrompt
    first: str
    second: str


class StoredAnswers:
    """Answers in memory; see `stored_answers`."""

    def __init__(self, name: str, prompts: Mapping[str, ArenaPrompt], answers: Mapping[str, Mapping[str, str]]) -> None:
        self._name = name
        self._prompts = dict(prompts)
        self._answers = {model: dict(of_model) for model, of_model in answers.items()}
        self._shared: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def name(self) -> str:
        """The name of the source in the log."""
        return self._name

    @property
    def models(self) -> tuple[str, ...]:
        """The models that have answers."""
        return tuple(self._answers)

    @property
    def prompts(self) -> tuple[ArenaPrompt, ...]:
        """All prompts."""
        return tuple(self._prompts.values())

    def answer(self, model: str, prompt_id: str) -> str | None:
        """Return a model's answer to a prompt; None if it has none."""
        return self._answers[model].get(prompt_id)

    def shared(self, first: str, second: str) -> tuple[str, ...]:
        """Return the ids of the prompts to which both models have answers that differ."""
        if (first, second) not in self._shared:
            answers, other = self._answers[first], self._answers[second]
            self._shared[first, second] = tuple(key for key in answers if key in other and answers[key] != other[key])
        return self._shared[first, second]

    def draw(self, first: str, second: str, generator: np.random.Generator) -> Drawn | None:
        """Return a prompt with the answers of two models, each prompt with the same probability."""
        shared = self.shared(first, second)
        if not shared:
            return None
        key = shared[int(generator.integers(len(shared)))]
        return Drawn(self._prompts[key], self._answers[first][key], self._answers[second][key])


def stored_answers(
    name: str, prompts: Mapping[str, ArenaPrompt], answers: Mapping[str, Mapping[str, str]]
) -> tuple[StoredAnswers, tuple[str, ...]]:
    """Return a source without empty answers and without those that name a model, and lines that count both.

    Args:
        name: how the log calls it.
        prompts: by id.
        answers: model -> prompt id -> answer.

    Raises: DataError if fewer than two models have answers to a common prompt.
    """
    kept: dict[str, dict[str, str]] = {}
    n_named, n_empty = 0, 0
    for model, of_model in answers.items():
        nonempty = {key: text for key, text in of_model.items() if text.strip()}
        kept[model] = {key: text for key, text in nonempty.items() if not names_its_model(text, tuple(answers))}
        n_named += len(nonempty) - len(kept[model])
        n_empty += len(of_model) - len(nonempty)
    source = StoredAnswers(name, prompts, kept)
    pairs = [(a, b) for a in kept for b in kept if a < b]
    if not any(source.shared(a, b) for a, b in pairs):
        raise DataError(
            f"{name}: no two of {len(kept)} models ({', '.join(list(kept)[:5])}) have different answers to the same "
            "prompt; expected answers of at least two models to the same prompts"
        )
    notes = (
        (n_named, f"{counted(n_named, 'answer')} with the name of a model"),
        (n_empty, counted(n_empty, "empty answer")),
    )
    return source, tuple(f"left out: {what}" for n, what in notes if n)


def names_its_model(text: str, models: Sequence[str]) -> bool:
    """Return whether an answer contains a name of one of the models, or of a maker of models, as a word."""
    words = {word for model in models for word in _name_words(model)}
    lower = text.lower()
    return any(re.search(rf"\b{re.escape(word)}", lower) for word in (*words, *_MAKERS) if word in lower)


def contains_a_name(text: str, models: Sequence[str]) -> bool:
    """Return whether a text contains a model's whole name as a word, such as `gpt-4o`, whose parts are too short."""
    whole = {model.rsplit("/", 1)[-1].lower() for model in models} - _NO_NAME
    lower = text.lower()
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lower) for name in whole if name in lower)


def _name_words(model: str) -> list[str]:
    """Return the parts of a model's name that would give it away: `vicuna` of `lmsys/vicuna-7b-v1.5`."""
    parts = re.findall(r"[^\W\d_]+", model.rsplit("/", 1)[-1].lower())
    return [part for part in parts if len(part) >= _SHORTEST_NAME and part not in _NO_NAME]


def open_answers(
    sources: Sequence[str], store: Store, task: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> tuple[StoredAnswers, tuple[str, ...]]:
    """Return the answers of files and folders, or of runs, and lines on those that are left out.

    Args:
        sources: paths, or names of runs; nothing: the latest runs of the models that share a task.
        task: the generation task whose answers are used; None: the one that most models have.
        tell: receives a line about models that are left out.

    Raises: DataError, UsageError, UnknownName for what does not have answers of two models.
    """
    paths = [Path(source) for source in sources if Path(source).exists()]
    if paths and len(paths) < len(sources):
        missing = next(source for source in sources if not Path(source).exists())
        raise UsageError(f"'{missing}' is not a file or folder; expected either files or runs in --answers, not both")
    lost = next(
        (source for source in sources if not paths and ("/" in source or source.endswith(tuple(READABLE)))), None
    )
    if lost is not None:
        raise UsageError(f"--answers '{lost}': no such file or directory; expected one, or runs of the store")
    return answers_of_files(paths) if paths else answers_of_runs(store, sources, task, tell)


def answers_of_files(paths: Sequence[Path]) -> tuple[StoredAnswers, tuple[str, ...]]:
    """Return the answers of Parquet, JSONL, JSON or CSV files with instruction, output and generator in each row.

    Folders stand for the files in them. A file without a column of models has the answers of one model, by its name.

    Raises: DataError, also for a row without a prompt or model, and for two answers of a model to one prompt.
    """
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    files = [file for file in files if file.name.endswith(tuple(READABLE))]
    if not files:
        raise DataError(f"no files in {', '.join(map(str, paths))}; expected one of {', '.join(READABLE)}")
    prompts: dict[str, ArenaPrompt] = {}
    answers: Answers = {}
    for file in files:
        rows = read_files([file])
        prompt, output = (_column(rows.column_names, names, file) for names in (PROMPTS, OUTPUTS))
        model = next((name for name in MODELS if name in rows.column_names), None)
        category = next((name for name in CATEGORIES if name in rows.column_names), None)
        for number, row in enumerate(rows, 1):
            for column in (prompt, model):
                if column is not None and not _cell(row[column]).strip():
                    raise DataError(f"{file}, row {number}: column '{column}' is empty; expected a text in each row")
            text, answer = _cell(row[prompt]), _cell(row[output])
            key = _prompt_id(text)
            prompts.setdefault(key, ArenaPrompt(key, text, _cell(row[category]) or None if category else None))
            name = _cell(row[model]).strip() if model else file.stem
            if answers.setdefault(name, {}).setdefault(key, answer) != answer:
                raise DataError(
                    f"{file}, row {number}: another answer of '{name:.60}' to the same prompt came before; expected "
                    "one answer of each model to a prompt"
                )
    return stored_answers(paths[0].name if len(paths) == 1 else f"{len(files)} files", prompts, answers)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def read_makers(path: Path, models: Sequence[str]) -> dict[str, str]:
    """Return who made the models and their licences, as `OpenAI, proprietary`, by name; models without a row have none.

    Args:
        path: a Parquet, JSONL, JSON or CSV file with a column of names, and one of organisations, licences, or both.
        models: of the arena.

    Raises: DataError for a file without these columns, or without any of the models.
    """
    rows = read_files([path])
    name = _column(rows.column_names, NAMES, path)
    _column(rows.column_names, [*MAKERS, *LICENCES], path)
    columns = [column for known in (MAKERS, LICENCES) for column in known if column in rows.column_names]
    facts = {str(row[name]): ", ".join(str(row[column]) for column in columns if row[column]) for row in rows}
    if not facts.keys() & set(models):
        listed = ", ".join(models[:LISTED])
        raise DataError(f"{path} has none of the models {listed}; expected these names in its column '{name}'")
    return {model: facts[model] for model in models if facts.get(model)}


def answers_of_runs(
    store: Store, names: Sequence[str], task: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> tuple[StoredAnswers, tuple[str, ...]]:
    """Return the generated answers of runs to one task's prompts.

    Args:
        names: names of runs, of which each has the task; nothing: of each model with the task its latest run.
        task: the generation task; None: the one that most models have, of those the one with the longest texts.
        tell: receives the line about models without the task.

    Raises: UnknownName for a run; UsageError if the runs share no generation task, or two are of one model.
    """
    readable = public_store(store)  # voters read prompts and answers
    finished = [readable.run(name) for name in names] or [run for run in readable.runs() if run.status == "finished"]
    by_model: dict[str, list[RunRow]] = {}
    for run in finished:
        key = run.run_id if names else str(run.plan.model.content_hash or run.plan.model.name)
        by_model.setdefault(key, []).append(run)
    if len(by_model) < 2 and not names:
        raise UsageError(
            f"the store has finished runs of {len(by_model)} models; a battle needs two: `assaymark demo` makes them, "
            "or name a file of answers with --answers FILE"
        )
    chosen, runs = _shared_task(readable, by_model, task, of_all=bool(names))
    if len(runs) < len(by_model):
        used = {run.run_id for run in runs}
        others = [of[0] for of in by_model.values() if not any(run.run_id in used for run in of)]
        listed = few([f"{Path(run.plan.model.name).name} (run {run.short_id})" for run in others], LISTED)
        tell(
            f"left out, without generated answers to {chosen}: {listed}; to choose others name runs that share "
            "a task with --answers RUN, repeated"
        )
    twice = [run.plan.model.name for run in runs]
    prompts: dict[str, ArenaPrompt] = {}
    answers: Answers = {}
    for run in runs:
        of_model = answers.setdefault(_label(run, twice), {})
        for record in readable.samples(run.run_id, chosen):
            texts = [output.text for output in record.outputs if output.text is not None]
            if record.request.turn == 0 and texts and record.sample is not None and not record.is_withheld:
                text = _prompt_text(record)
                key = _prompt_id(text)
                prompts.setdefault(key, ArenaPrompt(key, text, None))
                of_model[key] = texts[0]
    if not prompts:
        raise UsageError(f"{chosen} is sealed, so its prompts are shown to no voter; name another task with --task")
    return stored_answers(chosen, prompts, answers)


def _label(run: RunRow, all_names: Sequence[str]) -> str:
    name = Path(run.plan.model.name).name
    return name if [Path(model_name).name for model_name in all_names].count(name) == 1 else f"{name} ({run.short_id})"


def _shared_task(
    store: PublicStore, by_model: Mapping[str, Sequence[RunRow]], task: str | None, *, of_all: bool
) -> tuple[str, list[RunRow]]:
    """Return the generation task that most models have, or the named one, and the latest run of each with it.

    Of tasks that equally many models have it is the one with the longest texts. With `of_all` every model has it.
    """
    with_task: dict[str, dict[str, RunRow]] = {}
    sealed: set[str] = set()
    n_tokens: Counter[str] = Counter()
    for model, runs in by_model.items():
        for run in runs:  # the latest first
            for row in store.generated(run.run_id):
                if (how := store.why_withheld(run.run_id, row.task)) is not None and not how.public_fraction:
                    sealed.add(row.task)  # no voter may read its prompts
                    continue
                if with_task.setdefault(row.task, {}).setdefault(model, run) is run:
                    n_tokens[row.task] += row.n_tokens
    if task is not None:
        known = {name for runs in by_model.values() for run in runs for name in run.tasks}
        task = meant(task, known)
        if task not in known:
            listed = ", ".join(sorted(known)[:10])
            raise UnknownName("task of these runs", task, nearest(task, known), f"known: {listed}")
        with_task = {task: with_task.get(task, {})}
    best = max(sorted(with_task), key=lambda name: (len(with_task[name]), n_tokens[name]), default="")
    runs = list(with_task.get(best, {}).values())
    if len(runs) < (len(by_model) if of_all else 2):
        wanted = "task with generated answers" if task is None else f"generated answers to {task}"
        whose = (
            f"these {len(by_model)} runs share no {wanted}"
            if of_all
            else f"no two of the {len(by_model)} models share {'a ' if task is None else ''}{wanted}"
        )
        if hidden := sorted(sealed if task is None else sealed & {task}):
            whose += f" that voters may read (sealed: {', '.join(hidden[:5])})"
        raise UsageError(
            f"{whose}; battles need one: run a task with generate_until on each "
            "model, name runs that share one with --answers RUN, or a file of answers with --answers FILE"
        )
    return best, runs


def _prompt_text(record: SampleRecord) -> str:
    """Return the models' question: the last message of the request, or its text after the examples."""
    request = record.request
    if not request.messages:
        return str(request.segments[-1]).strip()
    return "".join(getattr(part, "text", None) or "" for part in request.messages[-1].parts).strip()


def _column(names: Sequence[str], known: Sequence[str], file: Path) -> str:
    column = next((name for name in known if name in names), None)
    if column is None:
        raise DataError(f"{file} has columns {', '.join(names)}; expected one of {', '.join(known)}")
    return column


def _prompt_id(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
