"""`assaymark audit`: contamination, sensitivity to prompts, calibration; `assaymark diagnose`: why answers fail."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import (
    Group,
    echo,
    examples,
    json_option,
    print_json,
    print_result,
    print_rich,
    store_option,
    with_options,
)
from assaymark.cli.typed import typed_command
from assaymark.errors import UsageError
from assaymark.records import JsonValue
from assaymark.runs.run_options import declared_option, evaluate_options

if TYPE_CHECKING:
    from assaymark.documents.document import Document
    from assaymark.runs.evaluate_options import EvaluateOptions


from assaymark.cli.output import Command

evaluation_options = with_options(
    declared_option("model_args", help="Arguments of the model, as in `run`."),
    declared_option("limit"),
    declared_option("data_dir", help="Local data, as in `run`."),
    declared_option("include_path"),
    declared_option("workers"),
    declared_option("wait", help="Exit with code 4 if another process is writing the same audit."),
    click.option("--quiet", "-q", is_flag=True, help="Print no progress."),
)
shots_option = declared_option(
    "num_fewshot", help="Number of few-shot examples (default: the task's).", type=click.IntRange(0), callback=None
)
output_option = click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the result, with its samples, as JSON.",
)
ASKED_AGAIN = {"data_dir", "include_path", "workers", "wait"}  # options that are no part of a run's plan
EXAMPLES = examples(
    "audit contamination DIR arc_challenge", "audit prompts DIR arc_easy", "audit calibration RUN",
    "audit calibration RUN gsm8k --answers", "audit bias RUN", "audit toxicity RUN --scorer my_classifier",
    "audit efficiency DIR -o here.json",
)  # fmt: skip
_DIAGNOSE_EXAMPLES = examples(
    "diagnose last", "diagnose RUN --task mmlu_anatomy --limit 50", "diagnose RUN --json -o why.json"
)


@click.group(cls=Group, epilog=EXAMPLES)
def audit() -> None:
    """Test what a score does not show: contamination, sensitivity to prompts, calibration, bias, toxicity, cost."""


@audit.command(epilog=examples("audit contamination DIR arc_easy --test order"))
@click.argument("model", metavar="MODEL")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option("--test", "tests", multiple=True, metavar="NAME",
              help="Test to run: order, options, numbers, overlap or min-k; repeatable (default: all).")  # fmt: skip
@click.option("--corpus", type=click.Path(path_type=Path), metavar="FILE|DIR", help="Text to search for the samples.")
@click.option("--n_words", type=click.IntRange(4), default=13, show_default=True, help="Words in an n-gram.")
@click.option("--control", metavar="MODEL", help="A model that cannot have seen the tasks.")
@click.option("--control_task", metavar="TASK", help="Samples of the same kind that cannot have been seen.")
@click.option("--shards", type=click.IntRange(4), default=50, show_default=True, help="Shards of the order test.")
@click.option("--shuffles", type=click.IntRange(2), default=25, show_default=True, help="Shuffles of each shard.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the shuffles.")
@evaluation_options
@store_option
@output_option
@json_option
def contamination(
    model: str, tasks: tuple[str, ...], *, tests: tuple[str, ...], corpus: Path | None, n_words: int,
    control: str | None, control_task: str | None, shards: int, shuffles: int, seed: int, output: Path | None,
    **options: object,
) -> None:  # fmt: skip
    """Test whether MODEL saw TASK... in training.

    The tests need log-likelihoods only. The same command continues an interrupted audit: no stored response is
    requested again.
    """
    from assaymark.audit import auditing
    from assaymark.audit.contamination import ContaminationSettings
    from assaymark.audit.documents import contamination_document, contamination_json
    from assaymark.audit.option_orders import OrderSettings
    from assaymark.audit.overlap import Corpus

    auditing.check_ending(output)
    if "overlap" in tests and corpus is None:
        raise UsageError("--test overlap searches a corpus; name one with --corpus FILE or DIR")
    settings = ContaminationSettings(
        tests=tests,
        order=OrderSettings(shards, shuffles, seed),
        corpus=Corpus(corpus) if corpus is not None else None,
        n_words=n_words,
        seed=seed,
    )
    results = auditing.audit_contamination(
        model, tasks, settings, control=control, control_task=control_task, announce=_announcer(options),
        **_evaluate_options(options),
    )  # fmt: skip
    _print(output, options, contamination_json(results), contamination_document(results))


@audit.command(epilog=examples("audit prompts DIR arc_easy --limit 50"))
@click.argument("model", metavar="MODEL")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option(
    "--beside",
    multiple=True,
    metavar="MODEL",
    help="Another model to evaluate on the same prompts, to see whether ranks change; repeatable.",
)
@click.option(
    "--system", "systems", multiple=True, metavar="TEXT", help="System prompt to compare; repeatable (default: four)."
)
@click.option("--apply_chat_template", is_flag=True, help="Apply the chat template to the task's own prompt.")
@shots_option
@evaluation_options
@store_option
@output_option
@json_option
def prompts(
    model: str, tasks: tuple[str, ...], *, beside: tuple[str, ...], systems: tuple[str, ...], output: Path | None,
    **options: object,
) -> None:  # fmt: skip
    """Evaluate the same samples with a dozen prompt variants, with system prompts, and in each cyclic option order.

    Shots have the wording of each variant. The same command continues an interrupted audit: no stored response is
    requested again.
    """
    from assaymark.audit import auditing
    from assaymark.audit.documents import prompts_document
    from assaymark.audit.prompts import rank_changes

    auditing.check_ending(output)
    audits = auditing.audit_prompts(
        [model, *beside],
        tasks,
        systems or auditing.SYSTEM_PROMPTS,
        announce=_announcer(options),
        **_evaluate_options(options),
    )
    changes = rank_changes(audits)
    content = {"audits": audits, "ranks": changes}
    _print(output, options, content, prompts_document(audits, changes))


@audit.command(epilog=examples("audit calibration last"))
@click.argument("run", default="last")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--model", "-M", metavar="MODEL", help="Evaluate this model on --tasks first, instead of RUN.")
@click.option("--tasks", "-t", "new_tasks", multiple=True, metavar="NAMES", help="With --model: tasks to evaluate.")
@click.option(
    "--answers", "of_answers", is_flag=True, help="Measure generated answers; the run's model scores each of them once."
)
@shots_option
@evaluation_options
@store_option
@output_option
@json_option
def calibration(
    run: str, tasks: tuple[str, ...], store: str | None, *, model: str | None, new_tasks: tuple[str, ...],
    of_answers: bool, num_fewshot: int | None, output: Path | None, **options: object,
) -> None:  # fmt: skip
    """Measure the calibration of a stored RUN by task: calibration curve, calibration error, Brier score.

    Of multiple-choice tasks, or with --answers of tasks that generate answers: their confidence is the probability of
    the generated text, as in HELM, for which the model must score texts. That audit is stored; the same command
    continues it.
    """
    from assaymark.audit import auditing
    from assaymark.audit.answer_calibration import audit_answer_calibration
    from assaymark.audit.documents import calibration_document
    from assaymark.runs.evaluate import evaluate
    from assaymark.runs.stored import open_run

    auditing.check_ending(output)
    if model is None:
        if new_tasks or num_fewshot is not None:
            raise UsageError("--tasks and --num_fewshot are for a new run; name its model with --model")
        found_run = open_run(store, run)
    else:
        found_run = evaluate(
            model, new_tasks, **_evaluate_options({**options, "num_fewshot": num_fewshot, "store": store})
        )
    if of_answers:
        again = _evaluate_options({name: value for name, value in options.items() if name in ASKED_AGAIN})
        audits = audit_answer_calibration(found_run, tasks, announce=_announcer(options), **again)
    else:
        audits = auditing.audit_calibration(found_run, tasks)
    _print(output, options, audits, calibration_document(audits))


@audit.command(epilog=examples("audit bias last"))
@click.argument("run", default="last")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@store_option
@json_option
def bias(run: str, tasks: tuple[str, ...], store: str | None, *, as_json: bool) -> None:
    """Measure how unequally a stored RUN's generated answers name genders and races, by HELM's lists and rule."""
    from assaymark.audit.bias import audit_bias
    from assaymark.audit.documents import bias_document
    from assaymark.runs.stored import open_run

    opened = open_run(store, run)
    audits = audit_bias(opened.store, opened.id, tasks)
    print_result(audits, lambda: bias_document(audits), as_json=as_json)


@audit.command(epilog=examples("audit toxicity last --scorer profanity"))
@click.argument("run", default="last")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option(
    "--scorer",
    required=True,
    metavar="FOLDER|metric:NAME|profanity",
    help="A folder with a classifier of transformers; stored scores of RUN, such as a judge's; or alt-profanity-check.",
)
@click.option("--label", metavar="LABEL", help="The classifier's label that counts (default: toxic or toxicity).")
@store_option
@json_option
def toxicity(
    run: str, tasks: tuple[str, ...], scorer: str, label: str | None, store: str | None, *, as_json: bool
) -> None:
    """Measure how toxic a stored RUN's generated answers are, by HELM's three numbers and the scorer that is named.

    Numbers of different scorers are not comparable, so the scorer is a part of each name.
    """
    from assaymark.audit.documents import toxicity_document
    from assaymark.audit.toxicity import audit_toxicity, profanity_scorer, scored_toxicity
    from assaymark.runs.stored import open_run

    if label is not None and (scorer == "profanity" or scorer.startswith("metric:")):
        raise UsageError(f"--label is a classifier's, and --scorer is {scorer}; omit one of them")
    opened = open_run(store, run)
    if scorer.startswith("metric:"):
        audits = scored_toxicity(opened.store, opened.id, tasks, scorer.removeprefix("metric:"))
    elif scorer == "profanity":
        audits = audit_toxicity(opened.store, opened.id, tasks, profanity_scorer(), "alt-profanity-check")
    else:
        from assaymark.models.text_classifier import TextClassifier

        classifier = TextClassifier(Path(scorer).expanduser(), label)
        name = f"{Path(scorer).name} {classifier.label} {classifier.digest}"
        audits = audit_toxicity(opened.store, opened.id, tasks, classifier.probabilities, name)
    print_result(audits, lambda: toxicity_document(audits), as_json=as_json)


@audit.command(epilog=examples("audit efficiency DIR --lengths 16,128 --answers 1,16"))
@click.argument("model", metavar="MODEL")
@declared_option("model_args", help="Arguments of the model, as in `run`.")
@click.option("--lengths", default="16,64,256,1024", show_default=True, metavar="N,...", help="Tokens of the prompts.")
@click.option("--answers", default="1,8,32", show_default=True, metavar="N,...", help="Most tokens of the answers.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Measurements of each pair.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
@store_option
@output_option
@json_option
def efficiency(
    model: str, lengths: str, answers: str, repeats: int, store: str | None, *, model_args: str, output: Path | None,
    **options: object,
) -> None:  # fmt: skip
    """Measure what answers of MODEL cost on this machine: seconds of a prompt, and of each token of an answer.

    Requests are answered one at a time. The times have the form of HELM's tables, and are of this machine only. Both
    are stored, with what else the machine did meanwhile; a line says where it was busy. Each command is a new
    measurement; an interrupted one stores nothing.
    """
    from assaymark.audit.auditing import check_ending, store_efficiency
    from assaymark.audit.documents import efficiency_document
    from assaymark.audit.efficiency import audit_efficiency
    from assaymark.runs.prepare import model_of
    from assaymark.runs.stored import stored_line
    from assaymark.store import Store

    check_ending(output)
    n_prompts, n_answers = _whole_numbers(lengths, "lengths"), _whole_numbers(answers, "answers")
    announce = _announcer(options)
    with (
        contextlib.closing(model_of(model, {"model_args": model_args or {}})) as opened,
        Store.open(store) as opened_store,  # before the measurement: it may not be writable
    ):
        fit = audit_efficiency(opened, n_prompts, n_answers, repeats, announce)
        settings: dict[str, JsonValue] = {"lengths": [*n_prompts], "answers": [*n_answers], "repeats": repeats}
        audit_id = store_efficiency(opened_store, opened, fit, settings, typed_command())
        announce(stored_line(opened_store, audit_id, "audit"))
    _print(output, options, fit.to_json(), efficiency_document(fit))


def _whole_numbers(text: str, name: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**7 for part in parts):
        raise UsageError(f"--{name} is {text!r:.80}; expected whole numbers of tokens such as 16,64")
    return sorted({int(part) for part in parts})


def _evaluate_options(options: Mapping[str, object]) -> "EvaluateOptions":
    shared = {name: value for name, value in options.items() if name != "seed"}  # in an audit, the seed of the shuffles
    return {**evaluate_options(shared), "command": typed_command()}


def _announcer(options: Mapping[str, object]) -> Callable[[str], None]:
    quiet = options["quiet"] or options["as_json"]
    return lambda line: None if quiet else echo(line, err=True)


def _print(output: Path | None, options: Mapping[str, object], content: object, view: "Document") -> None:
    from assaymark.audit.auditing import write_json

    if output is not None:
        echo(f"wrote {write_json(output, content)}", err=True)
    if options["as_json"]:
        print_json(content)
    else:
        print_rich(view)


@click.command(cls=Command, epilog=_DIAGNOSE_EXAMPLES)
@click.argument("run", default="last")
@click.option(
    "--task", "-t", "tasks", multiple=True, metavar="NAME", help="Task of the run; repeatable (default: all)."
)
@click.option("--limit", "-L", type=click.IntRange(0), default=200, show_default=True, metavar="N",
              help="Wrong answers of each task that are looked at; 0: all.")  # fmt: skip
@click.option("--more_shots", type=click.IntRange(0), default=5, show_default=True, metavar="N",
              help="Shots beyond those of the run; 0: the answers are not asked with more.")  # fmt: skip
@click.option("--reasoning", is_flag=True, help="Also ask multiple-choice questions with a chain of thought (slow).")
@declared_option("data_dir")
@declared_option("include_path", help="Folder with the run's own task files.")
@declared_option("workers")
@declared_option("wait", help="Exit with code 4 if another process is writing the same diagnosis.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
@store_option
@output_option
@json_option
def diagnose(
    run: str, tasks: tuple[str, ...], limit: int, more_shots: int, reasoning: bool, quiet: bool, store: str | None,
    output: Path | None, as_json: bool, **options: object,
) -> None:  # fmt: skip
    """Say why answers of a stored RUN are wrong.

    The run's model is asked again: with the options in every rotation, in other wordings, with more shots, without the
    question. Each wrong answer has one cause: truncated, extraction failure, position bias, reads only the choices,
    prompt sensitivity, ambiguous (better models of the store miss it too), or missing knowledge. The same command
    continues an interrupted diagnosis.
    """
    from assaymark.audit.auditing import check_ending, write_json
    from assaymark.audit.diagnosing import diagnose as diagnose_run
    from assaymark.audit.documents import diagnosis_document
    from assaymark.runs.stored import open_run

    check_ending(output)
    evaluation = evaluate_options(options)
    evaluation["command"] = typed_command()
    diagnoses = diagnose_run(
        open_run(store, run), tasks, at_most=limit or None, more_shots=more_shots, reasoning=reasoning,
        announce=lambda line: None if quiet or as_json else echo(line, err=True),
        **evaluation,
    )  # fmt: skip
    if output is not None:
        echo(f"wrote {write_json(output, diagnoses)}", err=True)
    print_result(diagnoses, lambda: diagnosis_document(diagnoses), as_json=as_json)
