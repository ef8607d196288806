"""An option's declaration determines everything: keyword, flag, check, plan field, display and reading back."""

from collections import Counter
from dataclasses import fields
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from assaymark.errors import UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.options.option import InPlan, Option, check_options, declared_options, with_defaults
from assaymark.options.shared import SharedOptions, compared_settings, headings, options_of, plan_settings
from assaymark.records import ModelIdentity, RunPlan
from assaymark.runs.commands.plan import plan as plan_command
from assaymark.runs.commands.run import run as run_command
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.prepare import prepare_run
from assaymark.runs.run_options import _click_option

MODEL = ModelIdentity("a/model", "hf", "sha256:1", "sha256:2", None, "float32", "float32")


def test_every_keyword_of_evaluate_is_a_declared_option() -> None:
    """Nothing else is accepted, and a command has each declared flag once, on the option that declares it."""
    declared = declared_options(EvaluateOptions)
    assert set(declared) == set(EvaluateOptions.__annotations__)
    assert max(Counter(flag for each in declared.values() for flag in each.flags).values()) == 1
    for command in (run_command, plan_command):
        flags = Counter(flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts))
        assert max(flags.values()) == 1
    of_run = {flag: parameter.name for parameter in run_command.params for flag in parameter.opts}
    of_plan = {flag: parameter.name for parameter in plan_command.params for flag in parameter.opts}
    for each in declared_options(SharedOptions).values():
        for flag in each.flags:
            assert of_run[flag.partition("/")[0]] == each.parameter
            if each.option.is_shared:
                assert of_plan[flag.partition("/")[0]] == each.parameter


def test_every_field_of_a_plan_has_its_option() -> None:
    """Every field of a plan belongs to a declared option, except model, tasks and what follows from them."""
    declared = [
        option.option.in_plan.field for option in declared_options(EvaluateOptions).values() if option.option.in_plan
    ]
    assert max(Counter(declared).values()) == 1
    others = {"model", "tasks", "code_runs_in", "audit_settings", "extra", "unknown"}
    assert set(declared) == {each.name for each in fields(RunPlan)} - others


class LaterOptions(SharedOptions, total=False):
    """The options of a later version: one more declaration."""

    temper: Annotated[
        int | None,
        Option(
            help="How even-tempered.",
            flags=("--temper",),
            least=1,
            in_plan=InPlan(
                field="environment",
                value=lambda given: given["temper"],
                read_back=lambda plan: plan.environment,
                label="temper",
                heading=lambda plan: ("temper", f"temper {plan.environment}") if plan.environment else None,
            ),
        ),
    ]


def test_a_new_option_is_one_declaration() -> None:
    """Check, default, plan field, comparison, heading, reading back and flag follow from it."""
    check_options(LaterOptions, {"temper": 3})
    with pytest.raises(UsageError, match=r"temper is '3', of type str; expected a whole number"):
        check_options(LaterOptions, {"temper": "3"})
    with pytest.raises(UsageError, match=r"temper is 0; expected 1 or more"):
        check_options(LaterOptions, {"temper": 0})
    with pytest.raises(UnknownName, match="nearest: temper"):
        check_options(LaterOptions, {"tempr": 3})

    settings = plan_settings(with_defaults(LaterOptions, {"temper": 3}), LaterOptions)
    assert settings == {"environment": 3, "too_long": "cut"}
    assert plan_settings(with_defaults(LaterOptions, {}), LaterOptions) == {"too_long": "cut"}
    plan = RunPlan(MODEL, "assaymark", (), **settings)
    assert compared_settings(plan, LaterOptions)["temper"] == 3
    assert ("temper", "temper 3") in headings(plan, LaterOptions)
    assert options_of(plan, LaterOptions)["temper"] == 3

    @click.command()
    @_click_option(declared_options(LaterOptions)["temper"])
    def command(temper: int | None) -> None:
        click.echo(f"got {temper!r}")

    assert CliRunner().invoke(command, ["--temper", "3"]).output == "got 3\n"
    assert "How even-tempered." in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, ["--temper", "0"]).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit": 0.5, "seed": 7},
        {"samples": {"demo_yesno": [3, 5]}},
        {"prompt_style": "letter"},
        {"prompt_preset": "zephyr", "system_prompt": "helpful", "fewshot_as_multiturn": False},
        {"apply_chat_template": True, "system_instruction": "Be brief."},
        {"gen_kwargs": {"temperature": 0.5, "do_sample": True}},
        {"too_long": "error", "profile": "assaymark"},
        {"strict_env": True},
    ],
)
def test_a_plan_recreates_its_options(options: dict[str, Any]) -> None:
    """The options read back from a plan make a plan with the same key; without them the key is another."""
    small: dict[str, Any] = {"limit": 8} if "samples" not in options else {}
    wanted: Any = {**small, **options}
    _, first = prepare_run(FakeModel(), "demo_yesno", wanted)
    read: Any = {**options_of(first.plan), "model_args": {}}
    _, again = prepare_run(FakeModel(), "demo_yesno", read)
    assert again.plan.key == first.plan.key
    _, plain = prepare_run(FakeModel(), "demo_yesno", {"limit": 8})
    assert (first.plan.key == plain.plan.key) == (not options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partial": 1}, "partial is 1, of type int; expected True or False"),
        ({"workers": 0}, "workers is 0; expected 1 or more"),
        ({"num_fewshot": -1}, "num_fewshot is -1; expected 0 or more"),
        ({"numerics": "float64"}, "numerics is 'float64'; expected one of float32, model-dtype"),
        ({"limit": 2.5}, "limit is 2.5; expected a whole number of samples from 1, or a fraction below 1"),
        ({"notify": "me"}, "notify is 'me', of type str; expected a function"),
        ({"system_instruction": 5}, "system_instruction is 5, of type int; expected a text"),
    ],
)
def test_an_invalid_value_is_refused(options: dict[str, Any], message: str) -> None:
    """Type, range and choice are checked before anything is loaded; the error is one line with what was expected."""
    with pytest.raises(UsageError) as refused:
        check_options(EvaluateOptions, options)
    assert str(refused.value) == message


def test_none_is_the_default() -> None:
    """None means the default of an option that has one."""
    assert with_defaults(EvaluateOptions, {"workers": None, "limit": 3})["workers"] == 1
    check_options(EvaluateOptions, dict.fromkeys(EvaluateOptions.__annotations__))
