"""`assaymark compare`, `diff-prompts` and `tune-report`: stored runs beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import (
    Command,
    echo,
    examples,
    json_option,
    print_json,
    print_result,
    print_rich,
    store_option,
)
from assaymark.records.json_values import json_fields

if TYPE_CHECKING:
    from assaymark.results.comparison.records import Comparison
    from assaymark.results.comparison.row_pairs import PartDifference, RowPair


GATE_FAILED = 1
EXAMPLES = examples(
    "compare RUN_A RUN_B --flips",
    "compare RUN_A RUN_B --rows --by tag",
    'compare RUN_A RUN_B --gate "mmlu >= -0.01" --junit gate.xml',
    'compare RUN --published "arc_challenge acc=0.328 shots=25 n=1172 source=URL"',
    "compare RUN --published MODEL_FOLDER",
)


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--strict_prompts", is_flag=True, help="Refuse to compare runs whose prompts differ.")
@click.option("--flips", is_flag=True, help="Show the samples whose outcome changed.")
@click.option("--rows", "with_rows", is_flag=True, help="Show both answers of each row, those that got worse first.")
@click.option("--by", metavar="NAME", help="Differences by tag, split, or a name in the rows' metadata.")
@click.option("--gate", "gates", multiple=True, metavar="EXPR",
              help='Fail unless the interval meets it: "mmlu >= -0.01"; repeatable.')  # fmt: skip
@click.option(
    "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the results of the gates as JUnit XML."
)
@click.option(
    "--published",
    multiple=True,
    metavar="CLAIM|FOLDER",
    help='Compare one run with a published result, "arc_easy acc=0.4 shots=0 n=2376", or those that a model\'s folder '
    "reports; repeatable.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@store_option
@json_option
def compare(
    runs: tuple[str, ...], store: str | None, as_json: bool, *, strict_prompts: bool, flips: bool, with_rows: bool,
    by: str | None, gates: tuple[str, ...], junit: Path | None, published: tuple[str, ...], markdown: bool,
) -> int:  # fmt: skip
    """Compare stored runs sample by sample: difference, interval, p, flips and a verdict in one sentence.

    Each run is compared with the first. Exit code 1 if a gate fails. With --published, one run is compared with
    published results, of which only the totals are known; they are stored with the run.
    """
    if published:
        return _with_published(store, runs, published, as_json=as_json)
    from assaymark.runs import comparison as api

    named = api.stored_runs(store, runs)
    comparison, rates = api.compare_runs(named, strict_prompts=strict_prompts), api.win_rates(named)
    results = api.gate_results(comparison, gates)
    wants_rows = with_rows or by is not None
    rows = api.rows_of_pairs(named, comparison) if wants_rows else []
    parts = api.differences_by_part(by, comparison, rows) if by is not None else []
    if as_json:
        from assaymark.results.comparison.document import comparison_to_json

        of_rows = [[json_fields(row, "is_new_failure") for row in own] for own in rows] if with_rows else []
        of_parts = [[{"part": each.part, **json_fields(each.line, "gain")} for each in own] for own in parts]
        more = {name: value for name, value in (("rows", of_rows), ("by", of_parts)) if value}
        print_json({**comparison_to_json(comparison, rates), **more})
    elif markdown:
        from assaymark.documents.markdown import markdown_text

        echo(markdown_text(api.comparison_with_rates(comparison, rates, unfold=True).blocks))
    else:
        print_rich(api.comparison_with_rates(comparison, rates, flips=flips))
        _print_rows(comparison, rows if with_rows else [], by or "", parts)
    echo(*(result.message for result in results), err=True)
    if junit is not None:
        api.write_junit(junit, comparison, results, rates)
    return 0 if all(result.passed for result in results) else GATE_FAILED


def _print_rows(
    comparison: "Comparison", rows: "Sequence[Sequence[RowPair]]", by: str, parts: "Sequence[Sequence[PartDifference]]"
) -> None:
    from assaymark.documents.document import Document
    from assaymark.results.comparison.row_pairs import parts_document, rows_blocks

    for own_parts, pair in zip(parts, comparison.pairs, strict=False):
        print_rich(parts_document(by, own_parts, pair))
    for own_rows, pair in zip(rows, comparison.pairs, strict=False):
        print_rich(Document(tuple(rows_blocks(own_rows, pair))))


def _with_published(store: str | None, runs: tuple[str, ...], published: tuple[str, ...], *, as_json: bool) -> int:
    from assaymark.errors import UsageError
    from assaymark.runs.published import claim_lines, claims_to_json, compare_published

    if len(runs) != 1:
        raise UsageError(f"--published takes one run, not {len(runs)}")
    results = compare_published(store, runs[0], published)
    print_result(claims_to_json(results), lambda: "\n".join(claim_lines(results)), as_json=as_json)
    return 0


@click.command("diff-prompts", cls=Command, epilog=examples("diff-prompts last~1 last arc_easy"))
@click.argument("first", metavar="RUN_A")
@click.argument("second", metavar="RUN_B")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--limit", "-L", type=click.IntRange(0), default=3, show_default=True, help="Number of samples to show.")
@store_option
@json_option
def diff_prompts(first: str, second: str, tasks: tuple[str, ...], limit: int, store: str | None, as_json: bool) -> int:
    """Show which prompts of two stored runs differ, and how: shots, wording, choices, tokens, BOS.

    Exit code 1 if any prompt differs.
    """
    from assaymark.runs import prompt_diff
    from assaymark.runs.stored import open_run

    diff = prompt_diff.diff_prompts(open_run(store, first), open_run(store, second), tasks)
    print_result(prompt_diff.diff_to_json(diff), lambda: prompt_diff.diff_document(diff, limit), as_json=as_json)
    return 1 if diff.n_differing else 0


@click.command(
    "tune-report",
    cls=Command,
    epilog=examples("tune-report BASE_RUN TUNED_RUN", "tune-report BASE_RUN SFT_RUN DPO_RUN --json"),
)
@click.argument("runs", nargs=-1, required=True, metavar="BASE TUNED...")
@store_option
@json_option
def tune_report(runs: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Say what training changed in tuned models, apart from the set-up of their evaluation.

    Where a tuned run has other shots, another precision or another template than the run of the base, runs of the base
    in that set-up are looked for in the store, and each cause is a paired comparison of its own. Without them the
    report says which run is missing. Gains are in points; * marks significant ones.
    """
    from assaymark.runs.tuning import refuse_few, tune_document
    from assaymark.runs.tuning import tune_report as report

    refuse_few(runs)
    models = report(store, runs[0], runs[1:])
    if as_json:
        print_json([model.to_json() for model in models])
        return
    print_rich(tune_document(models))
    if any(len(model.effects) > 1 for model in models):
        echo("each cause compares two runs on the same samples; the first gain is the sum of the others", err=True)
