"""Assaymark: standardised evaluation of language models.

import assaymark

run = assaymark.evaluate("path/to/model", "arc_challenge", num_fewshot=25)
print(run)

model = assaymark.load_model("path/to/model")
print(model.rank("The capital of France is", [" Paris", " Rome"]).best)
"""

from typing import TYPE_CHECKING

from assaymark.settings import VERSION as __version__  # noqa: N811 - the name every package has

if TYPE_CHECKING:
    from assaymark.applications.binding import scorer
    from assaymark.applications.experiments import experiment
    from assaymark.applications.gate import gate
    from assaymark.applications.live.sending import feedback, feedback_link
    from assaymark.applications.traces.spans import send_traces, span, trace
    from assaymark.arena.rate_votes import rate_votes
    from assaymark.arena.studies.prompts import ask_study, draft_study
    from assaymark.audit.auditing import audit_calibration, audit_contamination, audit_prompts
    from assaymark.audit.diagnosing import diagnose
    from assaymark.audit.task_check import check_task
    from assaymark.judges.injections import judge_injections
    from assaymark.judges.judge import judge_runs, plan_judging
    from assaymark.judges.judging import JudgeOptions
    from assaymark.judges.panel import judge_panel
    from assaymark.judges.report import VoteFileOptions, judge_agreement
    from assaymark.models.language_model import LanguageModel, Ranking, load_model
    from assaymark.runs.checkpoint_races import RaceCallback
    from assaymark.runs.comparison import compare_runs
    from assaymark.runs.demo import demo_model
    from assaymark.runs.evaluate import evaluate
    from assaymark.runs.explain import explain_task
    from assaymark.runs.exporting import export_run, import_run
    from assaymark.runs.planning import plan_run
    from assaymark.runs.prompt_diff import diff_prompts
    from assaymark.runs.prompt_styles import evaluate_prompt_styles
    from assaymark.runs.race import RaceOptions
    from assaymark.runs.reporting import write_report
    from assaymark.runs.reproduce import reproduce
    from assaymark.runs.rescoring import RescoreOptions, rescore_run
    from assaymark.runs.run import Run
    from assaymark.runs.stored import list_runs, open_run, remove_run, verify_store
    from assaymark.runs.task_init import InitOptions, init_task
    from assaymark.runs.trainer_callback import EvaluationCallback
    from assaymark.scoring.metric import filter_step, metric
    from assaymark.statistics.aggregate import aggregation
    from assaymark.tasks.user_code import model, task

__all__ = [
    "EvaluationCallback", "InitOptions", "JudgeOptions", "LanguageModel", "RaceCallback", "RaceOptions", "Ranking",
    "RescoreOptions", "Run", "VoteFileOptions", "__version__", "aggregation", "ask_study", "audit_calibration",
    "audit_contamination", "audit_prompts", "check_task", "compare_runs", "demo_model", "diagnose", "diff_prompts",
    "draft_study", "evaluate", "evaluate_prompt_styles", "experiment", "explain_task", "export_run", "feedback",
    "feedback_link", "filter_step", "gate", "import_run", "init_task", "judge_agreement", "judge_injections",
    "judge_panel", "judge_runs", "list_runs", "load_model", "metric", "model", "open_run", "plan_judging", "plan_run",
    "rate_votes", "remove_run", "reproduce", "rescore_run", "scorer", "send_traces", "span", "task", "trace",
    "verify_store", "write_report",
]  # fmt: skip

_PLACES = {
    name: f"assaymark.{module}"
    for module, names in {
        "applications.binding": "scorer",
        "applications.experiments": "experiment",
        "applications.gate": "gate",
        "applications.live.sending": "feedback feedback_link",
        "applications.traces.spans": "send_traces span trace",
        "arena.rate_votes": "rate_votes",
        "arena.studies.prompts": "draft_study ask_study",
        "audit.auditing": "audit_contamination audit_prompts audit_calibration",
        "audit.diagnosing": "diagnose",
        "audit.task_check": "check_task",
        "judges.injections": "judge_injections",
        "judges.judge": "judge_runs plan_judging",
        "judges.judging": "JudgeOptions",
        "judges.panel": "judge_panel",
        "judges.report": "judge_agreement VoteFileOptions",
        "models.language_model": "LanguageModel Ranking load_model",
        "runs.checkpoint_races": "RaceCallback",
        "runs.comparison": "compare_runs",
        "runs.demo": "demo_model",
        "runs.evaluate": "evaluate",
        "runs.explain": "explain_task",
        "runs.exporting": "export_run import_run",
        "runs.planning": "plan_run",
        "runs.prompt_diff": "diff_prompts",
        "runs.prompt_styles": "evaluate_prompt_styles",
        "runs.race": "RaceOptions",
        "runs.reporting": "write_report",
        "runs.reproduce": "reproduce",
        "runs.rescoring": "rescore_run RescoreOptions",
        "runs.run": "Run",
        "runs.stored": "open_run list_runs remove_run verify_store",
        "runs.task_init": "init_task InitOptions",
        "runs.trainer_callback": "EvaluationCallback",
        "scoring.metric": "metric filter_step",
        "statistics.aggregate": "aggregation",
        "tasks.user_code": "model task",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import assaymark` stays quick."""
    if name not in _PLACES:
        raise AttributeError(f"module 'assaymark' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion in notebooks; those not yet used too."""
    return sorted(__all__)
