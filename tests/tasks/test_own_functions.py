"""Functions that task files name by dotted path into our package: only our library may."""

import json
from pathlib import Path

import pytest

from assaymark import evaluate
from assaymark.datasets import DatasetSpec
from assaymark.datasets.load import load_dataset
from assaymark.errors import UsageError
from assaymark.interop.lm_eval_files import write_lm_eval_files
from assaymark.interop.read_lm_eval import imported_run
from assaymark.scoring.instructions.ifeval import agg_inst_level_acc, process_results
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.functions import load_function, loader_of
from assaymark.tasks.task import FunctionRef
from tests.conftest import ROOT

IFEVAL = FunctionRef("assaymark.scoring.instructions.ifeval.process_results", None)


def test_the_library_may_name_our_scoring() -> None:
    """A task of the library gets the function; its file is part of the task's hash."""
    (task,) = Catalog.open(lm_eval=False).select(["ifeval"]).tasks
    assert loader_of(task)(task.process_results) is process_results
    for path in ("assaymark.store.remove.remove_run", "assaymark.settings.read", "subprocess.run"):
        with pytest.raises(UsageError, match="names an installed module"):
            load_function(FunctionRef(path, None), task.trusted)


def test_a_users_file_may_not(tmp_path: Path) -> None:
    """The same name in a user's file is refused, like all code outside trusted folders."""
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: json\ntest_split: test\ndoc_to_text: prompt\ndoc_to_target: prompt\n"
        f"process_results: !function {IFEVAL.path}\n"
    )
    (task,) = Catalog.open([tmp_path], lm_eval=False).select(["mine"]).tasks
    assert task.process_results == IFEVAL
    with pytest.raises(UsageError, match="names an installed module"):
        loader_of(task)(task.process_results)


def test_per_instruction_scores_weight_every_instruction_equally() -> None:
    """Three of four instructions followed in two prompts are 0.75, whatever the prompts' means."""
    row = {
        "prompt": "Write in small letters, without commas.",
        "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
        "kwargs": [{}, {}],
    }
    result = process_results(row, ["no, this is wrong, but in small letters and in the english language"])
    assert result["prompt_level_strict_acc"] is False
    assert result["inst_level_strict_acc"] == [False, True]
    assert agg_inst_level_acc([result["inst_level_strict_acc"], [True], [True]]) == 0.75


def test_own_aggregations_get_what_lm_evals_get(tmp_path: Path) -> None:
    """A text or mapping comes as it is; what a metric gives under other names is aggregated as that metric is."""
    (tmp_path / "own.py").write_text(
        "def given(doc, results): return {'text': results[0], 'object': {'n': len(results[0])}}\n"
        "def letters(items): return sum(len(text) for text in items)\n"
        "def counted(items): return sum(item['n'] for item in items)\n"
        "def several(references, predictions): return {'errors': len(predictions[0]), 'right': 1}\n"
    )
    rows = [{"question": "one?", "answer": "eleven"}, {"question": "two?", "answer": "twelve!"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = (
        f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: question\ndoc_to_target: answer\nmetric_list:\n"
    )
    (tmp_path / "own_items.yaml").write_text(
        f"task: own_items\nprocess_results: !function own.given\n{common}"
        "- {metric: text, aggregation: !function own.letters, higher_is_better: true}\n"
        "- {metric: object, aggregation: !function own.counted, higher_is_better: true}\n"
    )
    (tmp_path / "own_names.yaml").write_text(
        f"task: own_names\n{common}- {{metric: !function own.several, aggregation: median, higher_is_better: false}}\n"
    )
    run = evaluate(
        "fake", "own_items,own_names", model_args={"accuracy": 1.0}, include_path=[str(tmp_path)],
        store=str(tmp_path / "s.sqlite"),
    )  # fmt: skip
    found = {each.metric: (each.value, each.higher_is_better) for each in run.estimates}
    assert found == {"text": (13.0, True), "object": (13.0, True), "errors": (7.0, False), "right": (1.0, False)}
    write_lm_eval_files(run.store, run.id, tmp_path, log_samples=True)
    (file,) = tmp_path.glob("*/samples_own_items_*")
    first = json.loads(file.read_text().splitlines()[0])
    assert (first["text"], first["object"]) == ("eleven", {"n": 6})
    # an import does not know the functions: what they gave is reported, as for IFEval's lists
    imported = imported_run(tmp_path)
    reported = {(each.task, each.metric): (each.value, each.higher_is_better) for each in imported.estimates}
    assert [reported["own_items", metric] for metric in ("text", "object")] == [(13.0, True), (13.0, True)]
    assert reported["own_names", "right"] == (1.0, False)


def test_nan_is_an_undefined_score(tmp_path: Path) -> None:
    """It is no number of the mean, which lm-eval's nanmean leaves out, and the table says how many there are."""
    (tmp_path / "own.py").write_text(
        "def given(doc, results): return {'share': float(doc['answer'])}\n"
        "def metric(references, predictions): return float(references[0])\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"q": "a", "answer": "nan"}\n{"q": "b", "answer": "0.5"}\n')
    for name, own in (("given", "process_results: !function own.given\n"), ("called", "")):
        metric = "share" if own else "!function own.metric"
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\n{own}dataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\n"
            "test_split: test\noutput_type: generate_until\ndoc_to_text: q\ndoc_to_target: answer\n"
            f"metric_list: [{{metric: {metric}, aggregation: nanmean, higher_is_better: true}}]\n"
        )
    run = evaluate("fake", "given,called", include_path=[str(tmp_path)], store=str(tmp_path / "s.sqlite"))
    assert [(each.value, each.n, each.n_failed) for each in run.estimates] == [(0.5, 1, 0)] * 2
    assert "1 not scored, excluded" in str(run)


def test_rows_serve_under_both_names(shared_dir: Path) -> None:
    """The leaderboard's copy of IFEval is read from google/IFEval where only that is present, and the reverse."""
    data = shared_dir / "data"
    both = [load_dataset(DatasetSpec(name), data) for name in ("google/IFEval", "wis-k/instruction-following-eval")]
    assert [len(each.splits["train"]) for each in both] == [541, 541]
    assert both[0].content_hash == both[1].content_hash
    fixture = load_dataset(DatasetSpec("google/IFEval"), ROOT / "tests" / "fixtures" / "data")
    assert len(fixture.splits["train"]) == 20
