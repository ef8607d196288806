"""Check of a task before it is run, for faults that would make its results misleading."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assaymark.audit.task_checks import Checked, Finding, check_requests, check_tokens
from assaymark.errors import AssaymarkError
from assaymark.models.create import create_model
from assaymark.records import JsonValue
from assaymark.runner.prepare import split_names
from assaymark.settings import data_folder
from assaymark.tasks.bind import bind
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData

CHECKED_SAMPLES = 2000


@dataclass(slots=True)
class TaskCheck:
    """Facts and findings about tasks."""

    facts: dict[str, JsonValue] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

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
    answers: str | None = None,
) -> TaskCheck:
    """Render up to 2,000 samples of every task that `name` selects, and return facts and findings.

    `answers` is how the answers in a file of rows name an option, as in `evaluate`.

    Raises: UnknownName for an unknown task; DataError if a task file cannot be read.
    """
    found = TaskCheck()
    own = OwnData(data_folder(data_dir), answers=answers)
    selection = Catalog.open([Path(folder) for folder in include_path]).select(split_names(name), own=own)
    options = BindOptions(num_fewshot=num_fewshot, data_dir=data_folder(data_dir), limit=float(CHECKED_SAMPLES))
    found.findings += [Finding("note", note) for note in selection.notes]
    model = create_model("hf", model_args) if model_args else None
    for task in selection.tasks:
        try:
            bound = bind(task, options)
            checked = Checked(bound, tuple(bound.requests()))
            _facts(found, checked)
            found.findings += check_requests(checked)
        except AssaymarkError as error:
            found.findings.append(Finding("error", f"{task.name}: {error}"))
            continue
        if model is not None:
            found.findings += check_tokens(checked, model)
    return found


def _facts(found: TaskCheck, checked: Checked) -> None:
    bound = checked.bound
    found.facts[checked.name] = (
        f"{bound.n_original:,} samples, {len(checked.requests):,} checked, {bound.task.output_type}, "
        f"{bound.plan.num_fewshot} shots, metrics {', '.join(sorted({m.name for m in bound.metrics}))}"
    )
