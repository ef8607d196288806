"""Requests, results and details of the Open LLM Leaderboard: written of a board, read again, and as it wrote them."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.request_files import RequestFile, read_requests, write_request
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.site import Site

PUBLISHED = {  # as the old boards' documentation has it
    "model": "org/Name", "base_model": "", "revision": "a1b2", "private": False, "precision": "bfloat16",
    "params": 7.242, "architectures": "MistralForCausalLM", "weight_type": "Original", "status": "FINISHED",
    "submitted_time": "2024-02-01T10:11:12Z", "model_type": "🔶 : fine-tuned on domain-specific datasets",
    "job_id": -1, "job_start_time": None, "use_chat_template": True,
}  # fmt: skip


def rows(board: Path) -> dict[str, BoardRow]:
    """Return the rows of a board that are no baselines, by model."""
    result = read_board(board)
    return {row.model: row for row in Site([result]).table(result).rows if row.origin != "baseline"}


def test_what_a_board_writes_another_one_reads(
    tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same values and facts from the three folders alone; the samples are those that lm-eval would have logged."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        words = ["--model", "fake", "--model_args", f"seed={seed}", "--tasks", "demo_who,demo_facts"]
        assert main(["run", *words, "--limit", "30", "--store", "s.sqlite"]) == 0
    models = "models: {fake-random-1: {type: merge, licence: mit, params: 7.5, base: org/base, precision: bf16}}\n"
    (tmp_path / "own.yaml").write_text(f"title: Own\ntasks: [demo_who, demo_facts]\n{models}")
    assert main(["board", "datasets", "own.yaml", "-o", "out", "--store", "s.sqlite"]) == 0
    (tmp_path / "moved.yaml").write_text(
        "title: Own\ntasks: [demo_who, demo_facts]\nresults: out/results\nrequests: out/requests\n"
    )
    moved = rows(tmp_path / "moved.yaml")
    assert set(moved) == {"fake-random-1", "fake-random-2"}
    capsys.readouterr()
    assert main(["board", "query", "own.yaml", "--store", "s.sqlite", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        if row["origin"] == "baseline":
            continue
        same = moved[row["model"]]
        assert {key: cell.number.value for key, cell in same.cells.items()} == {
            key: pytest.approx(cell["value"], abs=1e-9) for key, cell in row["scores"].items()
        }
    facts = moved["fake-random-1"].facts
    assert (facts["type"], facts["licence"], facts["params"], facts["base"]) == ("merge", "mit", 7.5, "org/base")
    assert moved["fake-random-2"].facts["type"] == "unknown"
    lines = [path.read_text().splitlines() for path in sorted(tmp_path.glob("out/details/*1-details/*.jsonl"))]
    assert [len(some) for some in lines] == [30, 30]
    assert not list(tmp_path.glob("out/results/**/*.jsonl"))


def test_a_published_request_is_read_and_written(tmp_path: Path) -> None:
    """Every field that a row shows, and the same file again."""
    path = tmp_path / "requests" / "org" / "Name_eval_request_False_bfloat16_Original.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(PUBLISHED))
    ((request,),) = read_requests([tmp_path / "requests"]).values()
    assert request == RequestFile(
        "org/Name", "a1b2", "", "bfloat16", "original", "finetuned", 7.242, "MistralForCausalLM", "", "FINISHED",
        "2024-02-01T10:11:12Z", has_chat_template=True,
    )  # fmt: skip
    again = write_request(tmp_path / "again", request, "org/Name")
    assert again.name == path.name
    written = json.loads(again.read_text())
    assert {key: written[key] for key in PUBLISHED if key != "model_type"} == {
        key: value for key, value in PUBLISHED.items() if key != "model_type"
    }
    assert read_requests([tmp_path / "again"]) == read_requests([tmp_path / "requests"])


@pytest.mark.parametrize(("status", "is_shown"), [("FINISHED", True), ("PENDING_NEW_EVAL", True), ("FAILED", False)])
def test_rows_of_unfinished_requests_are_not_shown(tmp_path: Path, status: str, is_shown: bool) -> None:
    """As on the old boards; a results file without a request stays."""
    for model in ("org__Name", "org__Other"):
        (tmp_path / "results" / model).mkdir(parents=True)
        content = {
            "results": {"demo_who": {"alias": "demo_who", "acc,none": 0.5, "acc_stderr,none": 0.1}},
            "configs": {"demo_who": {"task": "demo_who"}}, "versions": {"demo_who": 1}, "n-shot": {"demo_who": 0},
            "n-samples": {"demo_who": {"original": 30, "effective": 30}}, "config": {"model": "hf"},
            "higher_is_better": {"demo_who": {"acc": True}}, "model_name": model.replace("__", "/"), "date": 1.7e9,
        }  # fmt: skip
        (tmp_path / "results" / model / "results_2024-02-01T10-11-12.json").write_text(json.dumps(content))
    request = RequestFile("org/Name", precision="bfloat16", type="chat", status=status)
    write_request(tmp_path / "requests", request, "org/Name")
    (tmp_path / "b.yaml").write_text("title: B\ntasks: [demo_who]\nresults: results\nrequests: requests\n")
    result = rows(tmp_path / "b.yaml")
    assert ("org/Name" in result) is is_shown
    assert "org/Other" in result
    if is_shown:
        assert result["org/Name"].facts["type"] == "chat"


@pytest.mark.parametrize("content", ["{", "[]", '{"model": 5}', "[" * 50_000])
def test_what_is_no_request_is_named(tmp_path: Path, content: str) -> None:
    """With the file's name, and what was expected."""
    path = tmp_path / "x_eval_request_False_float16_Original.json"
    path.write_text(content)
    with pytest.raises(DataError, match="x_eval_request"):
        read_requests([tmp_path])
