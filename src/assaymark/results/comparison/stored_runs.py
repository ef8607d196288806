"""Evidence of stored runs prepared for a comparison: another tool's samples are matched by their questions.

Two samples match, without guessing, if the bare question of one occurs word for word in the other's text, and their
options are the same in any order (if only one log separates the options, all of them must occur in the other's text).
Case, white space and punctuation are ignored. Samples without a match, or with more than one, are excluded and counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import UsageError
from assaymark.prompts.questions import question_in, words_of
from assaymark.records import JsonValue
from assaymark.records.json_values import strings_in
from assaymark.results.evidence.records import RunEvidence
from assaymark.store import RunRow, Store
from assaymark.store.rows import SampleRecord
from assaymark.tasks.rescoring import choice_queries

OWN_TOOL = "assaymark"
SampleKey = tuple[str, int]  # task, sample index
LOOKED_UP = 5  # words of a question that are looked up in an index before the whole is compared


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """One sample's question, in the run's own wording and order of options."""

    text: str  # the whole question with its options, without shots
    question: str | None  # alone; None if it cannot be separated from the wording around it
    options: tuple[str, ...] | None  # None: unknown


@dataclass(frozen=True, slots=True)
class Matches:
    """The second run's samples matched with the first's."""

    pairs: Mapping[SampleKey, SampleKey]  # second -> first
    n_unknown: int  # samples of the second run that match none of the first
    n_ambiguous: int  # samples of the second run that match several, or one that others match as well


def aligned(first: RunEvidence, second: RunEvidence, pairs: Mapping[SampleKey, SampleKey], how: str) -> RunEvidence:
    """Return the second run with its matched samples named as in the first, and a note on how they were matched.

    Samples without a match are excluded. Raises: UsageError if no sample has a match.
    """
    if not pairs:
        raise UsageError(
            f"{first.label} and {second.label} have no question in common: {how}; nothing can be compared sample by "
            "sample"
        )
    hashes = {(row.task, row.sample_index): row.sample_sha256 for row in first.rows}
    rows = tuple(
        replace(row, task=key[0], sample_index=key[1], sample_sha256=hashes[key])
        for row in second.rows
        if (key := pairs.get((row.task, row.sample_index))) is not None and key in hashes
    )
    names = Counter((task, pairs[task, index][0]) for task, index in pairs)
    tasks = {mine: replace(task, name=mine) for task in second.tasks for (theirs, mine) in names if theirs == task.name}
    settings = {mine: second.task_settings.get(theirs, {}) for theirs, mine in names}
    renamed = [f"{theirs} as {mine}" for theirs, mine in names if theirs != mine]
    more = " and more" if len(renamed) > 4 else ""
    note = f"paired {how}" + (f"; {', '.join(renamed[:4])}" if renamed else "") + more
    return replace(
        second,
        rows=rows,
        tasks=tuple(tasks.values()),
        groups=(),
        task_settings=settings,
        prompt_hashes={pairs[key]: value for key, value in second.prompt_hashes.items() if key in pairs},
        choices={pairs[key]: texts for key, texts in second.choices.items() if key in pairs},
        pairing=(note,),
    )


Stored = tuple[Store, str]


def matched_evidence(evidence: Sequence[RunEvidence], runs: Sequence[Stored]) -> list[RunEvidence]:
    """Return the evidence of stored runs, the samples of every later run matched with those of the first.

    Runs of one tool are paired by the hash of the tool's logged sample, ours and lm-eval's by the hash of the row.
    Other runs, and tasks without a common row, are matched by the text of the question.

    Raises: UsageError if a run has no question in common with the first.
    """
    first, *others = evidence
    return [
        first,
        *(_matched(first, runs[0], run_evidence, run) for run_evidence, run in zip(others, runs[1:], strict=True)),
    ]


def _copies(row: RunRow) -> dict[str, tuple[str, str]]:
    """Return the original and the perturbation's label of each task of perturbed copies."""
    return {
        task.name: (str(task.perturbed["of"]), str(task.perturbed["by"]))
        for task in row.plan.tasks
        if task.perturbed is not None
    }


def _equal_copies(
    pairs: Mapping[SampleKey, SampleKey],
    questions: Sequence[Mapping[SampleKey, SampleQuestion]],
    copies: Sequence[Mapping[str, tuple[str, str]]],
) -> dict[SampleKey, SampleKey]:
    """Return the copies whose originals are matched and whose questions are the same to the letter.

    Spaces and case count, since they are what a perturbation changes.
    """
    ours = {of_by: name for name, of_by in copies[0].items()}
    equal: dict[SampleKey, SampleKey] = {}
    for (task, index), asked in questions[1].items():
        of, by = copies[1].get(task, ("", ""))
        match = pairs.get((of, index))
        if match is None or (name := ours.get((match[0], by))) is None:
            continue
        own = questions[0].get((name, match[1]))
        if own is not None and (_states(own, asked) or _states(asked, own)):
            equal[task, index] = name, match[1]
    return equal


def _states(container: SampleQuestion, asked: SampleQuestion) -> bool:
    return bool(asked.question) and str(asked.question).strip() in container.text


def _matched(first: RunEvidence, first_run: Stored, second: RunEvidence, second_run: Stored) -> RunEvidence:
    tools = [tool_of(store.run(run_id)) for store, run_id in (first_run, second_run)]
    if tools[0] == tools[1]:
        return second
    known = {(row.task, row.sample_sha256) for row in first.rows}
    equal = [row for row in second.rows if (row.task, row.sample_sha256) in known]
    if equal and set(tools) <= {OWN_TOOL, "lm-eval"}:  # which store the data set's own rows: equal hashes, equal rows
        n_rows = len({(row.task, row.sample_index) for row in equal})
        return replace(
            second,
            pairing=(
                f"{n_rows:,} samples of {tools[1]} paired with the samples that have the same row of the data set",
            ),
        )
    questions = [run_questions(*run) for run in (first_run, second_run)]
    copies = [_copies(store.run(run_id)) for store, run_id in (first_run, second_run)]
    originals = [
        {key: asked for key, asked in own.items() if key[0] not in of_run}
        for own, of_run in zip(questions, copies, strict=True)
    ]
    matches = same_questions(*originals)
    matches = replace(matches, pairs={**matches.pairs, **_equal_copies(matches.pairs, questions, copies)})
    n_samples = len({(row.task, row.sample_index) for row in second.rows})
    how = (
        f"by the question's text and options, of {tools[1]} with {tools[0]}: {len(matches.pairs):,} of {n_samples:,} "
        f"samples; excluded: {matches.n_unknown:,} without a match, {matches.n_ambiguous:,} with several"
    )
    return aligned(first, second, matches.pairs, how)


def same_questions(first: Mapping[SampleKey, SampleQuestion], second: Mapping[SampleKey, SampleQuestion]) -> Matches:
    """Return the samples of two runs that are the same question; at least one run must have bare questions.

    Repeated questions of one run are paired in their order.
    """
    ours, theirs = _grouped(first), _grouped(second)
    fits: dict[SampleQuestion, set[SampleQuestion]] = {words: set() for words in theirs}
    known = [words for words in ours if words.question]
    for own, other in _contained(known, list(theirs)):
        fits[other].add(own)
    for other, own in _contained([words for words in theirs if words.question], list(ours)):
        fits[other].add(own)
    n_claims = Counter(words for claimed in fits.values() for words in claimed)
    pairs: dict[SampleKey, SampleKey] = {}
    n_unknown = n_ambiguous = 0
    for other, candidates in fits.items():
        n_paired = 0
        if len(candidates) == 1 and n_claims[next(iter(candidates))] == 1:
            new = list(zip(theirs[other], ours[next(iter(candidates))], strict=False))
            pairs.update(new)
            n_paired = len(new)
        n_left = len(theirs[other]) - n_paired
        n_unknown += 0 if candidates else n_left
        n_ambiguous += n_left if candidates else 0
    return Matches(pairs, n_unknown, n_ambiguous)


def _grouped(questions: Mapping[SampleKey, SampleQuestion]) -> dict[SampleQuestion, list[SampleKey]]:
    groups: dict[SampleQuestion, list[SampleKey]] = defaultdict(list)
    for key, asked in sorted(questions.items()):
        options = None if asked.options is None else tuple(sorted(_spaced(option) for option in asked.options))
        question = None if asked.question is None else _spaced(asked.question)
        groups[SampleQuestion(_spaced(asked.text), question, options)].append(key)
    return groups


def _spaced(text: str) -> str:
    """Return a text's words separated and enclosed by single spaces, so that a search finds whole words only."""
    return f" {' '.join(words_of(text))} "


def _contained(
    bare: Sequence[SampleQuestion], texts: Sequence[SampleQuestion]
) -> Iterator[tuple[SampleQuestion, SampleQuestion]]:
    """Yield the pairs (a, b) for which b contains the bare question of a and their options are the same."""
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    lengths = {min(LOOKED_UP, len(bare_words.question.split())) for bare_words in bare if bare_words.question} - {0}
    for number, container in enumerate(texts):
        words = container.text.split()
        for length in lengths:
            for start in {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}:
                index[start].append(number)
    for wording in bare:
        question = wording.question or ""
        for number in index.get(tuple(question.split()[:LOOKED_UP]), ()) if question.strip() else ():
            other = texts[number]
            if question in other.text and _same_options(wording, other):
                yield wording, other


def _same_options(bare: SampleQuestion, other: SampleQuestion) -> bool:
    if bare.options and other.options:
        return bare.options == other.options
    listed, text = (bare.options, other.text) if bare.options else (other.options, bare.text)
    return all(option in text for option in listed or ())


def tool_of(row: RunRow) -> str:
    """Return the tool that made a run."""
    imported = row.extra.get("imported")
    return OWN_TOOL if imported is None else str(imported["tool"])


def run_questions(store: Store, run_id: str) -> dict[SampleKey, SampleQuestion]:
    """Return the questions of a run's samples whose rows are stored; for a conversation the first turn."""
    row = store.run(run_id)
    read = _READ.get(tool_of(row), _unworded)
    questions: dict[SampleKey, SampleQuestion] = {}
    for task in row.tasks:
        for record in store.samples(run_id, task):
            if record.sample is not None and record.request.turn == 0:
                questions[task, record.request.sample_index] = read(record, record.sample.row)
    return questions


def _of_row(record: SampleRecord, row: Mapping[str, object]) -> SampleQuestion:
    """Return the question of a run that contains the data set's rows and its prompts."""
    request = record.request
    text = request.segments[-1] if request.segments else request.prompt
    queries = choice_queries(request)
    if queries and queries[0].segments is not None:  # the choices are contexts, each with the whole question
        return SampleQuestion("\n".join(strings_in(row)), None, None)
    question, options = question_in(row, text, [query.continuation for query in queries])
    return SampleQuestion("\n".join([text, *options]), question or text, options)


def _of_inspect(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(map(str, _listed(row, "choices")))
    question = row.get("input")
    return SampleQuestion(
        "\n".join([*strings_in(question), *options]), question if isinstance(question, str) else None, options
    )


def _of_helm(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(str(each["text"]) for each in _listed(row, "references") if isinstance(each, Mapping))
    source = row["input"]
    question = str(source.get("text", "")) if isinstance(source, Mapping) else ""
    return SampleQuestion("\n".join([question, *options]), question or None, options)


def _of_lighteval(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(map(str, _listed(row, "choices")))
    return SampleQuestion("\n".join([str(row["query"]), *options]), None, options)


def _listed(row: Mapping[str, JsonValue], key: str) -> Sequence[JsonValue]:
    value = row.get(key)
    return value if isinstance(value, list | tuple) else ()


def _unworded(_: SampleRecord, row: Mapping[str, object]) -> SampleQuestion:
    return SampleQuestion("\n".join(strings_in(row)), None, None)


_READ: Mapping[str, Callable[[SampleRecord, Mapping[str, object]], SampleQuestion]] = {
    OWN_TOOL: _of_row,
    "lm-eval": _of_row,
    "inspect_ai": _of_inspect,
    "helm": _of_helm,
    "lighteval": _of_lighteval,
}
