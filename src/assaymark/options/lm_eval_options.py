"""The first options of a run: those with lm-evaluation-harness's names, and ours that belong beside them.

They are declared as `options/shared.py` describes, which has the rest.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from assaymark.options.of_plans import (
    limit_heading,
    model_arguments,
    perturb_heading,
    perturb_plan,
    perturb_shown,
    positions,
    shots_are_turns,
    stored_perturbations,
    system_heading,
    template_heading,
    template_name,
)
from assaymark.options.option import InPlan, Option, check_gen_kwargs, check_limit, given
from assaymark.options.texts import read_arguments, read_samples, read_seed, read_shots, read_template, read_truth
from assaymark.perturbations.named import Perturbation
from assaymark.tasks.answer_readings import READINGS

PROMPT_STYLE = "prompt style"  # among a run's settings


class LmEvalOptions(TypedDict, total=False):
    """The keywords of `evaluate` that the command line's help lists first."""

    model_args: Annotated[
        str | Mapping[str, object],  # for a model named by its kind
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
            help="Number of few-shot examples (default: the task's).",
            flags=("--num_fewshot", "-f"),
            metavar="N",
            least=0,
            read=read_shots,
        ),
    ]
    limit: Annotated[
        float | None,
        Option(
            help="Evaluate only the first N samples of each task, or this fraction of them.",
            flags=("--limit", "-L"),
            metavar="N",
            check=check_limit,
            in_plan=InPlan(field="limit", label="limit", heading=limit_heading),
        ),
    ]
    samples: Annotated[
        Mapping[str, Sequence[int]] | None,  # task -> positions; nothing else is evaluated
        Option(
            help="Evaluate only the samples at these positions: '{\"arc_easy\": [0, 7]}'.",
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
            help="Prompt style of multiple choice: letter, text, cot, or HELM's (helm-joint, helm-separate, "
            "helm-separate-calibrated). Several styles (own: the file's), and several numbers of shots "
            "(--num_fewshot 0,5), are compared.",
            metavar="STYLES",
            expected="letter, text, cot, helm-joint, helm-separate or helm-separate-calibrated",
            is_shared=False,
            in_plan=InPlan(
                field="prompt_style",
                value=given("prompt_style"),
                label=PROMPT_STYLE,
                heading=lambda plan: (
                    None if plan.prompt_style is None else ("prompt style", f"prompt style {plan.prompt_style}")
                ),
            ),
        ),
    ]
    skip_bad_rows: Annotated[
        bool,
        Option(
            help="Leave out rows that cannot be read and count them, instead of stopping (a task file may set it too).",
            default=False,
            in_plan=InPlan(
                field="skip_bad_rows", value=given("skip_bad_rows"), label="bad rows skipped", in_files=False
            ),
        ),
    ]
    answers: Annotated[
        str | None,
        Option(
            help="How the answers in your own file name an option: by its text or letter, or by a number from 0 or 1 "
            "(default: the text where it fits every row, else what alone fits).",
            choices=tuple(READINGS),
            in_plan=InPlan(field="answers", value=given("answers"), label="answers read as", in_files=False),
        ),
    ]
    circular: Annotated[
        bool,
        Option(
            help="CircularEval: ask each multiple-choice question in every rotation of its options; in circular_acc it "
            "is right only if all are answered correctly.",
            default=False,
            in_plan=InPlan(
                field="circular",
                value=given("circular"),
                label="circular evaluation",
                in_files=False,
                heading=lambda plan: ("circular", "every rotation of the options") if plan.circular else None,
            ),
        ),
    ]
    perturb: Annotated[
        str | Sequence[str | Perturbation] | None,
        Option(
            help="Also evaluate perturbed copies of the samples, by HELM's rules: robustness, fairness (with lists of "
            "yours), or names such as mild_mix,typos:0.05,dialect=FILE,contrast_sets=FILE.",
            metavar="NAME,...",
            expected="names of perturbations",
            in_plan=InPlan(
                field="perturb",
                value=perturb_plan,
                read_back=stored_perturbations,
                label="perturbations",
                compared=perturb_shown,
                in_files=False,
                heading=perturb_heading,
            ),
        ),
    ]
    apply_chat_template: Annotated[
        bool | str,
        Option(
            help="Apply the model's chat template, or the one of this name.",
            metavar="[NAME]",
            default=False,
            expected="True, or the name of a template",
            read=read_template,
            in_plan=InPlan(
                field="apply_chat_template",
                value=template_name,
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
            help="Give shots as chat turns (default: true with a chat template).",
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
            help="System message at the start of each prompt.",
            metavar="TEXT",
            in_plan=InPlan(field="system_instruction", label="system instruction", heading=system_heading),
        ),
    ]
    gen_kwargs: Annotated[
        Mapping[str, object],
        Option(
            help="Generation settings that override the task's.",
            metavar="A=1,B=2",
            default={},
            read=read_arguments("gen_kwargs"),
            check=check_gen_kwargs,
            in_plan=InPlan(
                field="gen_kwargs",
                value=lambda options: dict(options["gen_kwargs"]) or None,
                label="generation arguments",
                in_files=False,
            ),
        ),
    ]
    include_path: Annotated[
        Sequence[str | Path],
        Option(
            help="Folder with task files; code in them may run.",
            metavar="DIR",
            default=(),
            expected="a list of folders",
        ),
    ]
    seed: Annotated[
        int | None,  # of the few-shot draw; None: the profile's
        Option(
            help="lm-eval's four seeds; only the fourth, which draws the shots, has an effect (default: 1234).",
            metavar="N[,N,N,N]",
            read=read_seed,
            in_plan=InPlan(field="seed", label="seed of the shots"),
        ),
    ]
    metadata: Annotated[
        Mapping[str, object],
        Option(
            help="Values to store with the run; task files can read them.",
            metavar="JSON|A=1",
            default={},
            read=read_arguments("metadata"),
        ),
    ]
    confirm_unsafe_code: Annotated[
        bool,
        Option(
            help="Run model-generated code even if no sandbox is available.",
            flags=("--confirm_run_unsafe_code", "--unsafe_code"),
            default=False,
        ),
    ]
