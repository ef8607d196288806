"""Traces that become rows: what a row has, that each question is there once, and that `run --target` reads the file."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.feedback_log import FeedbackLog
from assaymark.applications.rows import read_rows
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.cli.main import main
from tests.applications.live.live_traces import Live, conversation, trace_id
from tests.applications.live.serving_live import serving_live
from tests.applications.live.test_annotation import form_token, reading
from tests.applications.traces.sending import span


def correct(live: Live, number: int, correction: str, observed: int = 1) -> None:
    """Store a correction, as feedback does."""
    trace = bytes.fromhex(trace_id(number))
    digest = f"{number:08d}{observed:08d}".encode()
    result = (trace, None, None, "thumbs", 0.0, None, None, None, observed, "feedback")
    score = TraceScore(digest, *result, correction=correction)
    FeedbackLog(live.store).put(live.project, [score], [])


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_row_has_what_the_trace_says(live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs by name, the latest correction as what is expected, documents, the trace's id and version, and tags."""
    live.ask(1, documents=("Rome is old.",), more={"tag.tags": ["city", "easy"]})
    correct(live, 1, "Rome", 1)
    correct(live, 1, '{"answer": "the capital of Italy"}', 2)
    live.ask(2, "What is Oslo?", "Oslo.")
    path = tmp_path / "rows.jsonl"
    at = ["-o", str(path), "--store", live.place]
    assert main(["traces", "to-rows", "--filter", "version=1.2", *at]) == 0
    assert "1 without an expected value" in capsys.readouterr().out
    assert sorted(lines_of(path), key=lambda row: str(row["id"])) == [
        {
            "id": trace_id(1),
            "inputs": {"question": "What is Rome?"},
            "expected": {"answer": "the capital of Italy"},
            "contexts": ["Rome is old."],
            "metadata": {"trace_id": trace_id(1), "version": "1.2"},
            "tags": ["city", "easy"],
        },
        {
            "id": trace_id(2),
            "inputs": {"question": "What is Oslo?"},
            "metadata": {"trace_id": trace_id(2), "version": "1.2"},
        },
    ]
    assert main(["traces", "to-rows", trace_id(2), *at]) == 2
    assert "add --append" in capsys.readouterr().err
    path.unlink()
    assert main(["traces", "to-rows", trace_id(2), "--accept_output", *at]) == 0
    assert [row["expected"] for row in lines_of(path)] == ["Oslo."]


def test_a_correction_of_something_else_is_not_expected(live: Live, tmp_path: Path) -> None:
    """What a search or another turn of the session should have said is not what this trace should have answered."""
    live.ask(1, documents=("Rome is old.",), more={"session.id": "s1"})
    trace = bytes.fromhex(trace_id(1))
    correct(live, 1, "Rome")
    places: list[dict[str, Any]] = [
        {"session": "s1"}, {"trace_id": trace, "span_id": bytes.fromhex(f"{2:016x}")},
    ]  # fmt: skip
    scores = [
        TraceScore(bytes([at] * 16), name="thumbs", observed=10 + at, source="feedback", correction="else", **place)
        for at, place in enumerate(places)
    ]
    FeedbackLog(live.store).put(live.project, scores, [])
    path = tmp_path / "rows.jsonl"
    assert main(["traces", "to-rows", "--filter", "", "-o", str(path), "--store", live.place]) == 0
    assert [row["expected"] for row in lines_of(path)] == ["Rome"]
    root = TraceScore(bytes([9] * 16), trace, bytes.fromhex(f"{1:016x}"), observed=20, correction="the capital")
    FeedbackLog(live.store).put(live.project, [root], [])
    path.unlink()
    assert main(["traces", "to-rows", "--filter", "", "-o", str(path), "--store", live.place]) == 0
    assert [row["expected"] for row in lines_of(path)] == ["the capital"]


def test_a_question_is_there_once(live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of traces with the same inputs the first is the row, the others are named; rows of the file count too."""
    for number in (1, 2, 3):
        live.ask(number, answer=f"answer {number}")
    live.ask(4, "What is Oslo?")
    live.send(span(1, trace=trace_id(5), name="nothing"))
    path = tmp_path / "rows.jsonl"
    at = ["-o", str(path), "--store", live.place, "--json", "--accept_output"]
    assert main(["traces", "to-rows", trace_id(2), trace_id(3), trace_id(5), *at]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["rows"], output["same"]) == (1, [{"trace_id": trace_id(3), "as": trace_id(2)}])
    assert [each["trace_id"] for each in output["without_inputs"]] == [trace_id(5)]
    assert main(["traces", "to-rows", "--filter", "", "--append", *at]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    assert [row["inputs"]["question"] for row in lines_of(path)] == ["What is Rome?", "What is Oslo?"]
    assert len(read_rows(path)) == 2


def test_run_reads_the_file_unchanged(live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`assaymark run --target` evaluates an application on its own traces, with corrections as what is expected."""
    live.ask(1, answer="wrong")
    correct(live, 1, "the capital of Italy")
    live.ask(2, "What is Oslo?", "the capital of Norway")
    rows, app = tmp_path / "rows.jsonl", tmp_path / "app.py"
    app.write_text("def answer(question):\n    return 'the capital of Italy' if 'Rome' in question else 'no'\n")
    assert main(["traces", "to-rows", "--filter", "", "--accept_output", "-o", str(rows), "--store", live.place]) == 0
    capsys.readouterr()
    run = ["run", "--target", f"{app}:answer", "--tasks", str(rows), "--scorers", "exact", "--json", "--quiet"]
    assert main([*run, "--store", str(tmp_path / "runs.sqlite")]) == 0
    assert re.search(r'"value": 0.5', capsys.readouterr().out)


def test_the_button(tmp_path: Path) -> None:
    """The page's form adds the trace to a data set once, with the correction; its file has the rows."""
    with serving_live(tmp_path / "live.sqlite") as served:
        served.send(*conversation(1))
        served.send(*conversation(2))
        with reading(served) as client:
            page = client.get(f"/trace/{trace_id(1)}")
            data = {"token": form_token(page), "dataset": "regressions", "correction": "Italy's capital"}
            page = client.post(f"/trace/{trace_id(1)}/row", data=data)
            assert "It is a row of regressions now." in page.text
            page = client.post(f"/trace/{trace_id(2)}/row", data={**data, "correction": ""})
            assert f"a row with the same inputs already, from trace {trace_id(1)[:8]}" in page.text
            rows = client.get("/traces/dataset/regressions.jsonl")
            (row,) = [json.loads(line) for line in rows.text.splitlines()]
            assert (row["inputs"], row["expected"]) == ({"question": "What is Rome?"}, "Italy's capital")
            assert client.get("/traces/dataset/no.jsonl").status_code == 404
            for changed in ({"dataset": ""}, {"dataset": "x" * 129}, {"correction": "x" * 20_001}):
                assert client.post(f"/trace/{trace_id(1)}/row", data={**data, **changed}).status_code == 400
            assert client.post(f"/trace/{trace_id(1)}/row", data={**data, "token": ""}).status_code == 403
            assert client.post(f"/trace/{trace_id(8)}/row", data=data).status_code == 404
        other = TraceLog(served.store).add_project("other")
        headers = {"authorization": f"Bearer {other}"}
        assert httpx.post(f"{served.url}/trace/{trace_id(1)}/row", data=data, headers=headers).status_code == 404
        assert httpx.get(f"{served.url}/traces/dataset/regressions.jsonl", headers=headers).status_code == 404
        TraceLog(served.store).prune(served.project, most_bytes=0)
        assert len(DatasetLog(served.store).rows(served.project, "regressions")) == 1
        out = tmp_path / "rows.jsonl"
        assert main(["traces", "to-rows", "--dataset", "regressions", "-o", str(out), "--project", "bot",
                     "--store", str(served.store.url)]) == 0  # fmt: skip
        assert len(read_rows(out)) == 1


def test_traces_are_chosen_in_the_list(tmp_path: Path) -> None:
    """Several go to a queue, or become rows at once; what cannot be a row adds none; nothing chosen is said."""
    with serving_live(tmp_path / "live.sqlite") as served:
        served.send(*conversation(1))
        served.send(*conversation(2, "What is Oslo?", "Oslo."))
        AnnotationLog(served.store).add_queue(served.project, "review", "thumbs", 1)
        with reading(served) as client:
            page = client.get("/traces?sort=took")
            assert page.text.count('type="checkbox" name="trace"') == 2
            chosen = {"token": form_token(page), "trace": [trace_id(1), trace_id(2)], "back": "/traces?sort=took"}
            page = client.post("/traces/chosen", data={**chosen, "to": "queue", "queue": "review"})
            assert "2 of the chosen traces are new in review." in page.text
            assert "sort=took" in str(page.url)
            assert AnnotationLog(served.store).queue(served.project, "review").n_items == 2
            made = {**chosen, "to": "dataset", "dataset": "d", "accept_output": "yes"}
            assert "2 of the chosen traces are new in d." in client.post("/traces/chosen", data=made).text
            assert "0 of the chosen traces are new in d." in client.post("/traces/chosen", data=made).text
            expected = [
                json.loads(line)["expected"] for line in client.get("/traces/dataset/d.jsonl").text.splitlines()
            ]
            assert sorted(expected) == ["Oslo.", "Rome, thank you."]
            for changed, status in (({"trace": []}, 400), ({"dataset": ""}, 400), ({"trace": [trace_id(8)]}, 404),
                                    ({"to": "queue", "queue": "no"}, 404), ({"token": ""}, 403)):  # fmt: skip
                assert client.post("/traces/chosen", data={**made, **changed}).status_code == status, changed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "nothing says which traces"),
        (["--dataset", "no"], "unknown data set 'no'"),
        (["--filter", "colour=red"], "unknown word"),
        ([trace_id(77)], "unknown trace"),
    ],
)
def test_mistakes(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    """Each is one line, and writes no file."""
    live.ask(1)
    path = tmp_path / "rows.jsonl"
    assert main(["traces", "to-rows", *arguments, "-o", str(path), "--store", live.place]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("rows.csv", b"question,expected\na,b\n", "ends with .jsonl"),
        ("rows.json", b'[{"question": "a"}]', "ends with .jsonl"),
        ("rows.jsonl", '{"question": "café"}\n'.encode("latin-1"), "cannot read"),
    ],
)
def test_a_file_that_rows_would_spoil_is_left_as_it_is(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, problem: str
) -> None:
    """JSON lines at the end of a table, of a list, or after what cannot be read, could be read by nobody."""
    live.ask(1)
    path = tmp_path / name
    path.write_bytes(content)
    words = ["traces", "to-rows", "--filter", "", "--append", "-o", str(path), "--store", live.place]
    assert main(words) in {2, 3}
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert path.read_bytes() == content


def test_verify_finds_a_damaged_row(live: Live) -> None:
    """A row whose stored bytes changed is named by `assaymark verify`."""
    trace = bytes.fromhex(trace_id(1))
    assert DatasetLog(live.store).add(live.project, "d", trace, {"inputs": {"question": "a"}}) is None
    assert live.store.verify() == []
    with live.store._database.writing() as connection:
        connection.execute(text("UPDATE trace_dataset_rows SET content = :content"), {"content": b"\x00{}"})
    (problem,) = live.store.verify()
    assert (problem.table, "data set 'd'" in str(problem)) == ("trace_dataset_rows", True)
