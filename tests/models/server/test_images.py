"""Images go to a chat server as OpenAI's `image_url` parts, and its answers take the ordinary path."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")

import pyarrow as pa
from pyarrow import parquet

from assaymark.errors import PlanError
from assaymark.models.create import create_model
from assaymark.runs.evaluate import evaluate
from assaymark.runs.run import Run
from assaymark.store import Store
from tests.models.server.image_server import ImageServer, serving
from tests.pictures import digit, write_digits


def run_of(server: ImageServer, tasks: str, **options: Any) -> Run:
    """Return a run on the server."""
    args = {"model": "reader", "base_url": server.url, "max_retries": 1}
    return evaluate("local-chat-completions", [tasks], model_args=args, apply_chat_template=True, **options)


def open_rows(folder: Path, n: int = 4) -> str:
    """Return a file that asks for digits without options."""
    path = write_digits(folder, n)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{"question": row["question"], "image_1": row["image_1"], "answer": f"It is {row['id']}"} for row in rows]
    path.write_text("\n".join(map(json.dumps, kept)))
    return str(path)


def test_the_server_gets_openais_parts(tmp_path: Path) -> None:
    """Texts and images alternate as in the prompt; an image is a data URL of the file, to the byte."""
    with serving() as server:
        run = run_of(server, open_rows(tmp_path))
    assert [(e.metric, e.value, e.n) for e in run.estimates] == [("exact_match", 1.0, 4)]
    body = next(body for body in server.bodies if body["messages"][0]["content"][1]["image_url"]["url"].endswith(
        base64.b64encode(digit(2)).decode()))  # fmt: skip
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Question: Which digit is "},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{base64.b64encode(digit(2)).decode()}"},
                },
                {"type": "text", "text": "?\nAnswer:"},
            ],
        }
    ]


def test_mmmu_on_a_server(tmp_path: Path) -> None:
    """MMMU's subjects run on a chat server, options and short answers, and fold to their disciplines."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for n, subject in enumerate(("Art", "Music", "Design", "Art_Theory")):
        folder = tmp_path / "MMMU" / "MMMU" / subject
        folder.mkdir(parents=True)
        rows = [(i, "(multiple)" if i < 3 else "", "ABC"[i] if i < 3 else "3") for i in range(4)]
        columns: dict[str, Any] = {
            "id": pa.array([f"validation_{subject}_{i}" for i, _, _ in rows]),
            "question": pa.array(["Which digit is in <image 1>?"] * 4),
            "options": pa.array(["['0', '1', '2']" if kind else "[]" for _, kind, _ in rows]),
            "answer": pa.array([answer if i != n else "X" for i, _, answer in rows]),  # one wrong key in each
            "question_type": pa.array(["multiple-choice" if kind else "open" for _, kind, _ in rows]),
        }
        for number in range(1, 8):
            files = [{"bytes": digit(i), "path": "d.png"} if number == 1 else None for i, _, _ in rows]
            columns[f"image_{number}"] = pa.array(files, image)
        parquet.write_table(pa.table(columns), folder / "validation.parquet")
    with serving() as server:
        run = run_of(server, "mmmu_val_art_and_design", data_dir=str(tmp_path))
    by_task = {estimate.task: (estimate.value, estimate.n) for estimate in run.estimates}
    assert by_task["mmmu_val_art_and_design"] == (0.75, 16)
    assert by_task["mmmu_val_music"] == (0.75, 4)


def test_stored_and_not_sent_again(tmp_path: Path) -> None:
    """The same plan is the same run and sends nothing; another image in the same file is sent, alone."""
    place, tasks = str(tmp_path / "runs.sqlite"), open_rows(tmp_path)
    with serving() as server:
        first = run_of(server, tasks, store=place)
        assert run_of(server, tasks, store=place).id == first.id
        assert len(server.bodies) == 4
        requests = [record.request for record in Store.open(place).samples(first.id, "rows")]
        assert Store.open(place).unanswered(first.id, requests) == []
        (tmp_path / "digit_1.png").write_bytes(digit(8))
        changed = run_of(server, tasks, store=place)
    assert changed.id != first.id, "the image is part of the data set's hash"
    assert {e.value for e in changed.estimates} == {0.75}


def test_a_refused_image_is_a_failure(tmp_path: Path) -> None:
    """A server that takes no images fails each request with its words; no answer is wrong."""
    with serving() as server:
        server.refuses = True
        run = run_of(server, open_rows(tmp_path, 2))
    (estimate,) = run.estimates
    assert (estimate.value, estimate.n_failed) == (None, 2)
    assert all("does not support image_url" in (r.outputs[0].error or "") for r in run.samples("rows"))


def test_completions_refuse(tmp_path: Path) -> None:
    """An endpoint of plain texts takes no images, and the error names what does."""
    model = create_model("local-completions", {"model": "m", "base_url": "http://127.0.0.1:9/v1/completions",
                                               "tokenizer_backend": "none"})  # fmt: skip
    with pytest.raises(PlanError, match=r"takes text only.*local-chat-completions"):
        evaluate(model, [open_rows(tmp_path)])
