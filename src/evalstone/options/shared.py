"""The options that the command line, `evaluate` and stored plans share.

Each is declared here and nowhere else. The order is that of the command line's help: lm-eval's names first, then ours.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from evalstone.errors import UsageError
from evalstone.options.of_plans import (
    limit_shown,
    model_arguments,
    positions,
    preset_heading,
    preset_plan,
    preset_shown,
    shots_are_turns,
    stored_preset,
    system_heading,
    template_heading,
    template_name,
)
from evalstone.options.option import InPlan, Option
from evalstone.options.texts import (
    read_arguments,
    read_negated,
    read_samples,
    read_seed,
    read_shots,
    read_template,
    read_truth,
)
from evalstone.prompts.presets import PromptPreset
from evalstone.settings import environment

if TYPE_CHECKING:
    from evalstone.store import Store
else:
    Store = object  # the database's library takes long to import, and `--help` needs the declarations only

__all__ = ["PROMPT_STYLE", "SharedOptions"]

PROMPT_STYLE = "prompt style"  # among a run's settings


def _check_limit(value: float) -> None:
    if not math.isfinite(value) or value <= 0 or (value > 1 and value != int(value)):
        raise UsageError(f"limit is {value:g}; expected a whole number of samples from 1, or a fraction below 1")


def _check_gen_kwargs(value: Mapping[str, Any]) -> None:
    from evalstone.tasks.generation import check_gen_kwargs

    check_gen_kwargs(value)


class SharedOptions(TypedDict, total=False):
    """The optional keywords of `evaluate`, besides model and tasks."""

    model_args: Annotated[
        str | Mapping[str, Any],  # for a model named by its kind
        Option(
            help="pretrained=DIR,dtype=float32,peft=DIR,...",
            flags=("--model_args", "-a"),
            metavar="A=1,B=2",
            default="",
            expected="a text such as 'dtype=float32', or a mapping",
            read_back=model_arguments,
        ),
    ]
    num_fewshot: Annotated[
        int | None,
        Option(
            help="Shots before each sample (default: the task's).",
            flags=("--num_fewshot", "-f"),
            metavar="N",
            least=0,
            read=read_shots,
        ),
    ]
    limit: Annotated[
        float | None,
        Option(
            help="First N samples of each task, or a fraction below 1.",
            flags=("--limit", "-L"),
            metavar="N",
            check=_check_limit,
            in_plan=InPlan(
                field="limit",
                read_back=lambda plan: plan.limit,
                label="limit",
                heading=lambda plan: None if plan.limit is None else ("limit", limit_shown(plan.limit)),
            ),
        ),
    ]
    samples: Annotated[
        Mapping[str, Sequence[int]] | None,  # task -> positions; nothing else is evaluated
        Option(
            help="Only these positions: '{\"arc_easy\": [0, 7]}'.",
            flags=("--samples", "-E"),
            metavar="JSON|FILE",
            expected="a mapping of task names to lists of positions",
            read=read_samples,
            read_back=positions,
        ),
    ]
    prompt_style: Annotated[
        str | None,
        Option(
            help="Prompt style of multiple choice: letter, text, cot; several, or several --num_fewshot, are compared.",
            flags=("--prompt_style",),
            metavar="STYLES",
            expected="letter, text or cot",
            is_shared=False,
            in_plan=InPlan(
                field="prompt_style",
                value=lambda given: given["prompt_style"] or None,
                read_back=lambda plan: plan.prompt_style,
                label=PROMPT_STYLE,
                heading=lambda plan: (
                    None if plan.prompt_style is None else ("prompt style", f"prompt style {plan.prompt_style}")
                ),
            ),
        ),
    ]
    apply_chat_template: Annotated[
        bool | str,
        Option(
            help="Apply the model's chat template to prompts.",
            flags=("--apply_chat_template",),
            metavar="[NAME]",
            default=False,
            expected="True, or the name of a template",
            read=read_template,
            in_plan=InPlan(
                field="apply_chat_template",
                value=template_name,
                read_back=lambda plan: plan.apply_chat_template,
                label="chat template",
                compared=lambda plan: plan.model.template_hash if plan.apply_chat_template else None,
                in_files=False,
                heading=template_heading,
            ),
        ),
    ]
    fewshot_as_multiturn: Annotated[
        bool | None,
        Option(
            help="Shots as turns (default: yes with a template).",
            flags=("--fewshot_as_multiturn",),
            metavar="[BOOL]",
            read=read_truth("fewshot_as_multiturn"),
            in_plan=InPlan(
                field="fewshot_as_multiturn",
                read_back=shots_are_turns,
                label="shots as turns",
                compared=shots_are_turns,
            ),
        ),
    ]
    system_instruction: Annotated[
        str | None,
        Option(
            help="System message before everything.",
            flags=("--system_instruction",),
            metavar="TEXT",
            in_plan=InPlan(
                field="system_instruction",
                read_back=lambda plan: plan.system_instruction,
                label="system instruction",
                heading=system_heading,
            ),
        ),
    ]
    gen_kwargs: Annotated[
        Mapping[str, Any],
        Option(
            help="Generation settings that override the task's own.",
            flags=("--gen_kwargs",),
            metavar="A=1,B=2",
            default={},
            read=read_arguments("gen_kwargs"),
            check=_check_gen_kwargs,
            in_plan=InPlan(
                field="gen_kwargs",
                value=lambda given: dict(given["gen_kwargs"]) or None,
                read_back=lambda plan: plan.gen_kwargs,
                label="generation arguments",
                in_files=False,
            ),
        ),
    ]
    include_path: Annotated[
        Sequence[str | Path],
        Option(
            help="Folder with task files; their code may run.",
            flags=("--include_path",),
            metavar="DIR",
            default=(),
            expected="a list of folders",
        ),
    ]
    seed: Annotated[
        int | None,  # of the few-shot draw; None: the profile's
        Option(
            help="lm-eval's four seeds; the fourth draws the shots (1234).",
            flags=("--seed",),
            metavar="N[,N,N,N]",
            read=read_seed,
            in_plan=InPlan(field="seed", read_back=lambda plan: plan.seed, label="seed of the shots"),
        ),
    ]
    metadata: Annotated[
        Mapping[str, Any],
        Option(
            help="Stored with the run; task files may read it.",
            flags=("--metadata",),
            metavar="JSON|A=1",
            default={},
            read=read_arguments("metadata"),
        ),
    ]
    confirm_unsafe_code: Annotated[
        bool,
        Option(
            help="Run generated code even where there is no sandbox.",
            flags=("--confirm_run_unsafe_code", "--unsafe_code"),
            default=False,
        ),
    ]
    data_dir: Annotated[
        str | Path | None,
        Option(
            help="Local data: DIR/<hub path>/<config>/<split>.parquet.",
            flags=("--data_dir",),
            metavar="DIR",
            expected="a folder",
        ),
    ]
    store: Annotated[
        str | Path | Store | None,
        Option(
            help="Where runs are stored (default: your data folder).",
            flags=("--store",),
            metavar="FILE|URL",
            expected="a file, a database's URL, or an open store",
        ),
    ]
    suite: Annotated[
        str | Path | None,
        Option(
            help="A leaderboard's benchmark: its tasks with its shots, and their composite score.",
            flags=("--suite",),
            metavar="NAME|FILE",
            expected="a suite's name or file",
        ),
    ]
    partial: Annotated[
        bool,
        Option(
            help="With --suite: omit tasks that cannot be evaluated, and the composite.",
            flags=("--partial",),
            default=False,
        ),
    ]
    prompt_preset: Annotated[
        str | PromptPreset | None,
        Option(
            help="A published prompt format (chatml, llama-2, ...; see `ls presets`), not the model's template.",
            flags=("--prompt_preset",),
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
            help="A system text by name, or a text file's, in place of --system_instruction.",
            flags=("--system_prompt",),
            metavar="NAME|FILE",
            expected="a system prompt's name or file",
        ),
    ]
    profile: Annotated[
        str | None,
        Option(
            help="Whose rules apply: BOS, shots, numerics (default: the suite's, else lm-eval-0.4.13).",
            flags=("--profile",),
            metavar="NAME",
            expected="a profile's name",
            in_plan=InPlan(field="profile", read_back=lambda plan: plan.profile, label="profile"),
        ),
    ]
    numerics: Annotated[
        str,
        Option(
            help="Scores in float32, or rounded as lm-eval rounds them.",
            flags=("--numerics",),
            default="float32",
            choices=("float32", "model-dtype"),
        ),
    ]
    too_long: Annotated[
        str,
        Option(
            help="Prompts beyond the model's maximum length: cut from the left, or error.",
            flags=("--too_long",),
            default="cut",
            choices=("cut", "error"),
            in_plan=InPlan(
                field="too_long",
                value=lambda given: given["too_long"],
                read_back=lambda plan: plan.too_long,
                label="prompts that are too long",
                in_files=False,
            ),
        ),
    ]
    workers: Annotated[int, Option(help="Processes that run the model.", flags=("--workers",), default=1, least=1)]
    cluster: Annotated[
        str | None,
        Option(
            help="Place --workers on a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Each takes a GPU, or a share "
            "of the CPUs where there are none; every machine has the model at the same path, or it is on the Hub.",
            flags=("--cluster",),
            metavar="ADDRESS",
        ),
    ]
    strict_env: Annotated[
        bool,
        Option(
            help="Make versions part of the run's identity.",
            flags=("--strict_env",),
            default=False,
            in_plan=InPlan(
                field="environment",
                value=lambda given: environment() if given["strict_env"] else None,
                read_back=lambda plan: plan.environment is not None,
            ),
        ),
    ]
    question_blind: Annotated[
        bool,
        Option(
            help="Also evaluate without the questions' text: a baseline.",
            flags=("--question_blind",),
            default=False,
            is_shared=False,
        ),
    ]
    wait: Annotated[
        bool,  # True: follow another process that is writing the same run until it ends; False: raise RunBusy
        Option(
            help="Refuse (exit code 4) where another process is writing the same run.",
            flags=("--no_wait",),
            default=True,
            read=read_negated,
            is_shared=False,
        ),
    ]
