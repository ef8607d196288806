"""A task looked over before it is run: what would make its numbers mean something else than one thinks.

Golds in a skewed place, rows asked twice, samples among their own shots, choices that are equal, empty or of which
the first token decides nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from evalstone.api.evaluate import split_names
from evalstone.errors import EvalstoneError
from evalstone.models.create import create_model
from evalstone.records import JsonValue, LoglikelihoodAsk, Request
from evalstone.settings import data_folder
from evalstone.tasks.bound import BindOptions, BoundTask, bind
from evalstone.tasks.catalog import Catalog

CHECKED_SAMPLES = 2000
SKEW_P = 0.001  # golds this unlikely under an even spread are told


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing before the run."""

    level: str  # error | warning
    text: str


@dataclass(slots=True)
class TaskCheck:
    """All that was found."""

    facts: dict[str, JsonValue] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def warn(self, text: str, level: str = "warning") -> None:
        """Add a finding."""
        self.findings.append(Finding(level, text))

    def to_json(self) -> dict[str, JsonValue]:
        """Return facts and findings with stable names."""
        return {"facts": self.facts, "findings": [asdict(finding) for finding in self.findings]}


def check_task(
    name: str,
    num_fewshot: int | None = None,
    model_args: str = "",
    *,
    data_dir: str | None = None,
    include_path: Sequence[str] = (),
) -> TaskCheck:
    """Render up to 2,000 samples of every task `name` stands for and return what is worth knowing.

    Raises: UnknownName, DataError if a task cannot be read at all.
    """
    found = TaskCheck()
    selection = Catalog.open([Path(folder) for folder in include_path]).select(split_names(name))
    options = BindOptions(num_fewshot=num_fewshot, data_dir=data_folder(data_dir), limit=float(CHECKED_SAMPLES))
    for note in selection.notes:
        found.warn(note)
    for task in selection.tasks:
        try:
            bound = bind(task, options)
            requests = list(bound.requests())
            absent = [sample.index for sample in bound.samples() if bound.gold_is_absent(sample)]
        except EvalstoneError as error:
            found.warn(f"{task.name}: {error}", "error")
            continue
        _facts(found, bound, requests)
        _repeated_rows(found, bound)
        _absent_golds(found, task.name, absent)
        _golds(found, bound, requests)
        _choices(found, requests)
        _leaks(found, task.name, requests)
        if model_args:
            _tokens(found, task.name, requests, model_args)
    return found


def _facts(found: TaskCheck, bound: BoundTask, requests: Sequence[Request]) -> None:
    name = bound.plan.name
    found.facts[name] = (
        f"{bound.n_original:,} samples, {len(requests):,} looked at, {bound.task.output_type}, "
        f"{bound.plan.num_fewshot} shots, metrics {', '.join(sorted({m.name for m in bound.metrics}))}"
    )


def _repeated_rows(found: TaskCheck, bound: BoundTask) -> None:
    counts = Counter(sample.sha256 for sample in bound.samples())
    repeated = sum(count - 1 for count in counts.values())
    if repeated:
        found.warn(f"{bound.plan.name}: {repeated} row(s) are repeats of another; they count more than once")


def _absent_golds(found: TaskCheck, name: str, absent: Sequence[int]) -> None:
    if absent:
        found.warn(
            f"{name}: {len(absent)} row(s) whose right answer is none of the choices, the first is sample {absent[0]}; "
            "they count as wrong whatever the model answers"
        )


def _golds(found: TaskCheck, bound: BoundTask, requests: Sequence[Request]) -> None:
    """Tell when golds stand in one position more often than chance would put them there."""
    if bound.task.output_type != "multiple_choice":
        return
    widths = {len(_choice_asks(request)) for request in requests}
    if len(widths) != 1:
        return  # positions of samples with different numbers of choices do not compare
    k = widths.pop()
    positions = Counter(_gold_position(request) for request in requests)
    positions.pop(None, None)
    n = sum(positions.values())
    if n < 5 * k:
        return
    statistic = sum((positions.get(i, 0) - n / k) ** 2 / (n / k) for i in range(k))
    from evalstone.statistics.distributions import chi_square_sf

    if chi_square_sf(statistic, k - 1) < SKEW_P:
        most, count = positions.most_common(1)[0]
        found.warn(f"{bound.plan.name}: the right choice is number {most} in {count / n:.0%} of samples; "
                   f"a constant answer scores that, guessing {1 / k:.0%}")  # fmt: skip


def _gold_position(request: Request) -> int | None:
    """Return where the right choice stands, from the request's logged target."""
    target = request.target.strip()
    texts = [ask.continuation.strip() for ask in _choice_asks(request)]
    if target in texts:
        return texts.index(target)
    return int(target) if target.isdigit() and int(target) < len(texts) else None


def _choice_asks(request: Request) -> list[LoglikelihoodAsk]:
    return [ask for ask in request.asks if isinstance(ask, LoglikelihoodAsk) and ask.role == "choice"]


def _choices(found: TaskCheck, requests: Sequence[Request]) -> None:
    equal = [
        r.id for r in requests if len({(a.segments, a.continuation) for a in _choice_asks(r)}) < len(_choice_asks(r))
    ]
    empty = [r.id for r in requests if any(not a.continuation.strip() for a in _choice_asks(r))]
    if equal:
        found.warn(f"{len(equal)} sample(s) offer the same choice twice, first {equal[0]}: ties are certain there")
    if empty:
        found.warn(f"{len(empty)} sample(s) have an empty choice, first {empty[0]}: it cannot be scored", "error")


def _leaks(found: TaskCheck, name: str, requests: Sequence[Request]) -> None:
    leaked = sum(request.n_leaked_shots > 0 for request in requests)
    if leaked:
        found.warn(f"{name}: {leaked} sample(s) are among their own shots; --profile evalstone forbids that")


def _tokens(found: TaskCheck, name: str, requests: Sequence[Request], model_args: str) -> None:
    """Tell when a choice does not start a token of its own."""
    model = create_model("hf", model_args)
    odd: list[str] = []
    for request in requests[:200]:
        for ask in _choice_asks(request):
            split = model.split_tokens("".join(ask.segments or request.segments), ask.continuation)
            if split is not None and split[1] >= len(split[0]):
                odd.append(f"{request.id} choice {ask.index}")
    if odd:
        found.warn(f"{name}: {len(odd)} choice(s) melt into the prompt's last token, first {odd[0]}", "error")
