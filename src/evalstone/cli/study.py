"""`evalstone study`: people compare models' answers blind, by invitation."""

import click

from evalstone.cli.output import echo, json_option, print_json, store_option


@click.group()
def study() -> None:
    """Run a human study: invited people compare two models' answers without knowing the models."""


@study.command()
@click.argument("folder", metavar="FOLDER")
def init(folder: str) -> None:
    """Write an example of a study's file, with answers to compare, into a folder."""
    from pathlib import Path

    from evalstone.arena.studies.example import write_example
    from evalstone.errors import UsageError

    if Path(folder).suffix in {".yaml", ".yml"}:
        raise UsageError(f"'{folder}' is the name of a file; name a folder, which study.yaml and its answers go into")
    path = write_example(Path(folder))
    echo(f"Edit {path}, then: evalstone study check {path}")


@study.command()
@click.argument("file", metavar="STUDY.yaml")
@json_option
def check(file: str, *, as_json: bool) -> None:
    """Check a study's file, and show who would compare what."""
    from pathlib import Path

    from evalstone.arena.studies.design import design_study
    from evalstone.arena.studies.study_file import read_study

    read = read_study(Path(file))
    design = design_study(read)
    sizes = {name: len(own) for name, own in design.assignments.items()}
    if as_json:
        print_json({"study": read.study, "n_comparisons": design.n_comparisons, "items_of_raters": sizes,
                    "models": design.plan["models"]})  # fmt: skip
        return
    echo(
        f"{read.study}: {design.n_comparisons} comparisons of {len(design.plan['models'])} models, "
        f"{read.ratings} raters each; {len(sizes)} raters with {min(sizes.values())} to {max(sizes.values())} items"
    )


@study.command()
@click.argument("file", metavar="STUDY.yaml")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", default=7501, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one.")
@click.option("--allow_host", multiple=True, metavar="NAME", help="Host name that browsers may use; repeatable.")
@click.option("--proxy", multiple=True, metavar="ADDRESS", help="Reverse proxy whose headers are believed; repeatable.")
@store_option
def serve(
    file: str, *, host: str, port: int, allow_host: tuple[str, ...], proxy: tuple[str, ...], store: str | None
) -> None:
    """Store a study, print each rater's invitation, and serve its pages.

    Prompts and answers are shown to invited raters only. Without --host, only this machine can connect.
    """
    from evalstone.cli.study_serving import serve_study

    serve_study(file, (host, port, allow_host, proxy), store)


@study.command()
@click.argument("name", metavar="STUDY")
@store_option
@json_option
def results(name: str, *, store: str | None, as_json: bool) -> None:
    """Show which models were preferred, with intervals, and how far the raters agree."""
    from dataclasses import asdict

    from evalstone.api.studies import results_of
    from evalstone.arena.studies.result_tables import results_table
    from evalstone.cli.output import print_rich

    found = results_of(name, store)
    if as_json:
        print_json(asdict(found))
    else:
        print_rich(results_table(found))


@study.command()
@click.argument("name", metavar="STUDY")
@click.option("-o", "--output", metavar="FILE", help="File to write (default: STUDY.jsonl).")
@click.option("--texts", is_flag=True, help="Include prompts and answers, which are held out otherwise.")
@click.option("--demographics", is_flag=True, help="Write what raters said about themselves instead, without numbers.")
@store_option
def export(name: str, *, output: str | None, texts: bool, demographics: bool, store: str | None) -> None:
    """Write the comparisons as JSON lines, which `evalstone arena rate` reads."""
    from pathlib import Path

    from evalstone.api.studies import export_study

    path = Path(output or f"{name}.jsonl")
    n = export_study(name, path, store, texts=texts, demographics=demographics)
    echo(f"{n:,} rows in {path}")


@study.command()
@click.argument("name", metavar="STUDY")
@click.argument("rater", metavar="RATER")
@store_option
def erase(name: str, rater: str, *, store: str | None) -> None:
    """Erase all that a rater gave: choices, demographics, name; the invitation ends."""
    from evalstone.store import Store

    with Store.open(store) as opened:
        n = opened.studies.erase(name, rater)
    echo(f"{rater}: {n} answers erased")
