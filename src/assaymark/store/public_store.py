"""The store as the public may read it: the texts of sealed tasks are withheld.

Pages, static sites, reports, model cards and exports read a `PublicStore`, never the `Store` itself. It has all
methods of a `Store` and hides texts in each of them, so that code that knows nothing of sealed tasks shows none.
`tests/store/test_public_store.py` fails for a new method of `Store` that has not been classified.

Hidden are a sample's row, prompt, choices and target, the answer and its extracted form, error texts, and each hash
against which a guessed row could be checked. Scores, log-likelihoods, numbers of tokens, statuses and categories are
shown. Where code only compares texts for equality (paired comparisons), a keyed digest replaces them; its key stays in
the store.

A task is withheld if its data set is sealed (`sealed_tasks`), if its rows or prompts contain a row of a sealed data set
(`sealed_rows`), if an unrevealed sealed task has its name, or if the caller says so: for tasks of private boards, and
for data sets that are distributed under terms.
"""

import hmac
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self, cast

from assaymark.records import (
    Estimate,
    EstimateDetails,
    JsonValue,
    LoglikelihoodQuery,
    Output,
    Query,
    Request,
    RollingQuery,
    Sample,
    TaskPlan,
    canonical_json,
)
from assaymark.records.result_facts import ResultFacts, TaskFact
from assaymark.store.connection import Database
from assaymark.store.database import Store
from assaymark.store.rows import (
    AttemptRow,
    CategoryCount,
    RunRow,
    SampleFacts,
    SamplePage,
    SampleRecord,
    SampleScoreRow,
)
from assaymark.store.sample_facts import CATEGORY_FIELDS, category_field, category_of
from assaymark.store.sample_list import Page
from assaymark.store.sealed_tasks import SealedTask, is_in_preview, stored_samples
from assaymark.store.write import split_request_id

SEALED = "the task is sealed"
WITHHELD = f"(withheld: {SEALED})"
TEXT_DETAILS = ("first_error", "first_skipped", "first_gold_absent", "best_constant_text", "labels")  # of an estimate
SHOWN_OF_SPEC = ("task", "dataset_path", "dataset_name", "training_split", "validation_split", "test_split",
                 "fewshot_split", "output_type", "num_fewshot", "metric_list", "repeats")  # fmt: skip
SHOWN_OF_DETAIL = ("is_share",)
SHOWN_CATEGORY_FIELDS = frozenset({"category", "subject"})  # columns of a sealed row whose values are shown
SUBJECTS = frozenset({*SHOWN_CATEGORY_FIELDS, "topic"})  # columns each of whose values has a score of its own
LONGEST_SHOWN_CATEGORY = 40  # characters
FEWEST_OF_CATEGORY = 2  # samples: a category of a single sample reveals something about its row
LOOKED_AT = 50  # samples that show from which columns the categories of a task are
AT_ONCE = 1000  # samples of a list that are read at once
_PROCESS_KEY = secrets.token_hex(32)  # of the digests of tasks that are withheld without a seal


@dataclass(frozen=True, slots=True)
class WhyWithheld:
    """How a task is withheld. Rows of a preview are shown if their prompts show no other row."""

    key: str = field(default=_PROCESS_KEY, repr=False)
    public_fraction: float = 0.0
    commitment: str | None = None
    why: str = SEALED

    @property
    def note(self) -> str:
        """The text that replaces a withheld one."""
        return f"(withheld: {self.why})"

    def is_public(self, sample_sha256: str) -> bool:
        """Return whether a sample belongs to the preview."""
        return is_in_preview(self.key, sample_sha256, self.public_fraction)

    def shows(self, sample_sha256: str, n_shots: int) -> bool:
        """Return whether a sample is shown: a sample with shots is not, since these are other rows."""
        return n_shots == 0 and self.is_public(sample_sha256)

    def digest(self, text: str) -> str:
        """Return the digest that replaces a text where only equality matters."""
        return hmac.new(bytes.fromhex(self.key), text.encode("utf-8", "surrogatepass"), sha256).hexdigest()

    def mark(self, text: str) -> str:
        """Return the note with a short digest that replaces a text where it would be shown."""
        return f"{self.note} {self.digest(text)[:16]}" if text else text


@dataclass(frozen=True, slots=True)
class _RunTasks:
    """The facts about a run that decide which of its tasks are withheld."""

    datasets: Mapping[str, str]  # hashes by task
    groups: Mapping[str, frozenset[str]]  # by task
    originals: Mapping[str, str]  # by task of perturbed copies: the task of the originals
    is_summarised: bool  # its groups are known


def public_store(
    store: Store, *, private: Collection[str] = (), why_private: Callable[[str], str] = lambda _: ""
) -> "PublicStore":
    """Return a store as others may read it; a `PublicStore` is returned as it is.

    Args:
        store: open; it stays open for as long as the returned one is used.
        private: names of tasks and groups that are withheld, besides those that are sealed in the store.
        why_private: the reason why a task is withheld, by its name; "" for one that is not.
    """
    if isinstance(store, PublicStore):
        return store
    store.flush()
    return PublicStore(store.database, frozenset(private), why_private)


class PublicStore(Store):
    """A store as others may read it. May be used by several threads."""

    def __init__(
        self,
        database: Database,
        private: frozenset[str] = frozenset(),
        why_private: Callable[[str], str] = lambda _: "",
    ) -> None:
        super().__init__(database)
        self._private, self._why_private = private, why_private
        self._run_tasks: dict[str, _RunTasks] = {}
        self._shared: dict[tuple[str, str], bool] = {}  # by hashes of a revealed and a sealed data set
        self._categories: dict[tuple[str, str], frozenset[str]] = {}  # shown ones of withheld tasks
        self._plain: dict[tuple[str, str], bool] = {}  # whether categories are no answers

    def open_again(self) -> Self:
        """Return the public view of the store that is at this one's path now."""
        again = super().open_again()
        again._private, again._why_private = self._private, self._why_private  # noqa: SLF001 - of the same class
        return again

    # ------------------------------------------------------------------------- what is withheld

    def why_withheld(self, run_id: str, task: str) -> WhyWithheld | None:
        """Return how a task of a run is withheld; None where its texts are shown.

        A task that is not in the run's plan is another form of one that is (the other order of a judging), so it is
        withheld if any task of the plan is.
        """
        seals = self.seals.all()
        if not self._private and not seals:
            return WhyWithheld(why=why) if (why := self._why_private(task)) else None
        own = self._tasks_of(run_id)
        copies = self._copies(seals, [run_id])
        names = [task] if task in own.datasets else [*own.datasets, task]
        hows = (self._of(name, own, seals, copies.get((run_id, name), ())) for name in names)
        return next((how for how in hows if how is not None), None)

    def withheld_tasks(self, run_id: str) -> dict[str, WhyWithheld]:
        """Return the tasks of a run's plan that are withheld."""
        seals = self.seals.all()
        return self._withheld(run_id, self._tasks_of(run_id), seals, self._copies(seals, [run_id]))

    def preview_of(self, run_id: str, task: str) -> frozenset[int] | None:
        """Return the positions of a sealed task's rows that belong to its preview; None where it has none."""
        how = self.why_withheld(run_id, task)
        if how is None or not how.public_fraction:
            return None
        hashes = super().sample_hashes(run_id, task)
        return frozenset(index for (index, _), own in hashes.items() if how.is_public(own))

    def _copies(
        self, seals: Sequence[SealedTask], run_ids: Sequence[str] | None
    ) -> Mapping[tuple[str, str], Collection[str]]:
        """Return the sealed data sets whose rows tasks contain, by run id and task. run_ids: None for all runs."""
        return self.seals.copies(run_ids) if any(seal.is_closed for seal in seals) else {}

    def _withheld(
        self,
        run_id: str,
        own: _RunTasks,
        seals: Sequence[SealedTask],
        copies: Mapping[tuple[str, str], Collection[str]],
    ) -> dict[str, WhyWithheld]:
        reasons = ((name, self._of(name, own, seals, copies.get((run_id, name), ()))) for name in own.datasets)
        return {name: how for name, how in reasons if how is not None}

    def _of(
        self, task: str, own: _RunTasks, seals: Sequence[SealedTask], copied: Collection[str]
    ) -> WhyWithheld | None:
        """Return how a task is withheld. copied: hashes of the sealed data sets whose rows it contains."""
        seal = next((seal for seal in seals if seal.dataset_hash == own.datasets.get(task)), None)
        if seal is not None and seal.is_closed:
            return WhyWithheld(seal.key, seal.public_fraction, seal.commitment)
        original = own.originals.get(task, task)
        for each in seals:
            # the next version of a revealed data set has its name, and may have its rows
            is_named = seal is None and each.task == original
            is_copied = each.dataset_hash in copied and (seal is None or not self._share_rows(seal, each))
            if each.is_closed and (is_named or is_copied):
                return WhyWithheld(each.key)
        is_named = bool(({task, original} | own.groups.get(original, frozenset())) & self._private)
        if is_named or (self._private and not own.is_summarised):
            return WhyWithheld()
        return WhyWithheld(why=why) if (why := self._why_private(original)) else None

    def _share_rows(self, revealed: SealedTask, closed: SealedTask) -> bool:
        """Return whether a revealed data set has rows of a sealed one, which are then no secret."""
        key = (revealed.dataset_hash, closed.dataset_hash)
        if key not in self._shared:
            known = self.seals.recogniser()
            rows = stored_samples(self.database, revealed.dataset_hash)
            self._shared[key] = known is not None and any(
                closed.dataset_hash in known.sources_of_row(sample.row) for sample in rows
            )
        return self._shared[key]

    def _tasks_of(self, run_id: str) -> _RunTasks:
        known = self._run_tasks.get(run_id)
        if known is None:
            known = _run_tasks(super().run(run_id))
            if known.is_summarised:
                self._run_tasks[run_id] = known
        return known

    # ------------------------------------------------------------------------------------- runs

    def runs(self, words: Sequence[str] = ()) -> list[RunRow]:
        """As `Store.runs`, without texts and hashes of withheld rows."""
        return self._public_rows(super().runs(words))

    def audits(self, words: Sequence[str] = ()) -> list[RunRow]:
        """As `Store.audits`, without texts and hashes of withheld rows."""
        return self._public_rows(super().audits(words))

    def run(self, name: str) -> RunRow:
        """As `Store.run`, without texts and hashes of withheld rows; the plan's key is that of the plan as shown."""
        return self._public_rows([super().run(name)])[0]

    def _public_rows(self, rows: Sequence[RunRow]) -> list[RunRow]:
        seals = self.seals.all()
        copies = self._copies(seals, [row.run_id for row in rows] if len(rows) == 1 else None)
        public_rows = []
        for row in rows:
            own = _run_tasks(row)
            if own.is_summarised:
                self._run_tasks[row.run_id] = own
            withheld = self._withheld(row.run_id, own, seals, copies)
            public_rows.append(_public_run(row, withheld) if withheld else row)
        return public_rows

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """As `Store.attempts`, without the texts of errors where the run has a withheld task."""
        attempts = super().attempts(run_id)
        if not self.withheld_tasks(run_id):
            return attempts
        return [
            replace(each, facts=_without_errors(each.facts), summary=_without_errors(each.summary)) for each in attempts
        ]

    def first_error(self, run_id: str) -> str | None:
        """As `Store.first_error`; withheld where the run has a withheld task."""
        error = super().first_error(run_id)
        return WITHHELD if error is not None and self.withheld_tasks(run_id) else error

    def estimates(self, run_id: str) -> list[Estimate]:
        """As `Store.estimates`, without details that quote rows."""
        estimates = super().estimates(run_id)
        if self._private or self.seals.all():
            withheld = self.withheld_tasks(run_id)
        else:  # the run is not read, since tables read the estimates of all runs
            names = {estimate.task for estimate in estimates}
            withheld = {name: WhyWithheld(why=why) for name in names if (why := self._why_private(name))}
        shown = (estimate for estimate in estimates if self._shows_subject(run_id, estimate, withheld))
        return [_public_estimate(estimate, withheld) for estimate in shown]

    def _shows_subject(self, run_id: str, estimate: Estimate, withheld: Mapping[str, WhyWithheld]) -> bool:
        """Return whether an estimate may be named: of a withheld task's subjects those whose names are no rows."""
        details = estimate.details
        task = details["path"][-1] if details.get("kind") == "subject" and details.get("path") else None
        if task is None or task not in withheld:
            return True
        is_short = len(details.get("alias", estimate.task)) <= LONGEST_SHOWN_CATEGORY
        is_several = estimate.n + estimate.n_failed >= FEWEST_OF_CATEGORY
        return is_short and is_several and self._has_plain_categories(run_id, task)

    def _has_plain_categories(self, run_id: str, task: str) -> bool:
        """Return whether the categories of a task are no answers, as they are where texts are classified."""
        if (run_id, task) not in self._plain:
            some = super().samples(run_id, task, limit=LOOKED_AT)
            self._plain[run_id, task] = not any(map(_asks_for_category, some))
        return self._plain[run_id, task]

    # ---------------------------------------------------------------------------------- samples

    def samples(
        self, run_id: str, task: str, *, offset: int = 0, limit: int | None = None, indices: Sequence[int] | None = None
    ) -> Iterator[SampleRecord]:
        """As `Store.samples`; withheld records say so (`is_withheld`)."""
        records = super().samples(run_id, task, offset=offset, limit=limit, indices=indices)
        return self._public_records(run_id, task, records)

    def samples_not_right(self, run_id: str, task: str, by: tuple[str, str]) -> Iterator[SampleRecord]:
        """As `Store.samples_not_right`; withheld records say so."""
        return self._public_records(run_id, task, super().samples_not_right(run_id, task, by))

    def _public_records(self, run_id: str, task: str, records: Iterator[SampleRecord]) -> Iterator[SampleRecord]:
        how = self.why_withheld(run_id, task)
        if how is None:
            return records
        categories = self._shown_categories(run_id, task)
        return (withheld_record(record, how, categories) for record in records)

    def scores(
        self,
        run_id: str,
        task: str | None = None,
        *,
        details: bool = True,
        indices: Sequence[int] | None = None,
        of_metrics: Callable[[str], bool] | None = None,
    ) -> Iterator[SampleScoreRow]:
        """As `Store.scores`, without texts extracted from withheld answers."""
        withheld: dict[str, WhyWithheld | None] = {}
        for score in super().scores(run_id, task, details=details, indices=indices, of_metrics=of_metrics):
            if score.task not in withheld:
                withheld[score.task] = self.why_withheld(run_id, score.task)
            how = withheld[score.task]
            yield (
                score
                if how is None
                else score._replace(detail=_public_detail(score.detail), parts=_public_parts(score.parts))
            )

    def sample_hashes(self, run_id: str, task: str) -> dict[tuple[int, int], str]:
        """As `Store.sample_hashes`, with digests for withheld samples, which are equal for equal rows of any run."""
        hashes = super().sample_hashes(run_id, task)
        how = self.why_withheld(run_id, task)
        return hashes if how is None else {place: how.digest(own) for place, own in hashes.items()}

    def outputs_of(self, run_id: str, request_ids: Sequence[str]) -> dict[str, list[Output]]:
        """As `Store.outputs_of`, without the texts of withheld tasks, rows of a preview included."""
        outputs = super().outputs_of(run_id, request_ids)
        tasks = {request_id: split_request_id(request_id)[0] for request_id in outputs}
        withheld = {task: self.why_withheld(run_id, task) for task in set(tasks.values())}
        return {
            request_id: own
            if (how := withheld[tasks[request_id]]) is None
            else [_public_output(output, how) for output in own]
            for request_id, own in outputs.items()
        }

    def find(self, keys: Sequence[str]) -> dict[str, Output]:  # noqa: ARG002 - as Store.find
        """Return nothing: the cache is for runs, which read the store itself."""
        return {}

    def _shown_categories(self, run_id: str, task: str) -> frozenset[str]:
        """Return the categories of a withheld task that are shown: short ones, of several samples, and no answers."""
        if (known := self._categories.get((run_id, task))) is not None:
            return known
        some = super().samples(run_id, task, limit=LOOKED_AT)
        fields = {category_field(record.sample.row) for record in some if record.sample is not None}
        is_promised = fields - {None} <= SHOWN_CATEGORY_FIELDS and self._has_plain_categories(run_id, task)
        categories = frozenset(
            count.category
            for count in (super().categories(run_id, task) if is_promised else ())
            if count.category is not None
            and len(count.category) <= LONGEST_SHOWN_CATEGORY
            and count.n_samples >= FEWEST_OF_CATEGORY
        )
        if self._tasks_of(run_id).is_summarised:
            self._categories[run_id, task] = categories
        return categories

    def categories(self, run_id: str, task: str | None = None) -> list[CategoryCount]:
        """As `Store.categories`; withheld samples whose category is not shown count as having none."""
        withheld = self.withheld_tasks(run_id)
        names = [task] if task is not None else list(withheld)
        if not any(self.why_withheld(run_id, name) is not None for name in names):
            return super().categories(run_id, task)
        counts: dict[str | None, list[int]] = {}
        for name in [task] if task is not None else self._tasks_of(run_id).datasets:
            public = None if self.why_withheld(run_id, name) is None else self._shown_categories(run_id, name)
            for count in super().categories(run_id, name):
                category = count.category if public is None or count.category in public else None
                own = counts.setdefault(category, [0, 0])
                own[0] += count.n_samples
                own[1] += count.n_wrong
        ordered = sorted(counts.items(), key=lambda item: (item[0] is None, item[0] or ""))
        return [CategoryCount(category, n, n_wrong) for category, (n, n_wrong) in ordered]

    # ---------------------------------------------------------------------------- lists of samples

    def sample_list(
        self,
        run_id: str,
        task: str | None = None,
        *,
        query: str = "",
        wrong_only: bool = False,
        category: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> SamplePage:
        """As `Store.sample_list`; withheld samples have no snippet, and no search finds them."""

        def read(at: int, most: int) -> SamplePage:
            return super(PublicStore, self).sample_list(
                run_id, task, query=query, wrong_only=wrong_only, category=category, offset=at, limit=most
            )

        return self._public_page(run_id, task, read, Page(offset, limit), category, is_search=bool(query.strip()))

    def _public_page(
        self,
        run_id: str,
        task: str | None,
        read: Callable[[int, int], SamplePage],
        page: Page,
        category: str | None,
        *,
        is_search: bool,
    ) -> SamplePage:
        """Return a page of a list without the snippets of withheld samples.

        A search leaves withheld samples out, and a list of one category those whose category is not shown.
        """
        if task is not None and self.why_withheld(run_id, task) is None:
            return read(page.offset, page.limit)
        withheld = self.withheld_tasks(run_id)
        if not withheld:
            return read(page.offset, page.limit)
        previews: dict[str, frozenset[int]] = {}
        categories = {name: self._shown_categories(run_id, name) for name in withheld if task in {None, name}}

        def is_shown(facts: SampleFacts) -> bool:
            how = withheld.get(facts.task)
            if how is None:
                return facts.task in self._tasks_of(run_id).datasets
            if facts.task not in previews:
                previews[facts.task] = self.preview_of(run_id, facts.task) or frozenset()
            return facts.sample_index in previews[facts.task] and facts.n_shots == 0

        def note_of(facts: SampleFacts) -> str:
            return withheld[facts.task].note if facts.task in withheld else WITHHELD

        def is_listed(facts: SampleFacts) -> bool:
            is_open = category in categories.get(facts.task, ()) or facts.task not in withheld
            return is_shown(facts) or (is_open and not is_search)

        if not is_search and category is None:
            listed = read(page.offset, page.limit)
            return replace(
                listed,
                samples=tuple(
                    facts
                    if is_shown(facts)
                    else facts._replace(
                        snippet=note_of(facts),
                        category=facts.category if facts.category in categories.get(facts.task, ()) else None,
                    )
                    for facts in listed.samples
                ),
            )
        matching: list[SampleFacts] = []
        at = 0
        while (part := read(at, AT_ONCE)).samples:
            matching += [facts for facts in part.samples if is_listed(facts)]
            at += AT_ONCE
        some = tuple(
            facts if is_shown(facts) else facts._replace(snippet=note_of(facts))
            for facts in matching[page.offset : page.offset + page.limit]
        )
        return replace(part, samples=some, total=len(matching), offset=page.offset, limit=page.limit)


def _asks_for_category(record: SampleRecord) -> bool:
    """Return whether a sample's category, subject or topic is an answer to it, or another of its columns."""
    row = {} if record.sample is None else record.sample.row
    parts = [part for part in (row, row.get("inputs"), row.get("metadata")) if isinstance(part, Mapping)]
    named = [(str(name).strip().lower(), value) for part in parts for name, value in part.items()]
    choices = [query.continuation for query in record.request.queries if isinstance(query, LoglikelihoodQuery)]
    others = [record.request.target, *choices, *(value for name, value in named if name not in CATEGORY_FIELDS)]
    categories = [value for name, value in named if name in SUBJECTS]
    plain, answers = ({_folded(text) for text in texts if isinstance(text, str)} for texts in (categories, others))
    return not plain.isdisjoint(answers)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _run_tasks(row: RunRow) -> _RunTasks:
    members: dict[str, set[str]] = {}
    for group in row.extra.get("groups", ()):
        members[group["name"]] = set(group["members"])
    groups: dict[str, set[str]] = {}
    for name, own in members.items():
        todo, seen = list(own), set(own)
        while todo:
            inner = members.get(todo.pop(), set()) - seen
            seen |= inner
            todo += inner
        for task in seen:
            groups.setdefault(task, set()).add(name)
    datasets = {task.name: task.dataset_hash for task in row.plan.tasks}
    originals = {task.name: str(task.perturbed["of"]) for task in row.plan.tasks if task.perturbed is not None}
    of_tasks = {task: frozenset(own) for task, own in groups.items()}
    return _RunTasks(datasets, of_tasks, originals, "tasks" in row.extra)


# ------------------------------------------------------------------------------------ records without texts


def withheld_record(record: SampleRecord, how: WhyWithheld, categories: Collection[str] = ()) -> SampleRecord:
    """Return a record without its texts; a sample of a preview that is shown is returned as it is.

    categories: shown ones.
    """
    request = record.request
    if how.shows(request.sample_sha256, request.n_shots):
        return record
    category = None if record.sample is None else category_of(record.sample.row)
    category = category if category in categories else None
    digest = how.digest(request.sample_sha256)
    sample = Sample(request.task, request.sample_index, {} if category is None else {"category": category}, digest)
    return SampleRecord(
        sample=None if record.sample is None else sample,
        request=_public_request(request, how, digest),
        outputs=tuple(_public_output(output, how) for output in record.outputs),
        scores=tuple(
            replace(score, parts=_public_parts(score.parts), detail=_public_detail(score.detail))
            for score in record.scores
        ),
        is_withheld=True,
    )


def _public_request(request: Request, how: WhyWithheld, digest: str) -> Request:
    return replace(
        request,
        sample_sha256=digest,
        segments=(how.mark(request.prompt),),
        queries=tuple(_public_query(query, how) for query in request.queries),
        messages=(),
        target="",
        tools=None,
    )


def _public_query(query: Query, how: WhyWithheld) -> Query:
    if isinstance(query, LoglikelihoodQuery):
        own = None if query.segments is None else (how.mark("".join(query.segments)),)
        return replace(query, continuation=how.mark(query.continuation), segments=own)
    if isinstance(query, RollingQuery):
        return replace(query, text=how.mark(query.text))
    return query


def _public_output(output: Output, how: WhyWithheld) -> Output:
    return replace(
        output,
        text=None if output.text is None else how.mark(output.text),
        reasoning=None,
        tool_calls=None,
        cache_key=None,
        error=None if output.error is None else how.note,
        call=None,
    )


def _public_parts(parts: tuple[JsonValue, ...] | None) -> tuple[JsonValue, ...] | None:
    """Return an aggregation's inputs if all are numbers: texts, and lists that name the right choice, are withheld."""
    is_plain = parts is not None and all(isinstance(part, int | float) for part in parts)
    return parts if is_plain else None


def _public_detail(detail: JsonValue) -> JsonValue:
    if not isinstance(detail, Mapping):
        return None
    return {name: detail[name] for name in SHOWN_OF_DETAIL if name in detail} or None


def _public_estimate(estimate: Estimate, withheld: Mapping[str, WhyWithheld]) -> Estimate:
    if estimate.task not in withheld and not any(name in withheld for name in estimate.details.get("path", ())):
        return estimate
    details = {name: value for name, value in estimate.details.items() if name not in TEXT_DETAILS}
    return replace(estimate, details=cast("EstimateDetails", details))


def _public_run(row: RunRow, withheld: Mapping[str, WhyWithheld]) -> RunRow:
    plan = replace(row.plan, tasks=tuple(_public_task(task, withheld.get(task.name)) for task in row.plan.tasks))
    return replace(row, plan=plan, summary=_without_errors(row.summary), extra=_extra(row, withheld))


def _public_task(task: TaskPlan, how: WhyWithheld | None) -> TaskPlan:
    """Return a task's plan with the published commitment, or a note, in place of the data set's hash."""
    if how is None:
        return task
    return replace(task, dataset_hash=how.commitment or how.note)


def _extra(row: RunRow, withheld: Mapping[str, WhyWithheld]) -> ResultFacts:
    """Return a run's facts without bad rows and task files of withheld tasks, which may hold rows as shots."""
    tasks = row.extra.get("tasks")
    if not isinstance(tasks, Mapping):
        return row.extra
    public_tasks = {
        name: facts if (how := withheld.get(name)) is None else _task_facts(facts, how) for name, facts in tasks.items()
    }
    return {**row.extra, "tasks": public_tasks}


def _task_facts(facts: TaskFact, how: WhyWithheld) -> TaskFact:
    public_facts: TaskFact = {**facts}
    spec = facts.get("spec")
    if isinstance(spec, Mapping):
        kept = {name: spec[name] for name in SHOWN_OF_SPEC if name in spec}
        public_facts["spec"] = {**kept, "sealed": how.digest(canonical_json(spec))}
    if isinstance(skipped := facts.get("skipped"), Mapping):
        public_facts["skipped"] = {**skipped, "first": []}
    return public_facts


def _without_errors(facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return facts of an attempt without the texts of errors, which may quote a request."""
    return {name: WITHHELD if "error" in name or name == "stop_reason" else value for name, value in facts.items()}
