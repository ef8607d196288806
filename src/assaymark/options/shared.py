"""The options that the command line, `evaluate` and stored plans share.

Each is declared once: here, or in `lm_eval_options` where the command line's help lists it first.

From them follow the fields of a plan, and from a stored plan its options and what of them is shown.
"""

from collections.abc import Iterator, Mapping
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assaymark.models.cost.prices import Price, check_price
from assaymark.options.lm_eval_options import LmEvalOptions
from assaymark.options.of_plans import preset_heading, preset_plan, preset_shown, stored_preset
from assaymark.options.option import InPlan, Option, check_cost, declared_options, given
from assaymark.prompts.presets import PromptPreset
from assaymark.records import JsonValue, RunPlan
from assaymark.settings import environment
from assaymark.tasks.profiles import profile_of

if TYPE_CHECKING:
    from assaymark.store import Store
else:
    Store = object  # the database's library takes long to import, and `--help` needs the declarations only


class SharedOptions(LmEvalOptions, total=False):
    """The optional keywords of `evaluate`, besides model and tasks."""

    data_dir: Annotated[
        str | Path | None,
        Option(help="Local data: DIR/<hub path>/<config>/<split>.parquet.", metavar="DIR", expected="a folder"),
    ]
    store: Annotated[
        str | Path | Store | None,
        Option(
            help="Database of stored runs (default: ASSAYMARK_STORE, or your data folder).",
            metavar="FILE|URL",
            expected="a file, a database's URL, or an open store",
        ),
    ]
    suite: Annotated[
        str | Path | None,
        Option(
            help="Evaluate a suite: its tasks, with its numbers of shots, and their composite score.",
            metavar="NAME|FILE",
            expected="a suite's name or file",
        ),
    ]
    partial: Annotated[
        bool,
        Option(help="With --suite: omit tasks that cannot be evaluated; there is no composite then.", default=False),
    ]
    prompt_preset: Annotated[
        str | PromptPreset | None,
        Option(
            help="Published prompt format (chatml, llama-2, ...; see `ls presets`) instead of the model's template.",
            metavar="NAME|FILE",
            expected="a preset's name or file",
            in_plan=InPlan(
                field="prompt_preset",
                value=preset_plan,
                read_back=stored_preset,
                label="prompt preset",
                compared=preset_shown,
                heading=preset_heading,
            ),
        ),
    ]
    system_prompt: Annotated[
        str | None,
        Option(
            help="System message by name or from a text file, instead of --system_instruction.",
            metavar="NAME|FILE",
            expected="a system prompt's name or file",
        ),
    ]
    profile: Annotated[
        str | None,
        Option(
            help="Rules for BOS, few-shot examples and numerics (default: the suite's, else lm-eval-0.4.13).",
            metavar="NAME",
            expected="a profile's name",
            in_plan=InPlan(field="profile", read_back=profile_of, label="profile"),
        ),
    ]
    numerics: Annotated[
        str,
        Option(
            help="Compute scores in float32, or round them to the model's dtype as lm-eval does.",
            default="float32",
            choices=("float32", "model-dtype"),
        ),
    ]
    too_long: Annotated[
        str,
        Option(
            help="Prompts longer than the model's context: truncate from the left (cut), leave out the last shots "
            "until it fits, then truncate from the right, as HELM (drop_shots), or refuse the run (error).",
            default="cut",
            choices=("cut", "drop_shots", "error"),
            in_plan=InPlan(
                field="too_long", value=given("too_long"), label="prompts that are too long", in_files=False
            ),
        ),
    ]
    workers: Annotated[int, Option(help="Number of worker processes.", default=1, least=1)]
    cluster: Annotated[
        str | None,
        Option(
            help="Run --workers on a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Each worker uses one GPU, or a "
            "share of the CPUs if there is no GPU. Each machine needs the model at the same path, or from the Hub.",
            metavar="ADDRESS",
        ),
    ]
    strict_env: Annotated[
        bool,
        Option(
            help="Include the versions of libraries in the run key.",
            default=False,
            in_plan=InPlan(
                field="environment",
                value=lambda options: environment() if options["strict_env"] else None,
                read_back=lambda plan: plan.environment is not None,
            ),
        ),
    ]
    price: Annotated[
        str | Price | None,
        Option(
            help="Price of the model: money per million tokens read and generated (default: the dated table of prices, "
            "where it has the model).",
            metavar="IN,OUT",
            expected="a text such as '2.5,10'",
            check=check_price,
        ),
    ]
    prices: Annotated[
        str | Path | None,
        Option(help="YAML file of prices, looked up before the package's table.", metavar="FILE", expected="a file"),
    ]
    max_cost: Annotated[
        float | None,
        Option(
            help="Send nothing that could pass this cost; the same command with a higher limit continues the run.",
            metavar="MONEY",
            check=check_cost,
        ),
    ]
    question_blind: Annotated[
        bool,
        Option(
            help="Also compute the question-blind baseline: the choices without their question.",
            default=False,
            is_shared=False,
        ),
    ]
    predict_only: Annotated[
        bool,
        Option(
            help="Store outputs and print no scores; where a task's own scoring fails, they are stored without.",
            flags=("--predict_only", "-x"),
            default=False,
            is_shared=False,
        ),
    ]
    wait: Annotated[
        bool,  # True: follow another process that is writing the same run until it ends; False: raise RunBusy
        Option(
            help="Exit with code 4 if another process is writing the same run, instead of following it.",
            flags=("--no_wait",),
            default=True,
            read=not_,
            is_shared=False,
        ),
    ]


def _in_plans(kind: type = SharedOptions) -> Iterator[InPlan]:
    return (
        declared.option.in_plan for declared in declared_options(kind).values() if declared.option.in_plan is not None
    )


def plan_settings(options: Mapping[str, object], kind: type = SharedOptions) -> dict[str, Any]:
    """Return the plan's fields of all options, with their defaults filled in; fields that are None are omitted.

    Fields that are set from `BindOptions` are not among them.

    Raises: UsageError, UnknownName and DataError where a name cannot be looked up.
    """
    fields = {plan.field: plan.value(options) for plan in _in_plans(kind) if plan.value is not None}
    return {name: value for name, value in fields.items() if value is not None}


def options_of(plan: RunPlan, kind: type = SharedOptions) -> dict[str, object]:
    """Return the options that recreate a plan, except its shots: tasks may fix those themselves."""
    declared = declared_options(kind).values()
    return {entry.name: entry.option.reads_back(plan) for entry in declared if entry.option.reads_back is not None}


def compared_settings(plan: RunPlan, kind: type = SharedOptions) -> dict[str, JsonValue]:
    """Return a plan's options that comparisons list; for an imported run, only those that other tools' files state."""
    plans = [
        in_plan for in_plan in _in_plans(kind) if in_plan.label and (in_plan.in_files or plan.model.kind != "imported")
    ]
    return {
        in_plan.label: in_plan.compared(plan) if in_plan.compared else getattr(plan, in_plan.field) for in_plan in plans
    }


def headings(plan: RunPlan, kind: type = SharedOptions) -> Iterator[tuple[str, str]]:
    """Yield name and text of each heading that an option adds above a run's table."""
    for in_plan in _in_plans(kind):
        if in_plan.heading is not None and (line := in_plan.heading(plan)) is not None:
            yield line
