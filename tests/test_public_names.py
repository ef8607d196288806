"""The names people import are these, and they can be imported."""

import tomllib

import assaymark
from tests.conftest import ROOT


def test_public_names_are_pinned() -> None:
    """Adding or removing a public name is a decision, not an accident."""
    names = [
        "EvaluationCallback",
        "InitOptions",
        "JudgeOptions",
        "LanguageModel",
        "RaceCallback",
        "RaceOptions",
        "Ranking",
        "RescoreOptions",
        "Run",
        "VoteFileOptions",
        "__version__",
        "aggregation",
        "ask_study",
        "audit_calibration",
        "audit_contamination",
        "audit_prompts",
        "check_task",
        "compare_runs",
        "demo_model",
        "diagnose",
        "diff_prompts",
        "draft_study",
        "evaluate",
        "evaluate_prompt_styles",
        "experiment",
        "explain_task",
        "export_run",
        "feedback",
        "feedback_link",
        "filter_step",
        "gate",
        "import_run",
        "metric",
        "model",
        "init_task",
        "judge_agreement",
        "judge_injections",
        "judge_panel",
        "judge_runs",
        "list_runs",
        "load_model",
        "open_run",
        "plan_judging",
        "plan_run",
        "rate_votes",
        "remove_run",
        "reproduce",
        "rescore_run",
        "scorer",
        "send_traces",
        "span",
        "task",
        "trace",
        "verify_store",
        "write_report",
    ]
    assert assaymark.__all__ == sorted(names)


def test_every_public_name_is_there() -> None:
    """Each name in __all__ can be had, although it is imported only at its first use."""
    assert all(getattr(assaymark, name) is not None for name in assaymark.__all__)


def test_the_version_is_said_once() -> None:
    """pyproject.toml and the package name the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == assaymark.__version__


def test_completion_in_a_notebook_offers_the_public_names() -> None:
    """`dir` lists what is imported only at its first use."""
    assert dir(assaymark) == sorted(assaymark.__all__)
