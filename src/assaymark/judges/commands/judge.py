"""`assaymark judge`: a model judges stored answers; agreement with people; a panel of judges; prompt injections."""

from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Group, echo, examples, json_option, print_json, print_rich, store_option, with_options
from assaymark.cli.typed import typed_command
from assaymark.errors import ModelError
from assaymark.runs.run_options import declared_option

if TYPE_CHECKING:
    from assaymark.judges.judge import Forecast
    from assaymark.judges.judging import JudgeOptions
    from assaymark.records import Progress


class JudgeGroup(Group):
    """A group in which `judge RUN ...` means `judge run RUN ...`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before arguments that begin with none of the commands."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an argument that is none of them is a run."""
        return super().resolve_command(ctx, args if args and args[0] in self.commands else ["run", *args])


judge_options = with_options(
    click.option("--judge", "--model", "judge_model", required=True, metavar="MODEL", help="The judge: a folder, a "
                 "Hub id or a kind of model such as local-chat-completions (see `ls models`)."),
    click.option("--model_args", default="", metavar="A=1,B=2", help="Arguments of the judge, as in `run`."),
    click.option("--max_tokens", type=click.IntRange(1), default=512, show_default=True,
                 help="Longest text of the judge, in tokens."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of the marks around answers."),
    click.option("--quiet", "-q", is_flag=True, help="Print no progress."),
)  # fmt: skip


EXAMPLES = examples(
    "judge RUN OTHER --judge JUDGE_DIR --plan",
    "judge RUN --judge JUDGE_DIR --prompt single --tasks mt_bench",
    "judge agreement JUDGING --human votes.csv",
)


@click.group(cls=JudgeGroup, epilog=EXAMPLES)
def judge() -> None:
    """Let a model judge stored answers, and find out whether it can be trusted.

    `assaymark judge RUN` grades a run's answers; `assaymark judge RUN OTHER --prompt pair` compares two runs.
    """


@judge.command("run", epilog=examples("judge run last~1 last --model DIR"))
@click.argument("runs", nargs=-1, required=True, metavar="RUN [OTHER]")
@judge_options
@click.option("--prompt", metavar="NAME", help="Judge prompt: single, single-reference, pair, pair-reference, five or "
              "preference (default: single for one run, pair for two).")  # fmt: skip
@click.option("--reference", metavar="COLUMN", help="Column of the data set with the reference answer (default: the "
              "task's target).")  # fmt: skip
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Judge the answers to these tasks (default: all of "
              "the runs').")  # fmt: skip
@click.option("--limit", "-L", type=click.IntRange(1), metavar="N", help="Judge the first N questions of each task.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that run the judge.")
@click.option("--plan", "is_plan", is_flag=True, help="Estimate tokens and cost; send nothing.")
@declared_option("price")
@declared_option("prices")
@declared_option("max_cost")
@click.option("--no_wait", is_flag=True, help="Exit with code 4 if another process is judging the same.")
@store_option
@json_option
def run_command(
    runs: tuple[str, ...], judge_model: str, *, is_plan: bool, as_json: bool, model_args: str, max_tokens: int,
    seed: int, quiet: bool, prompt: str | None, reference: str | None, tasks: tuple[str, ...], limit: int | None,
    workers: int, price: str | None, prices: str | None, max_cost: float | None, no_wait: bool, store: str | None,
) -> int:  # fmt: skip
    """Judge the stored answers of RUN, or of RUN against OTHER, and store the result as a judging.

    Two answers are compared in both orders. The same command continues an interrupted judging: no stored judgement is
    requested again. Exit code 5 if the judging is incomplete: requests failed, or --max_cost stopped it.
    """
    from assaymark.judges.judge import judge_runs, plan_judging
    from assaymark.judges.judging import JudgeOptions
    from assaymark.models.cost.prices import parse_price
    from assaymark.options.option import check_cost

    if max_cost is not None:
        check_cost(max_cost)
    options = JudgeOptions(
        prompt or ("single" if len(runs) == 1 else "pair"),
        tasks=tuple(name for text in tasks for name in text.replace(",", " ").split()),
        reference=reference, limit=limit, max_tokens=max_tokens, seed=seed, model_args=model_args, workers=workers,
        price=parse_price(price) if price else None, prices=prices, most_cost=max_cost, wait=not no_wait,
    )  # fmt: skip
    if is_plan:
        _print_forecast(plan_judging(judge_model, runs, options, store=store), options, as_json=as_json)
        return 0
    is_quiet = quiet or as_json
    observe = None if is_quiet else _Lines()
    audit = judge_runs(
        judge_model, runs, options, store=store, announce=lambda line: None if is_quiet else echo(line, err=True),
        observe=observe, command=typed_command(),
    )  # fmt: skip
    print_json(audit.content) if as_json else print_rich(audit.view)
    return 0 if audit.row.status == "finished" else ModelError.exit_code


class _Lines:
    """Prints the progress of a judge every 15 seconds."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, progress: "Progress") -> None:
        from assaymark.runs.progress import LINE_EVERY_SECONDS

        if progress.seconds - self._last >= LINE_EVERY_SECONDS:
            self._last = progress.seconds
            echo(f"{progress.n_outputs_done:,} of {progress.n_outputs:,} judgements", err=True)


def _print_forecast(work: "Forecast", options: "JudgeOptions", *, as_json: bool) -> None:

    from assaymark.judges.documents import forecast_lines

    if as_json:
        print_json(work)
        return
    echo(*forecast_lines(work, options.price))


@judge.command(epilog=examples("judge agreement votes.jsonl --human people.csv"))
@click.argument("judging", metavar="JUDGING|VOTES")
@click.option("--human", required=True, metavar="VOTES", help="File of human votes, as for `arena rate`, or of grades.")
@click.option("--without", multiple=True, metavar="RATER", help="Leave these human raters out, e.g. 'author_*'.")
@click.option("--missing", multiple=True, metavar="WORD", help="A verdict that stands for none, e.g. garbage.")
@click.option("--columns", multiple=True, metavar="winner=COLUMN,...", help="Columns of the judge's file that are not "
              "recognised: model_a, model_b, winner, prompt, judge; of grades: grade, model.")  # fmt: skip
@click.option("--human_columns", multiple=True, metavar="winner=COLUMN,...", help="The same for the human votes.")
@click.option(
    "--judge_model", metavar="NAME", help="Which of the judged models the judge is, to measure self-preference."
)
@store_option
@json_option
def agreement(
    judging: str, human: str, *, as_json: bool, without: tuple[str, ...], missing: tuple[str, ...],
    columns: tuple[str, ...], human_columns: tuple[str, ...], judge_model: str | None, store: str | None,
) -> None:  # fmt: skip
    """Measure how a judge agrees with people: beside chance, beside people with each other, and with its biases.

    JUDGING is a stored judging of two runs; VOTES a file with model_a, model_b, winner and a question's id. Win rates
    are corrected by the human votes. For a judging of one run, --human is a file of grades: question_id, grade, rater.
    """
    from assaymark.arena.rate_votes import columns_of
    from assaymark.judges.grades import are_grades, grade_report_document, judge_grade_agreement
    from assaymark.judges.report import VoteFileOptions, judge_agreement, report_document

    options = VoteFileOptions(columns_of(columns) or None, columns_of(human_columns) or None, missing, without)
    if are_grades(judging, options, store=store):
        grades = judge_grade_agreement(judging, human, options, store=store)
        print_json(grades) if as_json else print_rich(grade_report_document(grades))
        return
    report = judge_agreement(judging, human, options, judge_model=judge_model, store=store)
    print_json(report) if as_json else print_rich(report_document(report))


@judge.command(epilog=examples("judge injections --model DIR"))
@judge_options
@click.option(
    "--prompt", "prompts", multiple=True, metavar="NAME", help="Judge prompt to test; repeatable (default: all)."
)
@click.option("--questions", type=click.IntRange(1), metavar="N", help="Only the first N questions.")
@json_option
def injections(
    judge_model: str, *, as_json: bool, quiet: bool, model_args: str, max_tokens: int, seed: int,
    prompts: tuple[str, ...], questions: int | None,
) -> None:  # fmt: skip
    """Measure how often a judge rewards answers that only ask for a good verdict, by judge prompt.

    Each prompt meets orders to the judge, fake verdicts, fake ends of the answer, false authority and constant answers,
    beside an honest answer.
    """
    from assaymark.judges.documents import injection_document
    from assaymark.judges.injections import judge_injections, n_injections

    if not quiet and not as_json:
        n, n_questions = n_injections()
        echo(f"{n} injections with {min(questions or n_questions, n_questions)} questions", err=True)
    rates = judge_injections(
        judge_model, prompts, model_args=model_args, n_questions=questions, seed=seed, max_tokens=max_tokens
    )
    print_json(rates) if as_json else print_rich(injection_document(rates))


@judge.command(epilog=examples("judge panel 3f2a 91bc"))
@click.argument("judgings", nargs=-1, required=True, metavar="JUDGING...")
@store_option
@json_option
def panel(judgings: tuple[str, ...], store: str | None, *, as_json: bool) -> None:
    """Combine several judges of the same answers: majority of verdicts or mean of grades, and their disagreement."""
    from assaymark.judges.documents import panel_document
    from assaymark.judges.panel import judge_panel

    rows, summaries = judge_panel(judgings, store)
    print_json(summaries) if as_json else print_rich(panel_document(rows, summaries))
