"""`assaymark study`: invited people compare models' answers blind, and the server of a study."""

import time
from collections.abc import Mapping
from pathlib import Path

import click

from assaymark.arena.studies.study_log import StudyLog
from assaymark.cli.extras import need_web, serving_options
from assaymark.cli.output import Group, echo, examples, json_option, print_json, print_result, store_option
from assaymark.errors import ModelError


def serve_study(file: str, options: Mapping[str, object], store: str | None) -> None:
    """Serve a study until a signal stops the process; `options`: the options of `cli.extras.serving_options`.

    Raises: as `read_study`, `store_study`, `hosts_for` and `listen`; MissingExtra without the extra `web`.
    """
    need_web("assaymark study serve")
    from assaymark.arena.routes.studies import studies_feature
    from assaymark.arena.studies.sessions import StudySessions, invitations, store_study
    from assaymark.arena.studies.study_file import read_study
    from assaymark.store import Store
    from assaymark.web.secret import server_secret
    from assaymark.web.serve import Where, serve_features

    where = Where.of(options)
    read, secret = read_study(Path(file)), server_secret()
    with Store.open(store, follows=True) as opened:
        design, _ = store_study(opened, read, secret, time.time())
        echo(*design.notes, err=True)

        def ready(url: str) -> None:
            for name, path in invitations(opened, read.study, secret).items():
                echo(f"{name}: {url.rstrip('/')}{path}")
            echo("Send each rater the address beside the name.  (stop with Ctrl-C)")

        serve_features([studies_feature(StudySessions(opened))], where, ready)


@click.group(cls=Group, epilog=examples("study init tone", "study serve study.yaml", "study results tone"))
def study() -> None:
    """Run a human study: invited people compare two models' answers without knowing the models."""


@study.command(epilog=examples("study init tone"))
@click.argument("folder", metavar="FOLDER")
def init(folder: str) -> None:
    """Write an example of a study's file, with answers to compare, into a folder."""
    from pathlib import Path

    from assaymark.arena.studies.study_file import write_example
    from assaymark.errors import UsageError

    if Path(folder).suffix in {".yaml", ".yml"}:
        raise UsageError(f"'{folder}' is the name of a file; name a folder, which study.yaml and its answers go into")
    path = write_example(Path(folder))
    echo(f"Edit {path}, then: assaymark study check {path}")


@study.command(epilog=examples("study draft study.yaml --with DIR --count 20"))
@click.argument("file", metavar="STUDY.yaml")
@click.option("--with", "model", required=True, metavar="MODEL", help="Model that drafts: a folder, a Hub id or a kind "
              "of model (see `ls models`).")  # fmt: skip
@click.option("--model_args", default="", metavar="A=1,B=2", help="Arguments of the model, as in `run`.")
@click.option("--base", is_flag=True, help="The model is a base model: ask it plainly, without its chat template.")
@click.option(
    "--count", type=click.IntRange(1, 1000), metavar="N", help="Prompts of each category (default: its quota)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sampling.")
@click.option("-o", "--output", metavar="FILE", help="File to write (default: prompts.yaml beside the study).")
@json_option
def draft(
    file: str, *, model: str, base: bool, output: str | None, as_json: bool, model_args: str, count: int | None,
    seed: int,
) -> None:  # fmt: skip
    """Let a model draft prompts for a study, which a person accepts or not.

    Nothing is compared unseen: each prompt is written with `accepted: false`. Empty ones and near-duplicates are
    dropped.
    """
    from assaymark.arena.studies.prompts import draft_study

    path, drafted = draft_study(file, model, model_args, count=count, seed=seed,
                              output=output, is_base=base)  # fmt: skip
    if as_json:
        print_json({"file": str(path), "model": drafted.model, "form": drafted.form, "n": len(drafted.candidates),
                    "dropped": dict(drafted.dropped)})  # fmt: skip
        return
    dropped = "".join(f"; {n} dropped: {why}" for why, n in drafted.dropped.items())
    echo(f"{len(drafted.candidates)} prompts in {path}, none of them accepted yet{dropped}")
    echo(f"Edit {path}: `accepted: true` where you accept one; then: assaymark study ask {path} --with MODEL -o FILE")


@study.command(epilog=examples("study ask prompts.yaml --with DIR -o answers.jsonl"))
@click.argument("file", metavar="PROMPTS.yaml")
@click.option("--with", "model", required=True, metavar="MODEL", help="Model that answers: a folder, a Hub id or a "
              "kind of model (see `ls models`).")  # fmt: skip
@click.option("--model_args", default="", metavar="A=1,B=2", help="Arguments of the model, as in `run`.")
@click.option("--base", is_flag=True, help="The model is a base model: ask it plainly, without its chat template.")
@click.option("--name", metavar="NAME", help="Name of the model in the answers (default: its own).")
@click.option("--max_tokens", type=click.IntRange(1), default=512, show_default=True, help="Longest answer, in tokens.")
@click.option("-o", "--output", required=True, metavar="FILE", help="File of answers (JSONL), to which they are added.")
@json_option
def ask(
    file: str, *, model: str, base: bool, output: str, as_json: bool, model_args: str, name: str | None, max_tokens: int
) -> int:
    """Let a model answer the accepted prompts, and add its answers to a file, with the text that was sent.

    What the file has of this model is not asked again. A model without chat template is asked plainly. Exit code 5 if
    every request failed.
    """
    from assaymark.arena.studies.prompts import ask_study

    asked = ask_study(file, model, output, model_args, name=name,
                      max_tokens=max_tokens, is_base=base)  # fmt: skip
    if as_json:
        print_json({"file": output, "model": asked.name, "form": asked.form, "n": asked.n, "n_stored": asked.n_stored,
                    "n_not_accepted": asked.n_not_accepted, "failures": asked.failures})  # fmt: skip
    else:
        echo(asked.line(output))
        echo(*(f"failed, not an answer: {failure}" for failure in asked.failures[:3]), err=True)
    return ModelError.exit_code if asked.failures and not asked.n else 0


@study.command(epilog=examples("study check study.yaml"))
@click.argument("file", metavar="STUDY.yaml")
@json_option
def check(file: str, *, as_json: bool) -> None:
    """Check a study's file, and show who would compare what."""
    from pathlib import Path

    from assaymark.arena.studies.design import design_study
    from assaymark.arena.studies.study_file import read_study

    read = read_study(Path(file))
    design = design_study(read)
    sizes = {name: len(own) for name, own in design.assignments.items()}
    n_items = " to ".join(str(n) for n in sorted({min(sizes.values()), max(sizes.values())}))
    if as_json:
        print_json({"study": read.study, "n_comparisons": design.n_comparisons, "items_of_raters": sizes,
                    "models": design.plan["models"], "notes": design.notes})  # fmt: skip
        return
    echo(*design.notes, err=True)
    echo(
        f"{read.study}: {design.n_comparisons} comparisons of {len(design.plan['models'])} models, "
        f"{read.ratings} raters each; {len(sizes)} raters with {n_items} items"
    )


@study.command(epilog=examples("study serve study.yaml --port 7500"))
@click.argument("file", metavar="STUDY.yaml")
@serving_options(port=7501)
@store_option
def serve(file: str, *, store: str | None, **options: object) -> None:
    """Store a study, print each rater's invitation, and serve its pages.

    Prompts and answers are shown to invited raters only. Without --host, only this machine can connect.
    """
    serve_study(file, options, store)


@study.command(epilog=examples("study results tone"))
@click.argument("name", metavar="STUDY")
@store_option
@json_option
def results(name: str, *, store: str | None, as_json: bool) -> None:
    """Show which models were preferred, with intervals, and how far the raters agree."""
    from assaymark.arena.studies.results import results_document, results_of

    study_results = results_of(name, store)
    print_result(study_results, lambda: results_document(study_results), as_json=as_json)


@study.command(epilog=examples("study export tone -o votes.jsonl"))
@click.argument("name", metavar="STUDY")
@click.option("-o", "--output", metavar="FILE", help="File to write (default: STUDY.jsonl).")
@click.option("--texts", is_flag=True, help="Include prompts and answers, which are held out otherwise.")
@click.option("--demographics", is_flag=True, help="Write what raters said about themselves instead, without numbers.")
@store_option
def export(name: str, *, output: str | None, texts: bool, demographics: bool, store: str | None) -> None:
    """Write the comparisons as JSON lines, which `assaymark arena rate` reads."""
    from pathlib import Path

    from assaymark.arena.studies.results import export_study

    path = Path(output or f"{name}.jsonl")
    n = export_study(name, path, store, texts=texts, demographics=demographics)
    echo(f"{n:,} rows in {path}")


@study.command(epilog=examples("study erase tone RATER"))
@click.argument("name", metavar="STUDY")
@click.argument("rater", metavar="RATER")
@store_option
def erase(name: str, rater: str, *, store: str | None) -> None:
    """Erase all that a rater gave: choices, demographics, name; the invitation ends."""
    from assaymark.store import Store

    with Store.open(store) as opened:
        n = StudyLog(opened).erase(name, rater)
    echo(f"{rater}: {n} answers erased")
