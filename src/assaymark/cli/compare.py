"""`assaymark compare RUN RUN`: which run is better, by how much, and with what uncertainty."""

from pathlib import Path
from typing import Any

import click

from assaymark.cli.output import echo, examples, json_option, print_json, print_rich, store_option

GATE_FAILED = 1


EXAMPLES = examples(
    "compare RUN_A RUN_B --flips",
    'compare RUN_A RUN_B --gate "mmlu >= -0.01" --junit gate.xml',
    'compare RUN --published "arc_challenge acc=0.328 shots=25 n=1172 source=URL"',
)


@click.command(epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--strict_prompts", is_flag=True, help="Refuse to compare runs whose prompts differ.")
@click.option("--flips", is_flag=True, help="Show the samples whose outcome changed.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help='Fail unless the interval meets it: "mmlu >= -0.01"; repeatable.',
)
@click.option(
    "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the results of the gates as JUnit XML."
)
@click.option(
    "--published",
    multiple=True,
    metavar="CLAIM",
    help='Compare one run with a published result: "arc_easy acc=0.4 shots=0 n=2376"; repeatable.',
)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@store_option
@json_option
def compare(runs: tuple[str, ...], store: str | None, as_json: bool, **given: Any) -> int:
    """Compare stored runs sample by sample: difference, interval, p, flips and a verdict in one sentence.

    Each run is compared with the first. Exit code 1 if a gate fails. With --published, one run is compared with
    published results, of which only the totals are known; they are stored with the run.
    """
    if given["published"]:
        return _with_published(store, runs, given["published"], as_json=as_json)
    from assaymark.api import comparison as api

    named = api.stored_runs(store, runs)
    found, rates = api.compare_runs(named, strict_prompts=given["strict_prompts"]), api.win_rates(named)
    results = api.gate_results(found, given["gates"])
    if as_json:
        print_json(api.comparison_to_json(found, rates))
    elif given["markdown"]:
        echo(api.comparison_markdown(found, rates))
    else:
        print_rich(*api.comparison_views(found, rates, flips=given["flips"]))
    for result in results:
        echo(result.message, err=True)
    if given["junit"] is not None:
        api.write_junit(given["junit"], found, results, rates)
    return 0 if all(result.passed for result in results) else GATE_FAILED


def _with_published(store: str | None, runs: tuple[str, ...], published: tuple[str, ...], *, as_json: bool) -> int:
    from assaymark.api.published import claim_lines, claims_to_json, compare_published
    from assaymark.errors import UsageError

    if len(runs) != 1:
        raise UsageError(f"--published takes one run, not {len(runs)}")
    results = compare_published(store, runs[0], published)
    if as_json:
        print_json(claims_to_json(results))
    else:
        echo("\n".join(claim_lines(results)))
    return 0
