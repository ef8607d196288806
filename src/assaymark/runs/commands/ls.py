"""`assaymark ls [tasks|suites|models|presets|runs|...] [WORDS]`: list what is available or stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, TypeVar

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, print_rich, store_option
from assaymark.errors import UnknownName, UsageError
from assaymark.runs.run_options import declared_option

ORIGINS = {"user": 0, "assaymark": 1, "lm-eval": 2}  # the order of the list
KINDS = ("tasks", "groups", "tags", "suites", "models", "presets", "system_prompts", "runs", "audits")

T = TypeVar("T")
_ListedEntry = TypedDict(
    "_ListedEntry", {"name": str, "kind": str, "from": str, "n_tasks": int, "runs_here": bool, "reason": str | None}
)


@click.command(cls=Command, epilog=examples("ls tasks arc", "ls runs"))
@click.argument("kind", default="tasks", metavar="[tasks|groups|tags|suites|models|presets|system_prompts|runs|audits]")
@click.argument("words", nargs=-1)
@declared_option("include_path", help="Folder with task files to list too.")
@store_option
@json_option
def ls(kind: str, words: tuple[str, ...], include_path: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """List tasks, groups, tags, suites, kinds of models, prompt presets, system prompts, or stored runs or audits.

    Only entries that match all WORDS are listed. Judgings are listed with the runs.
    """
    kind = kind.replace("-", "_") if kind.replace("-", "_") in KINDS else kind
    first = kind if kind not in KINDS else None  # then it is a word to look for among the tasks
    if first is not None:
        kind, words = "tasks", (first, *words)
    if kind in {"runs", "audits"}:
        from assaymark.results.views.run_list import run_list
        from assaymark.runs.stored import list_audits, list_runs

        rows = list_audits(store, words, with_runs=kind == "runs")
        rows += list_runs(store, words) if kind == "runs" else []
        rows.sort(key=lambda row: row.updated_at, reverse=True)
        _show(rows, as_json, lambda _: print_rich(run_list(rows)))
    elif kind == "models":
        _show(_models(words), as_json, _print_models)
    elif kind in {"presets", "system_prompts"}:
        _show(_prompts(kind, words), as_json, _print_prompts)
    else:
        items = _entries(kind, words, include_path)
        if not items and not as_json and first is not None:
            from assaymark.registry import nearest

            what = "task, or kind of list," if len(words) == 1 else "kind of list, or tasks,"
            raise UnknownName(what, " ".join(words), nearest(first, KINDS), f"kinds: {', '.join(KINDS)}")
        _show(items, as_json, _print_entries)


def _show(items: Sequence[T], as_json: bool, printed: Callable[[Sequence[T]], None]) -> None:
    if as_json:
        print_json(items)
    elif not items:
        echo("nothing found", err=True)
    else:
        printed(items)


def _entries(kind: str, words: tuple[str, ...], include_path: tuple[str, ...]) -> list[_ListedEntry]:
    from pathlib import Path

    from assaymark.tasks.catalog import Catalog

    folders = [Path(folder) for folder in include_path]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--include_path '{folder}' is not a folder")
    wanted = {"tasks": {"task", "group"}, "groups": {"group"}, "tags": {"tag"}, "suites": {"suite"}}[kind]
    return [
        {"name": e.name, "kind": e.kind, "from": e.origin, "n_tasks": e.n_tasks, "runs_here": e.runnable_here,
         "reason": e.reason}
        for e in Catalog.open(folders).entries()
        if e.kind in wanted and all(word.lower() in e.name.lower() for word in words)
    ]  # fmt: skip


def _print_entries(items: Sequence[_ListedEntry]) -> None:
    """Print the entries that can run here, our library first; others are counted, or listed if none can."""
    runs = [item for item in items if item["runs_here"]]
    listed = sorted(runs or items, key=lambda item: (ORIGINS.get(item["from"], 3), item["name"]))
    width = min(max(len(item["name"]) for item in listed), 56)
    lines = []
    for item in listed:
        what = item["kind"] if item["kind"] == "task" else f"{item['kind']} of {item['n_tasks']}"
        note = f"  {item['reason']}" if item["reason"] else ""
        lines.append(f"{item['name']:<{width}}  {what:<14}  {item['from']}{note}")
    echo("\n".join(lines))
    ours = sum(item["from"] == "assaymark" for item in items)
    hidden = len(items) - len(listed)
    rest = f"; {hidden:,} more cannot run here (--json lists them with the reason)" if hidden else ""
    echo(f"{len(listed):,} listed, {ours:,} of Assaymark's library{rest}", err=True)


def _prompts(kind: str, words: tuple[str, ...]) -> list[dict[str, str]]:
    from assaymark.tasks.prompt_presets import NONE, find_preset, preset_names, system_prompts

    if kind == "system_prompts":
        items = [{"name": name, "text": text} for name, text in system_prompts().items()]
    else:
        presets = [find_preset(name) for name in preset_names()]
        items = [{"name": NONE, "text": "plain text, or the model's own template with --apply_chat_template"}]
        items += [
            {"name": p.name, "text": p.source, "template_hash": p.template_hash} for p in presets if p is not None
        ]
    return [item for item in items if all(word.lower() in item["name"] for word in words)]


def _print_prompts(items: Sequence[Mapping[str, str]]) -> None:
    echo(*(f"{item['name']:<14}  {' '.join(item['text'].split())}" for item in items))


def _models(words: tuple[str, ...]) -> list[dict[str, object]]:
    from assaymark.models.create import MODELS

    return [
        {"name": name, "place": place.target, "purpose": place.summary or f"of another package ({place.target})"}
        for name, place in sorted(MODELS.places().items())
        if all(word.lower() in name.lower() for word in words)
    ]


def _print_models(items: Sequence[Mapping[str, object]]) -> None:
    echo(*(f"{item['name']:<26}  {item['purpose']}" for item in items))
