"""What a model's repository reports: `.eval_results` as huggingface_hub writes it, `model-index`, and hostile files."""

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.interop.hub_files import model_folders
from assaymark.interop.imported import ForeignRun
from assaymark.interop.read_hub_results import read_hub_results, read_models
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.results_files import read_results_files
from assaymark.records import Estimate

CARD = """\
---
license: mit
model-index:
- name: tiny
  results:
  - task: {type: text-generation}
    dataset: {name: AI2 Reasoning Challenge (25-Shot), type: ai2_arc, config: ARC-Challenge, args: {num_few_shot: 25}}
    metrics:
    - {type: acc_norm, value: 61.35, name: normalized accuracy}
    source: {url: "https://huggingface.co/spaces/x/y", name: Open LLM Leaderboard}
  - task: {type: text-generation}
    dataset: {name: WikiText, type: wikitext}
    metrics:
    - {type: perplexity, value: 12.5}
---
# Tiny
"""


def model(folder: Path, *files: str, card: str = "") -> Path:
    """Write a model's folder with these files of entries, and a card."""
    place = folder / "acme" / "tiny"
    (place / ".eval_results").mkdir(parents=True)
    for number, text in enumerate(files):
        (place / ".eval_results" / f"{number}.yaml").write_text(text)
    if card:
        (place / "README.md").write_text(card)
    return place


def entry(value: object, dataset: str = "Idavidrein/gpqa", task: str = "gpqa_diamond", more: str = "") -> str:
    """Return the text of one entry."""
    return f"- dataset: {{id: {dataset}, task_id: {task}}}\n  value: {value}\n{more}"


def values_of(run: ForeignRun) -> dict[str, float | None]:
    """Return the values by task."""
    return {value.task: value.value for value in run.reported}


def reported_by(path: Path) -> dict[str, Estimate]:
    """Return the estimates of a folder by task."""
    return {estimate.task: estimate for estimate in read_imported(path).estimates}


def test_what_huggingface_hub_writes_is_read(tmp_path: Path) -> None:
    """Every field of its entries is kept with the estimate, and the value is a share."""
    hub = pytest.importorskip("huggingface_hub")
    written = hub.EvalResultEntry(
        dataset_id="cais/hle", task_id="default", value=20.9, dataset_revision="c" * 40, verify_token="ey",
        date="2026-01-15T10:30:00Z", source_url="https://huggingface.co/datasets/cais/hle", source_name="CAIS HLE",
        source_org="cais", notes="no-tools",
    )  # fmt: skip
    place = model(tmp_path, yaml.safe_dump(hub.eval_result_entries_to_yaml([written])))
    run = read_imported(place)
    (estimate,) = run.estimates
    assert (estimate.task, estimate.metric, estimate.filter) == ("hle", "acc", "no-tools")
    assert estimate.value == pytest.approx(0.209)
    assert (estimate.n, estimate.low, estimate.details["unit"]) == (0, None, "proportion")
    facts = estimate.details["reported"]
    assert (facts["date"], facts["by"], facts["source"]) == (written.date, "CAIS HLE", written.source_url)
    assert (facts["stated"], facts["unit"], facts["file"]) == (20.9, "per cent", ".eval_results/0.yaml")
    assert run.plan.model.name == str(place)
    assert run.requests == ()


def test_a_card_s_model_index_is_read_with_its_shots(tmp_path: Path) -> None:
    """A value above 1 is per cent, a perplexity stays as it is, and source and shots are kept."""
    found = reported_by(model(tmp_path, card=CARD))
    arc, wikitext = found["AI2 Reasoning Challenge (25-Shot)"], found["WikiText"]
    assert arc.value == pytest.approx(0.6135)
    assert (arc.metric, arc.details["n_shots"]) == ("acc_norm", 25)
    assert arc.details["reported"]["by"] == "Open LLM Leaderboard"
    assert (wikitext.value, wikitext.higher_is_better, wikitext.details["unit"]) == (12.5, False, "plain")


def test_our_own_card_is_read(tmp_path: Path) -> None:
    """The model-index that `export -o card.yaml` writes comes back under its tasks' names once the unit is said."""
    from assaymark.runs.exporting import export_run

    store = str(tmp_path / "store.sqlite")
    run = assaymark.evaluate("fake", ["demo_who"], limit=20, store=store)
    export_run(store, run.id, tmp_path / "card.yaml")
    place = model(tmp_path, card=f"---\n{(tmp_path / 'card.yaml').read_text()}---\n")
    expected = run.estimate("demo_who", "acc").value
    by_metric = {value.metric: value.value for value in read_hub_results(place, "share").reported}
    assert by_metric["acc"] == expected


@pytest.mark.parametrize(
    ("value", "dataset", "task", "share", "said"),
    [
        (41.2, "Idavidrein/gpqa", "gpqa_diamond", 0.412, "read as per cent, above 1"),
        (0.412, "Idavidrein/gpqa", "gpqa_diamond", 0.412, "read as share, the unit of the benchmark's leaderboard"),
        (0, "openai/gsm8k", "gsm8k", 0.0, "read as share, 0 in either unit"),
        (20.9, "cais/hle", "hle", 0.209, "read as per cent, above 1"),
        (96.8, "acme/other", "x", 96.8, "as stated, in no known unit"),
        (0.5, "acme/other", "x", 0.5, "as stated, in no known unit"),
        (1250, "acme/elo", "x", 1250.0, "as stated, in no known unit"),
    ],
)
def test_the_unit_is_made_out_and_said(
    tmp_path: Path, value: float, dataset: str, task: str, share: float, said: str
) -> None:
    """By the value where it is above 1, else by the registered unit; of another benchmark it is a number as stated."""
    run = read_hub_results(model(tmp_path, entry(value, dataset, task)))
    assert run.reported[0].value == pytest.approx(share)
    (line,) = run.notes
    assert line == f"{said}: {dataset} {task} {value:g}"


@pytest.mark.parametrize(("value", "dataset"), [(0.209, "cais/hle"), (1, "openai/gsm8k"), (0.5, "")])
def test_a_unit_in_doubt_is_no_guess(tmp_path: Path, value: float, dataset: str) -> None:
    """A value up to 1 that nothing decides is left out in a line with both readings; --unit decides.

    Those are of a leaderboard in per cent, or of another data set by a metric that is a share.
    """
    if dataset:
        place = model(tmp_path, entry(value, dataset, dataset.partition("/")[2]))
    else:
        place = model(tmp_path, card=card_of("acc", value))
    with pytest.raises(DataError, match=f"{value:g} may be {100 * value:g}% or {value:g}%: .*--unit share or"):
        read_hub_results(place)
    assert read_hub_results(place, "share").reported[0].value == value
    assert read_hub_results(place, "per cent").reported[0].value == pytest.approx(value / 100)


def test_another_unit_corrects_an_earlier_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same run has the other values, or one of more values replaces it; without a unit nothing is changed."""
    place, store = model(tmp_path, GOOD + entry(0.209, "cais/hle", "hle")), str(tmp_path / "store.sqlite")

    def imported(*words: str) -> tuple[list[float | None], str]:
        assert main(["import", str(place), *words, "--store", store]) == 0
        assert main(["verify", "--store", store]) == 0
        (run,) = assaymark.list_runs(store)
        said = next((line for line in capsys.readouterr().out.splitlines() if line.startswith("this ")), "")
        return [estimate.value for estimate in assaymark.open_run(store, run.run_id).estimates], said

    assert imported() == ([0.412], "")
    values, said = imported("--unit", "percent")
    assert values == pytest.approx([0.00412, 0.00209])
    assert re.fullmatch("this replaces run [0-9a-f]+, which had these files' values in another unit", said)
    values, said = imported("--unit", "share")
    assert (values, said[:18]) == ([0.412, 0.209], "this corrects run ")
    for again in ((), ("--unit", "share")):
        assert imported(*again) == ([0.412, 0.209], "this run was already in the store; nothing was added")


def test_another_value_of_the_model_puts_a_share_in_doubt(tmp_path: Path) -> None:
    """GPQA's 0.412 beside 45.2 of another variant may be in either unit: it is left out, and --unit decides."""
    place = model(tmp_path, GOOD + entry(45.2, more="  notes: with tools\n"))
    run = read_hub_results(place)
    (value,) = run.reported
    assert (value.filter, value.value) == ("with tools", 0.452)
    assert "0.412 may be 41.2% or 0.412%: the leaderboard of Idavidrein/gpqa has shares, and another" in run.notes[0]
    assert [value.value for value in read_hub_results(place, "share").reported] == pytest.approx([0.412, 0.452])


def test_other_models_decide_nothing(tmp_path: Path) -> None:
    """A model's values are the same whether it is imported alone, with its neighbours, or named by a board."""
    first = model(tmp_path / "models", GOOD)
    second = first.parent / "other"
    (second / ".eval_results").mkdir(parents=True)
    (second / ".eval_results" / "0.yaml").write_text(entry(45.2))
    runs = [run for run in read_models(tmp_path / "models") if isinstance(run, ForeignRun)]
    expected: list[Any] = [("other", pytest.approx(0.452)), ("tiny", 0.412)]
    imported: list[Any] = sorted((Path(run.model).name, run.reported[0].value) for run in runs)
    assert imported == expected
    on_board = read_results_files([tmp_path / "models"])
    assert sorted((Path(run.model).name, run.estimates[0].value) for run in on_board) == expected
    assert read_hub_results(first).reported[0].value == 0.412


def card_of(metric: str, value: float) -> str:
    """Return a model card with one value of a data set that is not registered."""
    result = {"dataset": {"type": "acme/other", "name": "Other"}, "metrics": [{"type": metric, "value": value}]}
    return f"---\n{yaml.safe_dump({'model-index': [{'name': 'tiny', 'results': [result]}]})}---\n"


@pytest.mark.parametrize(
    ("metric", "value", "is_neutral", "higher_is_better"),
    [
        ("mt_bench", 8.3, True, True),
        ("wer", 5.2, False, False),
        ("cer", 0.4, False, False),
        ("val_loss", 1.9, False, False),
        ("mae", 0.3, False, False),
        ("perplexity", 12.5, False, False),
        ("bleu", 31.0, False, True),
    ],
)
def test_what_is_not_known_to_be_a_share_is_a_number(
    tmp_path: Path, metric: str, value: float, is_neutral: bool, higher_is_better: bool
) -> None:
    """It stays as stated, up to 1 too; an error is better where it is lower, and an unknown metric is neutral."""
    run = read_imported(model(tmp_path, card=card_of(metric, value)))
    (estimate,) = run.estimates
    assert (estimate.value, estimate.details["unit"]) == (value, "plain")
    assert (estimate.details.get("is_neutral", False), estimate.higher_is_better) == (is_neutral, higher_is_better)
    facts: Any = run.extra["tasks"]
    (of_metric,) = facts["Other"]["metrics"]
    assert of_metric.get("is_neutral", False) == is_neutral


def test_the_unit_of_an_unknown_metric_can_be_said(tmp_path: Path) -> None:
    """--unit makes it a share where it can be one; what is known to be a number stays one."""
    wer, loss = model(tmp_path / "a", card=card_of("wer", 5.2)), model(tmp_path / "b", card=card_of("val_loss", 1.9))
    (estimate,) = read_imported(wer, "per cent").estimates
    assert estimate.value == pytest.approx(0.052)
    assert estimate.details["unit"] == "proportion"
    assert [read_imported(wer, "share").estimates[0].value, read_imported(loss, "per cent").estimates[0].value] == [
        5.2, 1.9,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        ("20260115", "2026-01-15"),
        ("20260115T10", "2026-01-15T10:00:00"),
        ("2026-01-15T10:30:00+02:00", "2026-01-15T08:30:00Z"),
        ("0001-01-01T00:00:00+02:00", ""),
    ],
)
def test_dates_are_in_one_form(tmp_path: Path, stated: str, read: str) -> None:
    """All forms of ISO 8601 become one; the later of two values stands for the task, and dates the run."""
    place = model(tmp_path, entry(0.1, more=f"  date: '{stated}'\n"), entry(0.2, more="  date: '2026-03-16'\n"))
    run = read_hub_results(place)
    assert [value.value for value in run.reported] == [0.2, 0.1]
    assert run.date == "2026-03-16"
    assert run.reported[1].facts is not None
    assert run.reported[1].facts["date"] == read


def test_one_file_of_a_folder_can_be_read(tmp_path: Path) -> None:
    """A file of entries or the card alone, under the name of the model's folder."""
    place = model(tmp_path, GOOD, card=CARD)
    alone, card = read_hub_results(place / ".eval_results" / "0.yaml"), read_hub_results(place / "README.md")
    assert (alone.model, list(values_of(alone))) == (str(place), ["gpqa_diamond"])
    assert (card.model, list(values_of(card))) == (str(place), ["AI2 Reasoning Challenge (25-Shot)", "WikiText"])


def test_variants_of_a_benchmark_stand_apart(tmp_path: Path) -> None:
    """Entries that differ in their notes are two values; the one without notes stands for the task."""
    place = model(
        tmp_path, entry(0.3, more="  notes: with tools\n"), entry(0.2), entry(0.1, more="  notes: with tools\n")
    )
    estimates = read_imported(place).estimates
    assert [(each.filter, each.value, each.details["primary"]) for each in estimates] == [
        ("none", 0.2, True), ("with tools", 0.3, False), ("with tools (2)", 0.1, False),
    ]  # fmt: skip


GOOD = entry(0.412)
DEEP = "[" * 300
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "expand to"),
        (DEEP, "nested deeper than 100 levels"),
        (entry(".nan"), "value is nan; expected a finite number; the entry was left out"),
        (entry(".inf"), "value is inf; expected a finite number"),
        (entry("9" * 400), "expected a finite number"),
        (entry("true"), "value is True; expected a number"),
        (entry("'41.2'"), "value is '41.2'; expected a number"),
        (entry("[1, 2]"), "value is a list; expected a number"),
        (entry(-3), "-3 is impossible: expected a number from 0 to 1; it was left out"),
        (entry(250), "250 is impossible: expected a number from 0 to 1"),
        ("- dataset: {id: a/b, task_id: x}\n", "has no `value`"),
        ("- {value: 3}\n", "has no `dataset`"),
        ("- dataset: {id: a/b}\n  value: 3\n", "has no `task_id`"),
        ("- dataset: {task_id: b}\n  value: 3\n", "has no `id`"),
        ("- dataset: text\n  value: 3\n", "dataset is a text; expected a mapping"),
        ("- dataset: {id: ../../etc, task_id: x}\n  value: 3\n", "id is '../../etc'; expected a data set of the Hub"),
        ("- dataset: {id: 3, task_id: x}\n  value: 3\n", "id is 3; expected a text"),
        ("dataset: {id: a/b}\n", "is a mapping; expected a list of entries"),
        ("- 3\n", "an entry is a number; expected a mapping"),
        ("", "is empty; expected a list of entries"),
        ("\x00", "a character that YAML does not accept"),
        ("- {a: [\n", "not valid YAML: line"),
    ],
)
def test_a_fault_is_one_line_and_the_rest_is_read(tmp_path: Path, text: str, said: str) -> None:
    """The line names the file, and the entry of the file beside it is still read."""
    run = read_hub_results(model(tmp_path, text, GOOD))
    assert values_of(run) == {"gpqa_diamond": 0.412}
    (line,) = [note for note in run.notes if note.startswith(".eval_results/0.yaml")]
    assert said in line
    assert "\n" not in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("  unit: share\n", "unknown key 'unit' of an entry; known: dataset, value,"),
        ("  date: yesterday\n", "date is 'yesterday'; expected ISO 8601"),
        ("  date: [1]\n", "date is a list; expected a text"),
        ("  notes: 5\n", "notes is 5; expected a text"),
        ("  source: {name: x}\n", ""),
        ("  source: {url: 'javascript:alert(1)'}\n", "url is 'javascript:alert(1)'; expected an address"),
        ("  source: {url: 'https://a b'}\n", "url is 'https://a b'; expected an address"),
    ],
)
def test_a_fault_in_an_optional_key_leaves_the_value(tmp_path: Path, more: str, said: str) -> None:
    """Only the key is left out, with a line."""
    run = read_hub_results(model(tmp_path, entry(0.412, more=more)))
    assert values_of(run) == {"gpqa_diamond": 0.412}
    faults = [note for note in run.notes if note.startswith(".eval_results/0.yaml: ")]
    assert [said in fault for fault in faults] == [True] * bool(said)
    (value,) = run.reported
    assert value.facts is not None
    assert value.facts["source"] == ""


def test_entries_of_one_file_are_read_one_by_one(tmp_path: Path) -> None:
    """A faulty entry among others is named by its number."""
    run = read_hub_results(model(tmp_path, GOOD + "- 3\n" + entry(0.3, task="gpqa_main")))
    assert values_of(run) == {"gpqa_diamond": 0.412, "gpqa_main": 0.3}
    assert (
        ".eval_results/0.yaml: entry 2: an entry is a number; expected a mapping; the entry was left out" in run.notes
    )


def test_no_file_from_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    """A link out of the folder is a line; one inside of it is followed."""
    place = model(tmp_path, GOOD)
    (tmp_path / "secret.yaml").write_text(entry(0.9, task="gpqa_main"))
    (place / "other.yaml").write_text(entry(0.3, task="gpqa_extended"))
    (place / ".eval_results" / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    (place / ".eval_results" / "in.yaml").symlink_to(place / "other.yaml")
    (place / ".eval_results" / "gone.yaml").symlink_to(place / "nothing.yaml")
    (place / ".eval_results" / "loop.yaml").symlink_to(place / ".eval_results" / "loop.yaml")
    run = read_hub_results(place)
    assert values_of(run) == {"gpqa_diamond": 0.412, "gpqa_extended": 0.3}
    faults = [note for note in run.notes if note.startswith(".eval_results/")]
    assert faults == [
        ".eval_results/gone.yaml: is not a regular file",
        ".eval_results/loop.yaml: is not a regular file",
        ".eval_results/out.yaml: is a link that leaves its folder; copy the file that it names",
    ]


def test_the_hub_s_own_cache_is_read_under_the_model_s_id(tmp_path: Path) -> None:
    """Its snapshots are links to blobs beside them; the name is in the folder above."""
    cached = tmp_path / "models--acme--tiny-1.5"
    snapshot = cached / "snapshots" / ("a" * 40)
    (snapshot / ".eval_results").mkdir(parents=True)
    (cached / "blobs").mkdir()
    (cached / "blobs" / "b").write_text(GOOD)
    (snapshot / ".eval_results" / "gpqa.yaml").symlink_to(Path("../../../blobs/b"))
    run = read_hub_results(snapshot)
    assert (run.model, values_of(run)) == ("acme/tiny-1.5", {"gpqa_diamond": 0.412})
    assert len(list(read_models(tmp_path))) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_and_a_file_of_100_mb_are_not_opened(tmp_path: Path) -> None:
    """Both are lines; the pipe would wait for a writer."""
    place = model(tmp_path, GOOD)
    os.mkfifo(place / ".eval_results" / "pipe.yaml")
    with (place / ".eval_results" / "large.yaml").open("wb") as file:
        file.truncate(100_000_000)
    faults = [note for note in read_hub_results(place).notes if note.startswith(".eval_results/")]
    assert faults == [
        ".eval_results/large.yaml: has 100,000,000 bytes; at most 1,048,576 are read",
        ".eval_results/pipe.yaml: is not a regular file",
    ]


def test_a_card_s_faults_are_lines(tmp_path: Path) -> None:
    """Values that are no numbers, results without a data set, and anything in place of a list."""
    card = """---
model-index:
- name: x
  results:
  - dataset: {type: a/b, name: One}
    metrics: [{type: accuracy, value: 73.1}, {type: accuracy, value: 73.1 +/- 2}, {value: 3}, 5]
  - metrics: []
  - dataset: {type: a/b}
    metrics: text
- 7
---
"""
    run = read_hub_results(model(tmp_path, card=card))
    assert values_of(run) == {"One": pytest.approx(0.731)}
    faults = [note for note in run.notes if note.startswith("README.md")]
    assert len(faults) == 6
    assert "metrics: value is '73.1 +/- 2'; expected a number; the value was left out" in faults[0]


def test_a_folder_without_a_value_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, the first fault and how many others there are."""
    place = model(tmp_path, "- 3\n", "- 4\n")
    assert main(["import", str(place), "--store", str(tmp_path / "s.sqlite")]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {place}: no reported value was read: .eval_results/0.yaml: an entry is a number")
    assert line.endswith("(and 1 other fault)")


def test_names_that_steer_a_terminal_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of a file are data: no control character reaches the terminal."""
    text = 'notes: "\\e[31mred"'
    place = model(tmp_path, entry(0.4, more=f"  {text}\n"))
    assert main(["import", str(place), "--store", str(tmp_path / "s.sqlite")]) == 0
    assert "\x1b" not in "".join(capsys.readouterr())


def test_a_folder_of_models_is_one_run_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each model is imported once; one without a value is a note."""
    first = model(tmp_path / "models", GOOD)
    bad = first.parent / "bad"
    (bad / ".eval_results").mkdir(parents=True)
    (bad / ".eval_results" / "0.yaml").write_text("- 3\n")
    store = str(tmp_path / "s.sqlite")
    assert main(["import", str(tmp_path / "models"), "--store", store]) == 0
    printed = capsys.readouterr()
    assert "gpqa_diamond" in printed.out
    assert f"note: {bad}: no reported value was read" in printed.err
    assert main(["import", str(tmp_path / "models"), "--store", store]) == 0
    assert "this run was already in the store" in capsys.readouterr().out


def test_a_search_for_models_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are counted, links are not followed, and a hidden folder is none of a model."""
    for name in ("a", "b", "c"):
        model(tmp_path / name, GOOD)
    (tmp_path / "d").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "acme" / "tiny").rename(tmp_path / "a" / "acme" / ".tiny")
    assert [folder.relative_to(tmp_path).parts[0] for folder in model_folders(tmp_path)] == ["b", "c"]
    monkeypatch.setattr("assaymark.interop.hub_files.MOST_FOLDERS", 7)
    assert len(model_folders(tmp_path)) == 1


def test_a_unit_is_only_for_files_that_lack_one(tmp_path: Path) -> None:
    """Other tools' files state theirs."""
    (tmp_path / "results_1.json").write_text('{"results": {"t": {"acc": 0.5}}, "config": {"model": "m"}}')
    with pytest.raises(UsageError, match="--unit is for values of a model's folder"):
        read_imported(tmp_path / "results_1.json", "share")


def test_a_file_that_may_not_be_read_is_a_line(tmp_path: Path) -> None:
    """A file without read permission leaves the others."""
    place = model(tmp_path, GOOD, entry(0.3, task="gpqa_main"))
    closed = place / ".eval_results" / "1.yaml"
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("this user may read every file")
    faults: list[Any] = [note for note in read_hub_results(place).notes if "1.yaml" in note]
    closed.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert len(faults) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["openai/gsm8k", "gsm8k", "2026-01-15", "https://a.b", "acc", "../x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "dataset", "id", "task_id", "value", "date", "source", "url", "notes", "model-index", "results", "metrics",
            "type", "name", "args", "num_few_shot", "config", "x",
        ]),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150)
@given(entries=VALUES, card=VALUES)
def test_any_content_is_a_value_or_a_line(
    tmp_path_factory: pytest.TempPathFactory, entries: object, card: object
) -> None:
    """Whatever YAML the files hold, they are read or refused in one line; the good file beside them is read."""
    place = model(
        tmp_path_factory.mktemp("any"), yaml.safe_dump(entries), GOOD,
        card=f"---\n{yaml.safe_dump({'model-index': card})}---\n",
    )  # fmt: skip
    run = read_hub_results(place)
    assert values_of(run)["gpqa_diamond"] == 0.412
    assert not any("\n" in note for note in run.notes)
    assert read_imported(place).estimates
