"""A run: its estimates, the exact command, hashes and versions; and a task's samples in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from assaymark.documents.numbers import counted
from assaymark.errors import UnknownName
from assaymark.leaderboard.about import task_card
from assaymark.leaderboard.rows import StoppedEarly
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns, TaskSamples, model_label
from assaymark.limits.shown_paths import without_folders
from assaymark.options.of_plans import part_shown
from assaymark.records import Estimate, JsonValue
from assaymark.results.estimate_texts import truncation_of
from assaymark.results.evidence.perturbations import perturbed_from
from assaymark.results.evidence.records import PerturbedScore
from assaymark.results.views.run_document import perturbed_cells, perturbed_name, shown_scores
from assaymark.store import AttemptRow
from assaymark.web.render import plain, plain_fields

PRIVATE = {"host", "hostname", "platform", "process_id", "pid", "user"}  # of an attempt's facts
TEXTS = {"system_instruction"}  # of a plan: content, in which a slash is not a path
PER_PAGE = 50
LONGEST_SEARCH = 500


@dataclass(frozen=True)
class AttemptView:
    """One attempt of a run, without its machine and process."""

    attempt_id: int
    status: str
    started_at: str
    ended_at: str | None
    command: str | None
    facts: Mapping[str, JsonValue]
    summary: Mapping[str, JsonValue]


@dataclass(frozen=True)
class RunPage:
    """One run."""

    run: StoredRun
    headline: tuple[Estimate, ...]  # composites, groups, and the metric that stands for each task
    others: tuple[Estimate, ...]  # further metrics
    settings: tuple[tuple[str, str], ...]
    hashes: tuple[tuple[str, str], ...]
    attempts: tuple[AttemptView, ...]
    perturbed: tuple[PerturbedScore, ...] = ()

    json_keys = "run=run.run_id model=run.model status=run.row.status command plan estimates perturbed? notes attempts"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """All estimates."""
        return (*self.headline, *self.others)

    @property
    def plan(self) -> dict[str, JsonValue]:
        """The plan with the model's label and files without their folders; prompt texts stay as they are."""
        content = {key: plain(value) for key, value in self.run.plan.content.items()}
        public = {key: value if key in TEXTS else without_folders(value) for key, value in content.items()}
        model = public.get("model")
        if isinstance(model, dict) and "name" in model:
            model["name"] = model_label(self.run.plan.model.name)
        return public

    @property
    def perturbed_rows(self) -> list[tuple[str, str, list[str]]]:
        """The task, perturbation and cells of each result of a perturbation."""
        return [(score.task, perturbed_name(score), perturbed_cells(score)) for score in shown_scores(self.perturbed)]

    @property
    def notes(self) -> tuple[str, ...]:
        """The scores that are not meaningful, and why."""
        stopped = self.run.stopped
        first = () if stopped is None else (StoppedEarly(stopped.n_seen, stopped.n).text,)
        listed = ((estimate.task, truncation_of(estimate)) for estimate in self.estimates)
        return (*first, *dict.fromkeys(f"{task}: {note}" for task, note in listed if note))

    @property
    def command(self) -> str:
        """The command of the last attempt, with paths as their last part."""
        return str(without_folders(self.run.row.command or ""))

    @property
    def runs_as_it_stands(self) -> bool:
        """Whether the shown command is the original one; folders of this machine are not shown."""
        return self.command == self.run.row.command


@dataclass(frozen=True)
class SamplesPage:
    """A task's samples in a run."""

    run: StoredRun
    task: str
    estimates: tuple[Estimate, ...]
    card: Mapping[str, JsonValue]
    samples: TaskSamples
    q: str
    wrong: bool
    category: str
    page: int
    n_pages: int
    problems: tuple[str, ...]
    replies: Mapping[tuple[int, int], tuple[str, str]] = field(default_factory=dict)  # index, turn -> answer, target

    json_keys = (
        "run=run.run_id task n_matching=samples.n_matching n_total=samples.n_total n_wrong=samples.n_wrong page "
        "n_pages categories samples=lines"
    )

    @property
    def categories(self) -> dict[str, int]:
        """The number of samples in each category."""
        return dict(self.samples.categories)

    @property
    def lines(self) -> list[dict[str, JsonValue]]:
        """The samples, with the answer and target of those that are shown in full."""
        return [
            plain_fields(line)
            | dict(zip(("answer", "target"), self.replies.get((line.index, line.turn), ()), strict=False))
            for line in self.samples.lines
        ]

    def query(self, **changes: object) -> str:
        """Return the query string with some choices changed."""
        chosen = {
            "q": self.q,
            "wrong": "1" if self.wrong else "",
            "category": self.category,
            "page": self.page,
            **changes,
        }
        parameters = {key: value for key, value in chosen.items() if value and not (key == "page" and value == 1)}
        return f"?{urlencode(parameters)}" if parameters else "?"


def runs_of(site: Site) -> StoredRuns:
    """Return the store's runs. Raises: UnknownName where there is no store."""
    if site.runs is None:
        raise UnknownName("run", "of any kind", remedy="this server shows published tables only")
    return site.runs


def run_page(site: Site, name: str) -> RunPage:
    """Return a run's page. Raises: UnknownName."""
    runs = runs_of(site)
    run = runs.run(name)
    primary = [
        estimate
        for estimate in run.estimates
        if (estimate.details.get("primary") and "copy_of" not in estimate.details)
        or estimate.details.get("kind") in {"composite", "group"}
    ]
    return RunPage(
        run,
        tuple(primary),
        tuple(estimate for estimate in run.estimates if estimate not in primary),
        tuple(_settings(run)),
        tuple(_hashes(run)),
        tuple(_attempt(attempt) for attempt in runs.attempts(run.run_id)),
        perturbed_from(run.row.extra),
    )


def _attempt(row: AttemptRow) -> AttemptView:
    facts = {key: without_folders(value) for key, value in row.facts.items() if key not in PRIVATE | {"copied"}}
    if isinstance(copied := row.facts.get("copied"), list):
        attempts = [attempt for attempt in copied if isinstance(attempt, Mapping)]
        facts["copied"] = f"imported; {counted(len(attempts), 'attempt')} where it was evaluated" + (
            f", the last begun at {str(attempts[-1]['started_at'])[:16].replace('T', ' ')} UTC"
            if attempts and attempts[-1].get("started_at")
            else ""
        )
    summary = {key: without_folders(value) for key, value in row.summary.items() if key not in PRIVATE}
    command = None if row.command is None else str(without_folders(row.command))
    return AttemptView(row.attempt_id, row.status, row.started_at, row.ended_at, command, facts, summary)


def _settings(run: StoredRun) -> list[tuple[str, str]]:
    plan = run.plan
    model = plan.model
    shots = sorted({task.num_fewshot for task in plan.tasks})
    known = {
        "model": model_label(model.name),
        "back end": model.kind,
        "dtype": model.dtype,
        "numerics": model.numerics,
        "longest context": model.max_length,
        "parameters": None if model.n_parameters is None else f"{model.n_parameters:,}",
        "revision": model.revision,
        "profile": plan.profile,
        "shots": ", ".join(map(str, shots)),
        "few-shot seed": plan.seed,
        "limit": part_shown(plan),
        "chat template": plan.apply_chat_template or None,
        "shots as turns": plan.fewshot_as_multiturn or None,
        "system prompt": plan.system_instruction,
        "prompts that are too long": plan.too_long,
        **{f"model option {key}": value for key, value in model.options},
        **{str(key).replace("_", " "): value for key, value in plan.extra},
    }
    public = {name: value if name == "system prompt" else without_folders(value) for name, value in known.items()}
    return [(name, str(value)) for name, value in public.items() if value is not None]


def _hashes(run: StoredRun) -> list[tuple[str, str]]:
    plan = run.plan
    known = [("run key", plan.key), ("model", plan.model.content_hash), ("tokenizer", plan.model.tokenizer_hash),
             ("chat template", plan.model.template_hash)]  # fmt: skip
    known += [(f"{task.name}: task file", task.spec_hash) for task in plan.tasks]
    known += [(f"{task.name}: data set", task.dataset_hash) for task in plan.tasks]
    return [(name, value) for name, value in known if value]


@dataclass(frozen=True)
class GroupPage:
    """A group's members in a run: it has no samples of its own."""

    run: StoredRun
    group: str
    estimates: tuple[Estimate, ...]
    members: tuple[str, ...]  # tasks with samples, in the plan's order

    json_keys = "run=run.run_id group members"


def group_page(site: Site, name: str, group: str) -> GroupPage | None:
    """Return the members of a group or composite of a run; None if the run has no such group.

    Raises: UnknownName for a run.
    """
    run = runs_of(site).run(name)
    if group in run.row.tasks:
        return None
    within = {estimate.task for estimate in run.estimates if group in estimate.details.get("path", ())}
    members = tuple(task for task in run.row.tasks if task in within)
    if not members:
        return None
    return GroupPage(run, group, tuple(estimate for estimate in run.estimates if estimate.task == group), members)


def filter_of(parameters: Sequence[tuple[str, str]]) -> tuple[str, bool, str]:
    """Return the search, whether only wrong samples are listed, and the category, from the parameters of an address."""
    chosen = dict(parameters)
    return chosen.get("q", "").strip(), chosen.get("wrong") == "1", chosen.get("category", "")[:200]


def samples_page(site: Site, name: str, task: str, parameters: Sequence[tuple[str, str]]) -> SamplesPage:
    """Return a task's samples in a run. Raises: UnknownName."""
    runs = runs_of(site)
    run = runs.run(name)
    chosen = dict(parameters)
    problems = [f"unknown parameter '{key[:40]}'" for key in chosen if key not in {"q", "wrong", "category", "page"}]
    q, wrong, category = filter_of(parameters)
    if len(q) > LONGEST_SEARCH:
        problems.append(f"the search has {len(q):,} characters; at most {LONGEST_SEARCH} are read")
        q = ""
    page = int(chosen["page"]) if chosen.get("page", "").isdecimal() and len(chosen["page"]) < 7 else 1
    page = max(page, 1)

    def read(at: int) -> TaskSamples:
        return runs.sample_page(run.row, task, text=q, wrong_only=wrong, category=category,
                                offset=(at - 1) * PER_PAGE, limit=PER_PAGE)  # fmt: skip

    samples = read(page)
    n_pages = max(1, -(-samples.n_matching // PER_PAGE))
    if page > n_pages:
        page, samples = n_pages, read(n_pages)
    own = tuple(estimate for estimate in run.estimates if estimate.task == task)
    return SamplesPage(run, task, own, task_card(task), samples, q, wrong, category, page, n_pages, tuple(problems))
