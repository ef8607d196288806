"""Data sets as other tools export them become the same rows, without the tools' own bookkeeping."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import assaymark
from assaymark.applications.rows import Row, read_rows, rows_hash
from assaymark.errors import DataError, UsageError

TIME = "2026-11-01T09:00:00Z"
LANGSMITH = {
    "id": "e1", "dataset_id": "d", "inputs": {"question": "2+2?"}, "outputs": {"answer": "4"}, "source_run_id": None,
    "metadata": {"topic": "sums", "dataset_split": ["base"]}, "created_at": TIME, "modified_at": TIME,
    "name": "#1", "attachments": None,
}  # fmt: skip
BRAINTRUST = {
    "id": "e1", "_xact_id": "1000", "_pagination_key": "p", "created": TIME, "dataset_id": "d", "project_id": "p",
    "span_id": "s", "root_span_id": "r", "is_root": True, "origin": None, "input": {"question": "2+2?"},
    "expected": {"answer": "4"}, "metadata": {"topic": "sums"}, "tags": ["easy"],
}  # fmt: skip
PHOENIX = {"id": "e1", "node_id": "n", "input": {"question": "2+2?"}, "output": {"answer": "4"},
           "metadata": {"topic": "sums"}, "updated_at": TIME}  # fmt: skip
MLFLOW: dict[str, Any] = {
    "dataset_record_id": "e1", "dataset_id": "d", "inputs": {"question": "2+2?"}, "expectations": {"answer": "4"},
    "outputs": None, "tags": {}, "source_type": "HUMAN", "source_id": "s", "source": {"human": {}}, "created_time": 1,
    "last_update_time": 2, "created_by": "a", "last_updated_by": "b", "metadata": {"topic": "sums"},
}  # fmt: skip
LANGFUSE = {
    "id": "e1", "status": "ACTIVE", "input": {"question": "2+2?"}, "expectedOutput": {"answer": "4"},
    "metadata": {"topic": "sums"}, "sourceTraceId": None, "sourceObservationId": None, "datasetId": "d",
    "datasetName": "n", "createdAt": TIME, "updatedAt": TIME,
}  # fmt: skip
HONEYHIVE = {
    "id": "e1", "inputs": {"question": "2+2?"}, "history": [], "ground_truth": {"answer": "4"}, "linked_event": None,
    "linked_datasets": ["d"], "metadata": {"topic": "sums"}, "created_at": TIME, "updated_at": TIME,
}  # fmt: skip


def write(path: Path, content: Any) -> Path:
    """Write a value as JSON."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("record", "around"),
    [
        (LANGSMITH, None), (BRAINTRUST, None), (PHOENIX, "examples"), (MLFLOW, None), (LANGFUSE, "data"),
        (HONEYHIVE, "datapoints"),
    ],
    ids=["LangSmith", "Braintrust", "Phoenix", "MLflow", "Langfuse", "HoneyHive"],
)  # fmt: skip
def test_an_export_is_the_row_without_bookkeeping(tmp_path: Path, record: dict[str, Any], around: str | None) -> None:
    """Ids of data sets and times of changes are no part of a row, so a second export is the same data set."""
    content: Any = [record] if around is None else {around: [record], "meta": {"page": 1}}
    if record is PHOENIX:
        content = {"data": {"dataset_id": "d", "version_id": "v", **content}}
    (row,) = read_rows(write(tmp_path / "rows.json", content))
    assert (row.id, row.inputs, row.expected) == ("e1", {"question": "2+2?"}, {"answer": "4"})
    assert row.metadata == {"topic": "sums"}
    assert row.split == ("base" if record is LANGSMITH else None)
    assert row.tags == (("easy",) if record is BRAINTRUST else ())
    lines = tmp_path / "rows.jsonl"
    lines.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert rows_hash(read_rows(lines)) == rows_hash([row])


def test_phoenixs_table(tmp_path: Path) -> None:
    """Columns with prefixes are the entries of mappings; a table with any other column is read as it is."""
    path = tmp_path / "rows.csv"
    path.write_text("example_id,input_question,output_answer,metadata_topic\ne1,2+2?,4,sums\ne2,3+3?,6,\n", "utf-8")
    assert read_rows(path) == [
        Row("e1", {"question": "2+2?"}, {"answer": "4"}, metadata={"topic": "sums"}),
        Row("e2", {"question": "3+3?"}, {"answer": "6"}),
    ]
    path.write_text("input_language,output_language,text\nde,en,Hallo\n", encoding="utf-8")
    assert read_rows(path)[0].inputs == {"input_language": "de", "output_language": "en", "text": "Hallo"}


def test_archived_items_of_langfuse_are_left_out(tmp_path: Path) -> None:
    """As in Langfuse's own experiments; a data set of nothing else is refused."""
    archived = {**LANGFUSE, "id": "e2", "status": "ARCHIVED"}
    assert [row.id for row in read_rows([archived, LANGFUSE])] == ["e1"]
    with pytest.raises(DataError, match="all of its 1 rows are archived"):
        read_rows(write(tmp_path / "rows.json", [archived]))


def test_answers_in_mlflows_records_are_not_the_reference() -> None:
    """`outputs` is what the application answered once, beside expectations or without them."""
    (row,) = read_rows([{**MLFLOW, "outputs": "five", "expectations": None}])
    assert (row.expected, row.metadata) == (None, {"topic": "sums", "outputs": "five"})


def test_honeyhives_history_is_kept() -> None:
    """The turns before a datapoint are metadata."""
    turns = [{"role": "user", "content": "hi"}]
    assert read_rows([{**HONEYHIVE, "history": turns}])[0].metadata == {"topic": "sums", "history": turns}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**LANGSMITH, "attachments": {"image": {"presigned_url": "https://x"}}}, "has attachments"),
        ({**BRAINTRUST, "input": {"file": {"type": "braintrust_attachment", "filename": "a.pdf", "key": "k"}}},
         r"attachment 'a\.pdf', which Braintrust keeps; expected its content"),
        ({**LANGFUSE, "input": ["@@@langfuseMedia:type=image/png|id=1|source=bytes@@@"]}, "a media file"),
        ({"vars": {"document": "file://a.txt"}}, r"variable document is in a file, file://a\.txt"),
        ({"vars": {"a": list(range(200)), "b": list(range(200))}}, "more than 10,000 combinations"),
    ],
)  # fmt: skip
def test_what_only_the_tool_has_is_refused(record: dict[str, Any], message: str) -> None:
    """An attachment is not silently a row without it."""
    with pytest.raises(DataError, match=message):
        read_rows([record])


def test_promptfoos_configuration(tmp_path: Path) -> None:
    """`defaultTest` is merged into each test, and lists of variables become a test for each combination."""
    path = tmp_path / "promptfooconfig.yaml"
    document = {
        "prompts": ["Translate {{text}} to {{language}}"],
        "providers": ["openai:gpt-4"],
        "defaultTest": {"vars": {"tone": "plain"}, "metadata": {"suite": "s"}},
        "tests": [
            {"vars": {"text": "Hello", "language": ["de", "fr"]}, "metadata": {"n": 1}},
            {"vars": {"text": ["a", "b"]}, "options": {"disableVarExpansion": True}},
        ],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    rows = read_rows(path)
    assert [row.inputs for row in rows] == [
        {"tone": "plain", "text": "Hello", "language": "de"},
        {"tone": "plain", "text": "Hello", "language": "fr"},
        {"tone": "plain", "text": ["a", "b"]},
    ]
    assert [row.id for row in rows] == ["0", "1", "2"]
    assert rows[0].metadata["suite"] == "s"
    for key, value, message in (
        ("tests", "file://tests.csv", "its tests are in another file, file://tests.csv; name that file as the rows"),
        ("scenarios", [{"config": []}], "`scenarios` are not read"),
        ("defaultTest", "file://default.yaml", "defaultTest is 'file://default.yaml'"),
    ):
        path.write_text(yaml.safe_dump({**document, key: value}), encoding="utf-8")
        with pytest.raises(DataError, match=message):
            read_rows(path)


# functions as the documentation of each tool writes them, with its own names of parameters


def langsmith_evaluator(run: Any, example: Any) -> dict[str, Any]:
    """Compare a run with its example."""
    return {"key": "langsmith", "score": run.outputs["answer"] == example.outputs["answer"]}


def langsmith_by_name(inputs: Any, outputs: Any, reference_outputs: Any) -> bool:
    """Compare by names."""
    return bool(inputs["question"]) and outputs["answer"] == reference_outputs["answer"]


def braintrust_scorer(input: Any, output: Any, expected: Any, metadata: Any, **_: Any) -> float:  # noqa: A002
    """Compare output and expected."""
    return float(output == expected and metadata["topic"] == "sums")


def phoenix_evaluator(output: Any, expected: Any, reference: Any, example: Any) -> tuple[float, str]:
    """Return score and label."""
    return float(output == expected == reference == example.output), "same"


def mlflow_scorer(*, inputs: Any, outputs: Any, expectations: Any) -> str:
    """Return a category."""
    return "yes" if inputs and outputs["answer"] == expectations["answer"] else "no"


def langfuse_evaluator(*, input: Any, output: Any, expected_output: Any, metadata: Any, **_: Any) -> dict[str, Any]:  # noqa: A002
    """Return an evaluation."""
    return {"name": "langfuse", "value": float(bool(input) and output == expected_output), "comment": "compared"}


def honeyhive_evaluator(outputs: Any, inputs: Any, ground_truths: Any) -> dict[str, Any]:
    """Return a score."""
    return {"score": float(bool(inputs) and outputs == ground_truths), "explanation": "compared"}


def get_assert(output: Any, context: Any) -> dict[str, Any]:
    """Check as promptfoo's Python assertions do."""
    is_right = output["answer"] == context["vars"]["expected"]["answer"]
    return {"pass": is_right, "score": float(is_right), "reason": "compared"}


def right(inputs: dict[str, str]) -> dict[str, str]:
    """Answer the first question only."""
    return {"answer": "4" if inputs["question"] == "2+2?" else "7"}


@pytest.mark.slow
def test_functions_of_other_tools_score_an_export(tmp_path: Path) -> None:
    """Scorers written for eight tools give the same scores of one export, unchanged."""
    second = {**LANGSMITH, "id": "e2", "inputs": {"question": "3+3?"}, "outputs": {"answer": "6"}}
    rows = write(tmp_path / "sums.json", [LANGSMITH, second])
    scorers = [
        langsmith_evaluator, langsmith_by_name, braintrust_scorer, phoenix_evaluator, langfuse_evaluator,
        honeyhive_evaluator, get_assert, mlflow_scorer,
    ]  # fmt: skip
    run = assaymark.evaluate(right, rows, scorers=scorers)
    for name in ("langsmith", "langsmith_by_name", "braintrust_scorer", "phoenix_evaluator", "langfuse",
                 "honeyhive_evaluator", "get_assert"):  # fmt: skip
        assert run.estimate("sums", name).value == 0.5, name
    labels = [
        score.detail.get("label") if isinstance(score.detail, dict) else None
        for sample in run.samples("sums")
        for score in sample.scores
        if score.metric == "mlflow_scorer"
    ]
    assert sorted(map(str, labels)) == ["no", "yes"]


def test_a_parameter_that_no_tool_has_is_refused() -> None:
    """By its name, before the first call."""

    def scorer(outputs: Any, gold: Any) -> bool:
        return bool(outputs == gold)

    with pytest.raises(UsageError, match="nothing is called 'gold'"):
        assaymark.evaluate(right, [LANGSMITH], scorers=[scorer])
