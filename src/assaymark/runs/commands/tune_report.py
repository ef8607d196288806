"""`assaymark tune-report BASE TUNED...`: what training changed, apart from shots, precision and template."""

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option

EXAMPLES = examples("tune-report BASE_RUN TUNED_RUN", "tune-report BASE_RUN SFT_RUN DPO_RUN --json")


@click.command("tune-report", cls=Command, epilog=EXAMPLES)
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
