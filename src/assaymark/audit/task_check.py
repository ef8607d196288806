"""Checks of a task before it is run, for faults that would make its results misleading.

They find skewed positions of the gold answer, duplicate or contradictory rows, samples among their own shots, and
choices that are equal, empty or share their first token. Each check yields findings as text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assaymark.documents.numbers import counted
from assaymark.errors import AssaymarkError
from assaymark.models.create import create_model
from assaymark.models.model import Model
from assaymark.records import JsonValue, Request, Sample
from assaymark.results.evidence.questions import questions_in
from assaymark.runs.prepare import split_names
from assaymark.settings import data_folder, store_location
from assaymark.statistics.distributions import chi_square_sf
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData, is_rows_file
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.rescoring import choice_queries, gold_choices
from assaymark.tasks.row_columns import find_columns, options_of

SKEW_P = 0.001  # golds this unlikely under a uniform distribution are reported
FEWEST_EXPECTED = 5.0  # samples per position that a chi-square test needs
FEWEST_TARGETS = 20  # targets from which half of them being equal is reported as a skew
TOKENISED = 200  # samples whose choices are tokenised
LONGEST_LABEL = 3  # characters up to which a choice is a label: A, (b), yes
_BRACES = re.compile(r"\{\{-?\s*(\w+)[^{}]*\}\}")
_SHOWN_AS = {"doc_to_choice": "choices", "doc_to_text": "prompts", "doc_to_target": "targets"}
SPACES = " \u2581Ġ"  # how tokenizers represent a space


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    level: str  # error | warning | note
    text: str


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """A task with its samples rendered."""

    bound: BoundTask
    requests: tuple[Request, ...]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.bound.plan.name

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples, in the requests' order."""
        return self.bound.samples()


def check_requests(task: CheckedTask) -> Iterator[Finding]:
    """Yield the findings about rows and prompts; no tokenizer is needed."""
    yield from _repeated_rows(task)
    yield from _absent_golds(task)
    yield from _gold_positions(task)
    yield from _same_targets(task)
    yield from _empty_targets(task)
    yield from _shots_of_the_test(task)
    yield from _choices(task)
    yield from _repeated_options(task)
    yield from _unrendered(task)
    yield from _leaks(task)
    yield from _ends(task)


def _warning(text: str) -> Finding:
    return Finding("warning", text)


def _repeated_rows(task: CheckedTask) -> Iterator[Finding]:
    counts = Counter(sample.sha256 for sample in task.samples)
    repeated = sum(count - 1 for count in counts.values())
    if repeated:
        yield _warning(f"{task.name}: {repeated} row(s) are duplicates of another; they count more than once")
    targets: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for request in task.requests:
        own = request.segments[-1] if request.segments else request.prompt
        question = (own, *(image.sha256 for image in request.images), *_texts(request))
        targets[question].add(request.target)
    disputed = sum(len(answers) > 1 for answers in targets.values())
    if disputed:
        yield _warning(f"{task.name}: {disputed} question(s) occur more than once with different correct answers")


def _absent_golds(task: CheckedTask) -> Iterator[Finding]:
    absent = [sample.index for sample in task.samples if task.bound.gold_is_absent(sample)]
    if absent:
        yield _warning(
            f"{task.name}: {len(absent)} row(s) have a correct answer that is none of the choices, first sample "
            f"{absent[0]}; they count as wrong whatever the model answers"
        )


def _gold_positions(task: CheckedTask) -> Iterator[Finding]:
    """Report gold answers that are in one position significantly more often than by chance.

    A sample with k choices contributes 1/k to the expected count of each position, so samples with different numbers
    of choices are tested together.
    """
    observed: Counter[int] = Counter()
    expected: defaultdict[int, float] = defaultdict(float)
    for request, sample in zip(task.requests, task.samples, strict=True):
        queries = choice_queries(request)
        gold = gold_choices(task.bound, request, sample) if queries else frozenset()
        if len(gold) == 1:
            observed.update(gold)
            for position in range(len(queries)):
                expected[position] += 1 / len(queries)
    positions = [position for position, count in expected.items() if count >= FEWEST_EXPECTED]
    n = observed.total()
    if len(positions) < 2 or n == 0:
        return
    statistic = sum((observed[position] - expected[position]) ** 2 / expected[position] for position in positions)
    if chi_square_sf(statistic, len(positions) - 1) >= SKEW_P:
        return
    position, count = observed.most_common(1)[0]
    shared = len({_texts(request) for request in task.requests}) == 1
    what = f"a constant answer of '{_texts(task.requests[0])[position]}' scores that" if shared else (
        "a constant answer scores that if options are listed, and ties go to early positions"
    )  # fmt: skip
    yield _warning(
        f"{task.name}: the answer key is skewed: the correct choice is number {position + 1} in {count / n:.0%} of "
        f"samples, {expected[position] / n:.0%} expected; {what}"
    )


def _same_targets(task: CheckedTask) -> Iterator[Finding]:
    """Report a target that is the correct answer of most samples of a generation task."""
    if task.bound.task.output_type != "generate_until" or len(task.requests) < FEWEST_TARGETS:
        return
    target, count = Counter(request.target for request in task.requests).most_common(1)[0]
    if target.strip() and 2 * count >= len(task.requests):
        yield _warning(
            f"{task.name}: the answer key is skewed: {target!r:.60} is correct in {count / len(task.requests):.0%} of "
            "samples; a constant answer scores that"
        )


def _empty_targets(task: CheckedTask) -> Iterator[Finding]:
    """Report empty references of a task that compares answers with them: there an empty answer is right."""
    if task.bound.task.output_type != "generate_until" or task.bound.task.process_results is not None:
        return
    if task.bound.task.prompt.target in (None, "") or not task.bound.metrics:
        return
    empty = [request.sample_index for request in task.requests if not request.target.strip()]
    if empty:
        yield _warning(
            f"{task.name}: {len(empty)} row(s) have an empty reference, first sample {empty[0]}; an empty answer is "
            "right there"
        )


def _shots_of_the_test(task: CheckedTask) -> Iterator[Finding]:
    """Report shots that are drawn from the split that is evaluated."""
    own, splits = task.bound.task.fewshot, task.bound.task.splits
    drawn_from = own.split or (splits.training or splits.validation or splits.test if own.samples is None else None)
    if drawn_from is None or drawn_from != splits.evaluated:
        return
    key = "fewshot_split" if own.split else "no fewshot_split is set, so it"
    is_drawn = task.bound.plan.num_fewshot > 0
    if is_drawn or own.split:
        yield Finding(
            "warning" if is_drawn else "note",
            f"{task.name}: {key} is the test split '{drawn_from}': {'shots are' if is_drawn else 'shots would be'} "
            "drawn from the evaluated rows and reveal test answers; set another split",
        )


def _texts(request: Request) -> tuple[str, ...]:
    return tuple(query.continuation.strip() for query in choice_queries(request))


def _repeated_options(task: CheckedTask) -> Iterator[Finding]:
    """Yield a warning about rows of a user's file that offer the same text under two letters."""
    samples = task.samples
    if not samples or not is_rows_file(task.bound.task.source):
        return
    columns = find_columns({name.strip().lower(): name for name in samples[0].row})
    if columns is None:
        return
    repeated = []
    for sample in samples:
        texts = [str(option).strip() for option in options_of(sample.row, columns) or () if option is not None]
        if len(set(texts)) < len(texts):
            repeated.append(sample.index)
    if repeated:
        yield _warning(f"{len(repeated)} row(s) have the same option twice, first sample {repeated[0]}")


def _choices(task: CheckedTask) -> Iterator[Finding]:
    pairs = [(request, choice_queries(request)) for request in task.requests]
    equal = [r.id for r, queries in pairs if len({(a.segments, a.continuation) for a in queries}) < len(queries)]
    empty = [r.id for r, queries in pairs if any(not query.continuation.strip() for query in queries)]
    if equal:
        yield _warning(f"{len(equal)} sample(s) have the same choice twice, first {equal[0]}: these choices always tie")
    if empty:
        yield Finding("error", f"{len(empty)} sample(s) have an empty choice, first {empty[0]}: it cannot be scored")
    blank = [sample.index for (_, queries), sample in zip(pairs, task.samples, strict=True)
             if queries and any(map(_has_blank, _lists(sample.row)))]  # fmt: skip
    if blank:
        yield Finding(
            "error",
            f"{len(blank)} row(s) have nothing in an entry of a list of texts, first sample {blank[0]}: as an option "
            "it is 'None' or empty, and counts for the chance level; remove it",
        )


def _has_blank(entries: Sequence[object]) -> bool:
    """Return whether some entries of a list are texts and others are nothing."""
    blank = [entry is None or (isinstance(entry, str) and not entry.strip()) for entry in entries]
    return any(blank) and any(isinstance(entry, str) and entry.strip() for entry in entries)


def _lists(value: object) -> Iterator[Sequence[object]]:
    """Yield every list of a row that is a column or a part of one."""
    for part in value.values() if isinstance(value, Mapping) else ():
        if isinstance(part, list):
            yield part
        yield from _lists(part)


def _unrendered(task: CheckedTask) -> Iterator[Finding]:
    """Report columns that are still named in braces: lists are used literally, and so are templates inside rows."""
    first: dict[str, tuple[str, str]] = {}
    for request, sample in zip(task.requests, task.samples, strict=True):
        last = request.segments[-1] if request.segments else request.prompt
        choices = _texts(request)
        target = () if choices else (request.target,)  # with choices it is one of them
        rendered = {"doc_to_choice": choices, "doc_to_text": (last,), "doc_to_target": target}
        for key, texts in rendered.items():
            named = next((m for text in texts for m in _BRACES.finditer(text) if m.group(1) in sample.row), None)
            if named is not None and task.bound.task.spec.get(key) is not None:
                first.setdefault(key, (request.id, named.group(0)))
    for key, (where, seen) in first.items():
        remedy = "; write one template that returns a list, such as '{{[A, B]}}'" if key == "doc_to_choice" else ""
        yield _warning(
            f"{task.bound.task.source}: {key}: {_SHOWN_AS[key]} contain unrendered {{{{, first {where}: '{seen}' is "
            f"sent to the model literally{remedy}"
        )


def _leaks(task: CheckedTask) -> Iterator[Finding]:
    leaked = sum(request.n_leaked_shots > 0 for request in task.requests)
    if leaked:
        yield _warning(
            f"{task.name}: {leaked} sample(s) are among their own shots, exactly or as a near-duplicate; "
            "--profile assaymark draws other shots for them"
        )
    shown_before = sum(
        not request.n_leaked_shots and _is_among(request.segments[-1].strip(), request.segments[:-1])
        for request in task.requests
        if request.n_shots and request.segments
    )
    if shown_before:
        yield _warning(
            f"{task.name}: {shown_before} sample(s) have their question among their shots in a row that differs "
            "otherwise: the answer is shown; --profile assaymark draws other shots if the choices are the same too"
        )


def _is_among(question: str, shots: Sequence[str]) -> bool:
    return bool(question) and any(question in shot for shot in shots)


def _ends(task: CheckedTask) -> Iterator[Finding]:
    """Report prompts that end in a space with which the choice's first token should begin."""
    ends = [
        request.id
        for request in task.requests
        if (queries := choice_queries(request))
        and "".join(queries[0].segments or request.segments).endswith((" ", "\t"))
        and not queries[0].continuation[:1].isspace()
    ]
    if ends:
        yield _warning(
            f"{task.name}: {len(ends)} prompt(s) end in a space, first {ends[0]}: most tokenizers begin a word with "
            "its space, so choices are tokenised as never in ordinary text; leave the space to target_delimiter"
        )


# ------------------------------------------------------------------------------------------- tokens


@dataclass(slots=True)
class _Odd:
    """Number of samples with an oddity, and the name of the first."""

    n: int = 0
    first: str = ""

    def add(self, name: str) -> None:
        """Count one."""
        self.first = self.first or name
        self.n += 1


@dataclass(slots=True)
class _Oddities:
    """Oddities of tokenised choices."""

    merged: _Odd = field(default_factory=_Odd)
    same_start: _Odd = field(default_factory=_Odd)
    unknown: _Odd = field(default_factory=_Odd)
    uneven: _Odd = field(default_factory=_Odd)
    doubled: str | None = None  # the special token with which prompts begin twice

    def look(self, request: Request, pieces: Sequence[tuple[str, ...]]) -> None:
        """Record the oddities of one sample's choices."""
        if any("<unk>" in text for piece in pieces for text in piece):
            self.unknown.add(request.id)
        if len(pieces) < 2 or not all(pieces) or len(set(pieces)) < len(pieces):
            return
        if len({piece[0] for piece in pieces}) == 1 and pieces[0][0].strip(SPACES):
            self.same_start.add(request.id)
        if max(map(len, _texts(request))) <= LONGEST_LABEL and len({len(piece) for piece in pieces}) > 1:
            self.uneven.add(request.id)


def check_tokens(task: CheckedTask, model: Model) -> Iterator[Finding]:
    """Yield the findings about the first samples' choices as tokens of a model's tokenizer."""
    odd = _Oddities()
    looked_at = task.requests[:TOKENISED]
    for request in looked_at:
        pieces: list[tuple[str, ...]] = []
        for query in choice_queries(request):
            split = model.split_tokens("".join(query.segments or request.segments), query.continuation)
            if split is None:
                return
            texts, begin = split
            if begin >= len(texts):
                odd.merged.add(f"{request.id} choice {query.index}")
            if len(texts) > 1 and texts[0] == texts[1] and texts[0].startswith("<") and texts[0].endswith(">"):
                odd.doubled = texts[0]
            pieces.append(tuple(texts[begin:]))
        odd.look(request, pieces)
    yield from _token_findings(task.name, len(looked_at), odd)


def _token_findings(name: str, n: int, odd: _Oddities) -> Iterator[Finding]:
    of_samples = f"of the first {n:,} samples"
    if odd.doubled is not None:
        yield Finding("error", f"{name}: prompts begin with {odd.doubled!r} twice; remove one beginning token")
    if odd.merged.n:
        yield Finding(
            "error",
            f"{name}: {odd.merged.n} choice(s) {of_samples} merge with the prompt's last token, first "
            f"{odd.merged.first}",
        )
    if odd.same_start.n > n / 2:  # in a few samples options happen to begin alike
        yield _warning(
            f"{name}: in {odd.same_start.n} {of_samples} all choices begin with the same token, first "
            f"{odd.same_start.first}: that token carries no information but is scored"
        )
    if odd.unknown.n:
        yield _warning(
            f"{name}: {odd.unknown.n} {of_samples} have choices with unknown tokens, first {odd.unknown.first}: this "
            "tokenizer cannot represent them"
        )
    if odd.uneven.n:
        yield _warning(
            f"{name}: in {odd.uneven.n} {of_samples} labels have different numbers of tokens, first "
            f"{odd.uneven.first}: the longer ones are less likely for that reason alone"
        )


CHECKED_SAMPLES = 2000


@dataclass(slots=True)
class TaskCheck:
    """Facts and findings about tasks."""

    facts: dict[str, JsonValue] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def check_task(
    name: str,
    num_fewshot: int | None = None,
    model_args: str = "",
    *,
    data_dir: str | None = None,
    include_path: Sequence[str] = (),
    answers: str | None = None,
    skip_bad_rows: bool = False,
    store: str | None = None,
) -> TaskCheck:
    """Render up to 2,000 samples of every task that `name` selects, and return facts and findings.

    `answers` is how the answers in a file of rows name an option, and `skip_bad_rows` leaves out rows that cannot be
    read, as in `evaluate`. Runs in `store`, of five models or more that answered this very data, say which questions
    are suspicious.

    Raises: UnknownName for an unknown task; DataError if a task file cannot be read.
    """
    check = TaskCheck()
    own = OwnData(data_folder(data_dir), answers=answers, skip_bad_rows=skip_bad_rows)
    selection = Catalog.open([Path(folder) for folder in include_path]).select(split_names(name), own=own)
    options = BindOptions(
        num_fewshot=num_fewshot,
        data_dir=data_folder(data_dir),
        limit=float(CHECKED_SAMPLES),
        skip_bad_rows=skip_bad_rows,
    )
    check.findings += [Finding("note", note) for note in selection.notes]
    model = create_model("hf", model_args) if model_args else None
    for task in selection.tasks:
        try:
            bound = bind(task, options)
            checked = CheckedTask(bound, tuple(bound.requests()))
            _facts(check, checked)
            check.findings += check_requests(checked)
            check.findings += check_answers(checked, store)
        except AssaymarkError as error:
            check.findings.append(Finding("error", f"{task.name}: {error}"))
            continue
        if model is not None:
            check.findings += check_tokens(checked, model)
    return check


def check_answers(checked: CheckedTask, store: str | None) -> Iterator[Finding]:
    """Yield findings from stored runs of the same data; none without complete runs of five models."""
    data = checked.bound.plan.dataset_hash
    try:
        place = store_location(store)
        if not Store.exists(place):
            return
        with Store.open_to_read(place) as opened:
            rows = [
                row
                for row in opened.runs()
                if any((task.name, task.dataset_hash) == (checked.name, data) for task in row.plan.tasks)
            ]
            answered = questions_in(opened, rows, checked.name)
    except AssaymarkError:  # too few runs, or no store that can be read: the check is about the task
        return
    n_never = sum(each.statistics.right == 0 for each in answered.questions)
    if n_never:
        n = counted(len(answered.models), "stored model")
        yield Finding("note", f"{checked.name}: none of {n} gets {counted(n_never, 'question')} right")
    if suspicious := answered.suspicious:
        listed = ", ".join(str(each.index) for each in suspicious[:10]) + (", ..." if len(suspicious) > 10 else "")
        yield Finding(
            "warning",
            f"{checked.name}: better models miss {counted(len(suspicious), 'question')} that weaker ones get right "
            f"(samples {listed}): the key may be wrong; see: assaymark task questions {checked.name}",
        )


def _facts(task_check: TaskCheck, checked: CheckedTask) -> None:
    bound = checked.bound
    task_check.facts[checked.name] = (
        f"{bound.n_original:,} samples, {len(checked.requests):,} checked, {bound.task.output_type}, "
        f"{bound.plan.num_fewshot} shots, metrics {', '.join(sorted({m.name for m in bound.metrics}))}"
    )
