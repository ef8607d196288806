"""Records of Every Eval Ever, of every kind of run, and what its own package says of them."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.interop.every_eval_files import WrittenRecords, write_records
from assaymark.interop.every_eval_results import Publisher, folder_name
from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from assaymark.models.fake import FakeModel
from assaymark.runs.exporting import export_records
from assaymark.runs.run import Run
from assaymark.store import Store
from tests.applications.oracles.locked import needs_oracle, oracle
from tests.conftest import ROOT
from tests.judges.answered import answered_run, questions_task
from tests.judges.judge_server import answers_shown, judging_server
from tests.runs.test_suites import MEMBERS, write_suite
from tests.tasks.folders import task_spec, write_task

DEMO = ["demo_letters", "demo_sums", "demo_stories", "demo_truth"]
WHO = Publisher("The Testers", "third_party", "testers/model")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of a group, of generated answers, of a corpus metric and of graded scores."""
    return assaymark.evaluate("fake", DEMO, limit=4, store=str(tmp_path_factory.mktemp("demo") / "store.sqlite"))


def exported(run: Run, folder: Path, publisher: Publisher = WHO) -> WrittenRecords:
    """Write a run's records into a folder."""
    return write_records(run.store, run.id, folder, publisher)


def aggregates(written: WrittenRecords) -> dict[str, dict[str, Any]]:
    """Return the records by the folder of their benchmark."""
    files = [path for path in written.paths if path.suffix == ".json"]
    return {path.parts[-4]: json.loads(path.read_text(encoding="utf-8")) for path in files}


def rows_of(written: WrittenRecords, benchmark: str) -> list[dict[str, Any]]:
    """Return the rows of a record's samples."""
    (path,) = (path for path in written.paths if path.suffix == ".jsonl" and path.parts[-4] == benchmark)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_value_is_there_with_its_interval(demo: Run, tmp_path: Path) -> None:
    """Each estimate is a result with value, standard error, both ends, confidence, method and n; none is left out."""
    records = aggregates(exported(demo, tmp_path))
    assert set(records) == set(DEMO)  # a group's tasks are in its record
    results = {
        each["evaluation_result_id"]: each for record in records.values() for each in record["evaluation_results"]
    }
    assert len(results) == len(demo.estimates)
    for estimate in demo.estimates:
        name = f"{estimate.task}/{estimate.metric}" + ("" if estimate.filter == "none" else f":{estimate.filter}")
        details, config = results[name]["score_details"], results[name]["metric_config"]
        assert details["score"] == estimate.value
        uncertainty = details["uncertainty"]
        assert uncertainty["num_samples"] == estimate.n
        if estimate.low is not None:
            assert uncertainty["confidence_interval"] == {
                "lower": estimate.low, "upper": estimate.high, "confidence_level": 0.95, "method": estimate.method,
            }  # fmt: skip
        if estimate.stderr is not None:
            assert uncertainty["standard_error"]["value"] == estimate.stderr
        assert config["lower_is_better"] is not estimate.higher_is_better
    ends = results["demo_stories/word_perplexity"]["metric_config"]
    assert (ends["min_score"], ends["max_score"]) == (0.0, "Infinity")


def test_samples_hold_question_answer_and_score(demo: Run, tmp_path: Path) -> None:
    """A row per sample and result, in order; the reference to the file has its hash and its number of rows."""
    written = exported(demo, tmp_path)
    for name, record in aggregates(written).items():
        reference = record["detailed_evaluation_results"]
        file = tmp_path / reference["file_path"]
        assert reference["checksum"] == hashlib.sha256(file.read_bytes()).hexdigest()
        rows = rows_of(written, name)
        assert reference["total_rows"] == len(rows)
        assert {row["evaluation_id"] for row in rows} == {record["evaluation_id"]}
    (first, *_) = rows_of(written, "demo_sums")
    stored = demo.samples("demo_sums")[0]
    assert first["input"]["raw"] == stored.request.prompt
    assert first["output"]["raw"] == [stored.outputs[0].text]
    (score,) = stored.scores
    assert first["evaluation"] == {"score": score.value, "is_correct": score.value == 1.0}
    graded = [row["evaluation"] for row in rows_of(written, "demo_truth")]
    assert all(0 < each["score"] < 1 and each["is_correct"] is False for each in graded)


def test_a_second_export_is_the_same_files(demo: Run, tmp_path: Path) -> None:
    """Names and bytes of two exports are equal; the names are UUIDs of version 4, which the data store demands."""
    first, second = (exported(demo, tmp_path / name) for name in ("first", "second"))
    for one, other in zip(first.paths, second.paths, strict=True):
        assert one.relative_to(tmp_path / "first") == other.relative_to(tmp_path / "second")
        assert one.read_bytes() == other.read_bytes()
        assert re.match(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab]", one.name)


def test_a_suite_is_one_record(tmp_path: Path) -> None:
    """The composite and its members' values are together, under the suite's name."""
    run = assaymark.evaluate(FakeModel(), suite="board", include_path=[suite_folder(tmp_path)])
    (record,) = aggregates(exported(run, tmp_path / "out")).values()
    names = {each["evaluation_name"] for each in record["evaluation_results"]}
    assert names == {"board", "sums", "letters"}
    assert record["evaluation_id"].startswith("board/")


def suite_folder(folder: Path) -> Path:
    """Return a folder with a suite of two tasks."""
    place = folder / "mine"
    write_task(place, task_spec("sums", num_fewshot=1))
    write_task(place, task_spec("letters", num_fewshot=3))
    write_suite(place, MEMBERS)
    return place


def test_failed_requests_have_no_row(tmp_path: Path) -> None:
    """A failed request is no wrong answer: it has no row, and is counted."""
    run = assaymark.evaluate("fake", ["demo_who"], model_args="fail=0.5", limit=20, store=str(tmp_path / "s.sqlite"))
    estimate = run.estimate("demo_who")
    assert estimate.n_failed
    written = exported(run, tmp_path)
    assert len(rows_of(written, "demo_who")) == estimate.n
    (result,) = aggregates(written)["demo_who"]["evaluation_results"]
    assert result["score_details"]["details"]["n_failed"] == str(estimate.n_failed)


def conversation_and_judging(folder: Path) -> tuple[str, str, Path]:
    """Return the ids of a run of two turns and of a judging of it beside another one, and their store."""
    task, store = questions_task(folder, turns=2), folder / "s.sqlite"
    ant, bee = (answered_run(name, task, store, limit=3) for name in ("ant", "bee"))

    def for_ant(text: str) -> str:
        first, second = (answer.startswith("ant") for answer in answers_shown(text))
        return "Ant. [[A]]" if first > second else "Ant again. [[B]]"

    with judging_server(for_ant) as server:
        options = JudgeOptions(model_args=server.arguments, prompt="pair")
        judge_runs("local-chat-completions", [ant, bee], options, store=str(store))
    with Store.open_to_read(str(store)) as opened:
        (judging,) = opened.audits()
    return ant, judging.run_id, store


def test_a_judging_is_of_the_judged_model(tmp_path: Path) -> None:
    """The record names the judged model and the judge; its rows are the judged answers with the judge's words."""
    ant, judging, store = conversation_and_judging(tmp_path)
    written = export_records(str(store), judging, tmp_path / "out", Publisher())
    (record,) = aggregates(written).values()
    assert record["model_info"]["id"] == "ant"
    win = next(each for each in record["evaluation_results"] if each["metric_config"]["metric_name"] == "win")
    with Store.open_to_read(str(store)) as opened:
        values = {each.metric: each.value for each in opened.estimates(judging)}
    assert win["score_details"]["score"] == values["win"]
    assert win["metric_config"]["llm_scoring"]["judges"][0]["model_info"]["name"] == "judge"
    rows = rows_of(written, "open_questions")
    assert len(rows) == 6
    assert {row["metadata"]["judge"] for row in rows} <= {"Ant. [[A]]", "Ant again. [[B]]"}
    assert all(row["messages"][-1]["content"].startswith("ant says:") for row in rows)
    assert [row["evaluation"]["num_turns"] for row in rows] == [1, 2] * 3
    with Store.open(str(store)) as opened:
        opened.remove(ant)
    assert (
        main(["export", judging, "--format", "every-eval-ever", "-o", str(tmp_path / "x"), "--store", str(store)]) == 2
    )


def test_an_application_says_how_long_it_took(tmp_path: Path) -> None:
    """Rows of a function have its answers and latencies; its scores are the application's own."""
    rows = [{"inputs": text, "expected": text.upper()} for text in ("a", "b", "c")]
    run = assaymark.evaluate(lambda text: text.upper(), rows, scorers="exact", store=str(tmp_path / "s.sqlite"))
    written = exported(run, tmp_path)
    (name,) = aggregates(written)
    shown = rows_of(written, name)
    assert [row["output"]["raw"] for row in shown if row["evaluation_result_id"].endswith("exact")] == [
        ["A"],
        ["B"],
        ["C"],
    ]
    assert all(row["performance"]["latency_ms"] >= 0 for row in shown)


def test_rows_of_sealed_tasks_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --with_sealed a sealed task has its values and no row, prompt or hash of its rows."""
    monkeypatch.chdir(tmp_path)  # where the commitment is written
    store = str(tmp_path / "s.sqlite")
    run = assaymark.evaluate("fake", ["demo_who"], limit=5, store=store)
    (text,) = {sample.sample_sha256 for sample in [run.samples("demo_who")[0].request]}
    assert main(["task", "seal", "demo_who", "--store", store]) == 0
    words = ["export", run.id, "--format", "every-eval-ever", "--store", store]
    assert main([*words, "-o", str(tmp_path / "open")]) == 0
    assert main([*words, "-o", str(tmp_path / "all"), "--with_sealed"]) == 0
    (file,) = (path for path in (tmp_path / "open").rglob("*") if path.is_file())
    assert text not in file.read_text()
    assert run.row.plan.tasks[0].dataset_hash not in file.read_text()
    assert len([path for path in (tmp_path / "all").rglob("*") if path.is_file()]) == 2
    capsys.readouterr()


def test_who_publishes_is_written_and_asked_for_here_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A developer that publishes its own model names it; without one that is said; other formats refuse the options."""
    store = str(tmp_path / "s.sqlite")
    run = assaymark.evaluate("fake", ["demo_who"], limit=3, store=store)
    words = ["export", run.id, "--store", store, "-o"]
    own = ["--format", "every-eval-ever", "--organization", "Acme", "--relationship", "first_party"]
    assert main([*words, str(tmp_path / "own"), *own]) == 0
    assert (tmp_path / "own" / "data" / "demo_who" / "Acme" / "fake-random-0").is_dir()
    assert main([*words, str(tmp_path / "unknown"), "--format", "every-eval-ever"]) == 0
    assert "name the model as the data store has it with --model_id" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "run.csv"), "--model_id", "a/b"]) == 2
    assert main([*words, str(tmp_path / "azure"), *own, "--model_id", "openai/azure/gpt-4o"]) == 0
    assert (tmp_path / "azure" / "data" / "demo_who" / "openai" / "azure_gpt-4o").is_dir()
    for wrong in ("gpt-4o", "../x", "/models/x", "a//b"):
        assert main([*words, str(tmp_path / "x"), *own, "--model_id", wrong]) == 2
    assert main([*words, str(tmp_path / "x"), *own, "--wrong"]) == 2
    assert "error: --wrong writes samples" in capsys.readouterr().err


def test_a_run_without_scores_has_no_record(tmp_path: Path) -> None:
    """Answers that nothing scored are no result; the line says what to do."""
    run = answered_run("ant", questions_task(tmp_path), tmp_path / "s.sqlite", limit=2)
    with pytest.raises(UsageError, match=r"has no value that a record could hold .* export the judging"):
        export_records(str(tmp_path / "s.sqlite"), run, tmp_path / "out", WHO)


@pytest.mark.parametrize(
    ("name", "place"),
    [("a/b:c", "a_b_c"), ("data", "_data"), ("../../etc", ".._.._etc"), ("CON", "_CON"), ("..", "_"), ("x. ", "x")],
)
def test_folders_are_names_that_every_system_has(name: str, place: str) -> None:
    """No name of a task or a model leaves the folder, or is one that Windows reserves."""
    assert folder_name(name) == place


# ------------------------------------------------------------------------------------------ what its package says


_HERE_ONLY = (
    "task_hash",  # of the code that compares, too
    *("seconds", "python", "platform", "processor", "n_tokens", "run_id", "checksum", "latency_ms"),
    *("version", "assaymark_version"),
)
"""Keys whose values differ between machines, calls and versions."""
_NUMBER = r'"(score|value|lower|upper)": [-\d.e]+'


def portable(files: Mapping[str, str], run: Run) -> dict[str, str]:
    """Return files without what differs between machines and calls: times, versions, ids, last digits."""
    row = run.row
    ids = dict.fromkeys(match for path in files for match in re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", path))
    fixed = {name: f"00000000-0000-4000-8000-{at:012d}" for at, name in enumerate(ids)}

    def changed(text: str) -> str:
        text = text.replace(f"{ROOT}/", "")
        for name, other in fixed.items():
            text = text.replace(name, other)
        text = re.sub(r"\b1[789]\d{8}(\.\d+)?\b", "1750000000", text)
        text = re.sub(rf'"({"|".join(_HERE_ONLY)})": ("[^"]*"|[\d.e-]+)', _as_zero, text)
        timed = r'"metric_name": "latency_s".*?"generation_config"|"rows/latency_s".*?"is_correct"'
        text = re.sub(timed, lambda match: re.sub(_NUMBER, r'"\1": 0.0', match[0]), text, flags=re.DOTALL)
        text = re.sub(r"127\.0\.0\.1:\d+", "server", text.replace(row.run_id, "run"))
        return re.sub(r"-?\d+\.\d{13,}(e-?\d+)?", lambda match: f"{float(match[0]):.10g}", text)

    return {changed(path): changed(text) for path, text in files.items()}


def _as_zero(match: re.Match[str]) -> str:
    return f'"{match[1]}": ' + ('"0"' if match[2].startswith('"') else "0")


def texts_of(folder: Path) -> dict[str, str]:
    """Return the files of a folder by their path in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def of_demo(folder: Path) -> Run:
    """Return a run of a group and of tasks of every kind."""
    return assaymark.evaluate("fake", DEMO, limit=4, store=str(folder / "s.sqlite"))


def of_suite(folder: Path) -> Run:
    """Return a run of a suite."""
    return assaymark.evaluate(FakeModel(), suite="board", include_path=[suite_folder(folder)])


def of_application(folder: Path) -> Run:
    """Return a run of a function, with texts that have a separator of lines and half a surrogate pair."""
    rows = [{"inputs": text, "expected": text.upper()} for text in ("a", "b\u2028c", "half \ud800")]
    return assaymark.evaluate(lambda text: text.upper(), rows, scorers="exact", store=str(folder / "s.sqlite"))


def of_judging(folder: Path) -> Run:
    """Return a judging of conversations of two turns."""
    _, judging, store = conversation_and_judging(folder)
    return Run(Store.open(str(store)), judging)


@needs_oracle("every_eval_ever")
@pytest.mark.parametrize("make", [of_demo, of_suite, of_application, of_judging])
def test_the_packages_validator_finds_nothing(make: Callable[[Path], Run], tmp_path: Path) -> None:
    """Neither an error nor a warning, for aggregates and samples of every kind of run."""
    run = make(tmp_path)
    exported(run, tmp_path / "out")
    files = portable(texts_of(tmp_path / "out"), run)
    answer = oracle("every_eval_ever", {"files": files})
    assert answer["validated"] == {path: [] for path in files}


DIFFERENCES = {
    "evaluation_id": "ends with the time of the run, theirs with that of the conversion",
    "retrieved_timestamp": "of the run's end, theirs of the conversion",
    "evaluation_result_id": "names the task too, since a record may hold several",
    "evaluation_description": "the formula, theirs the metric's name",
    "min_score": "of a perplexity: 0 here, 1 there",
    "name": "of the model without its developer; of the library, the source and the engine: ours",
    "version": "of the library: ours",
    "source_name": "ours",
    "source_organization_name": "as given",
    "evaluator_relationship": "as given",
    "dtype": "without `torch.`",
    "deployment_type": "known here",
    "checksum": "of another file, as its path",
    "file_path": "see there",
    "total_rows": "samples of a corpus metric have no row here, and one without a result there",
    "raw": "of an answer the whole text, theirs what the filter left of it",
    "extracted_value": "what the filter found, theirs the whole text where there is no filter",
}


def differing(mine: Any, theirs: Any, key: str = "") -> set[str]:
    """Return the keys under which two values differ; a key that only one of them has is no difference."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return {name for each in mine.keys() & theirs.keys() for name in differing(mine[each], theirs[each], each)}
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        return {name for one, other in zip(mine, theirs, strict=True) for name in differing(one, other, key)}
    return set() if mine == theirs or theirs is None else {key}


@needs_oracle("every_eval_ever")
def test_its_converter_says_the_same_of_our_lm_eval_files(demo: Run, tmp_path: Path) -> None:
    """In each field that both have: values, errors, n, directions, bounds, data, rows and their hashes are equal."""
    exported(demo, tmp_path / "out")
    demo.write_lm_eval_files(tmp_path / "logs", log_samples=True)
    logs = {f"logs/{path}": text for path, text in portable(texts_of(tmp_path / "logs"), demo).items()}
    for path in [path for path in logs if "/results_" in path]:
        results = json.loads(logs[path])
        kept = ("results", "configs", "n-samples", "higher_is_better", "model_name", "date")
        config = {**results["config"], "model": "hf", "model_args": {"pretrained": WHO.model_id}}
        known = {name: results[name] for name in kept}
        logs[path] = json.dumps({**known, "config": config, "lm_eval_version": "0.4.13"})
    logs = {re.sub(r"20\d\d-[\dT-]+\.\d+", "2026-01-01", path): text for path, text in logs.items()}
    theirs = oracle("every_eval_ever", {"lm_eval": logs})["converted"]
    mine = portable(texts_of(tmp_path / "out"), demo)
    found: set[str] = set()
    for name in ("demo_sums", "demo_stories", "demo_truth"):
        own = json.loads(next(text for path, text in mine.items() if f"/{name}/" in path and path.endswith(".json")))
        record = json.loads(theirs[f"{name}/record.json"])
        found |= differing(own, record)
        assert [each["score_details"]["score"] for each in own["evaluation_results"]] == [
            each["score_details"]["score"] for each in record["evaluation_results"]
        ]
    for name in ("demo_sums", "demo_truth"):
        rows, others = (
            {(row["sample_id"], row["evaluation_result_id"].rpartition("/")[2]): row for row in map(json.loads, lines)}
            for lines in (
                next(text for path, text in mine.items() if f"/{name}/" in path and path.endswith("l")).splitlines(),
                theirs[f"{name}/samples.jsonl"].splitlines(),
            )
        )
        assert rows.keys() == others.keys()
        for key, row in rows.items():
            assert row["sample_hash"] == others[key]["sample_hash"]
            found |= differing(row, others[key])
    assert found <= DIFFERENCES.keys(), found - DIFFERENCES.keys()
