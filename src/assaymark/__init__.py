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
    "init_task",
    "judge_agreement",
    "judge_injections",
    "judge_panel",
    "judge_runs",
    "list_runs",
    "load_model",
    "metric",
    "model",
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

_PLACES = {
    "evaluate": "assaymark.runs.evaluate",
    "EvaluationCallback": "assaymark.runs.trainer_callback",
    "RaceCallback": "assaymark.runs.checkpoint_races",
    "RaceOptions": "assaymark.runs.race",
    "Run": "assaymark.runs.run",
    "LanguageModel": "assaymark.models.language_model",
    "Ranking": "assaymark.models.language_model",
    "load_model": "assaymark.models.language_model",
    "plan_run": "assaymark.runs.planning",
    "evaluate_prompt_styles": "assaymark.runs.prompt_styles",
    "demo_model": "assaymark.runs.demo",
    "explain_task": "assaymark.runs.explain",
    "init_task": "assaymark.runs.task_init",
    "InitOptions": "assaymark.runs.task_init",
    "metric": "assaymark.scoring.metric",
    "model": "assaymark.tasks.user_code",
    "task": "assaymark.tasks.user_code",
    "scorer": "assaymark.applications.binding",
    "gate": "assaymark.applications.gate",
    "feedback": "assaymark.applications.live.sending",
    "feedback_link": "assaymark.applications.live.sending",
    "send_traces": "assaymark.applications.traces.spans",
    "span": "assaymark.applications.traces.spans",
    "trace": "assaymark.applications.traces.spans",
    "experiment": "assaymark.applications.experiments",
    "filter_step": "assaymark.scoring.metric",
    "aggregation": "assaymark.statistics.aggregate",
    "open_run": "assaymark.runs.stored",
    "list_runs": "assaymark.runs.stored",
    "remove_run": "assaymark.runs.stored",
    "verify_store": "assaymark.runs.stored",
    "rescore_run": "assaymark.runs.rescoring",
    "RescoreOptions": "assaymark.runs.rescoring",
    "reproduce": "assaymark.runs.reproduce",
    "compare_runs": "assaymark.runs.comparison",
    "diff_prompts": "assaymark.runs.prompt_diff",
    "write_report": "assaymark.runs.reporting",
    "export_run": "assaymark.runs.exporting",
    "import_run": "assaymark.runs.exporting",
    "audit_contamination": "assaymark.audit.auditing",
    "audit_prompts": "assaymark.audit.auditing",
    "audit_calibration": "assaymark.audit.auditing",
    "diagnose": "assaymark.audit.diagnosing",
    "check_task": "assaymark.audit.task_check",
    "judge_runs": "assaymark.judges.judge",
    "plan_judging": "assaymark.judges.judge",
    "JudgeOptions": "assaymark.judges.judging",
    "judge_agreement": "assaymark.judges.report",
    "VoteFileOptions": "assaymark.judges.report",
    "judge_panel": "assaymark.judges.panel",
    "judge_injections": "assaymark.judges.injections",
    "rate_votes": "assaymark.arena.rate_votes",
    "draft_study": "assaymark.arena.studies.prompts",
    "ask_study": "assaymark.arena.studies.prompts",
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
