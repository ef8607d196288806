"""Rows with images become requests with images: in their places, hashed, refused where they cannot be used."""

import base64
import io
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")

from PIL import Image

from assaymark.audit.auditing import audit_contamination, audit_prompts
from assaymark.cli.main import main
from assaymark.documents.document import document
from assaymark.documents.terminal import as_text
from assaymark.errors import DataError, HashMismatch, MalformedSample, PlanError
from assaymark.interop.export_tables import wrong_rows
from assaymark.records import ImagePart, Message, Request
from assaymark.results.views.samples import sample_example, sample_to_json
from assaymark.runs.evaluate import evaluate
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.store import Store
from assaymark.store.packing import pack_text, unpack_text
from assaymark.store.request_texts import join_request, split_request
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.own_rows import task_from_rows
from assaymark.tasks.python_tasks import bind
from tests.pictures import data_url, digit, write_digits

DEMO = Path(__file__).parents[2] / "src" / "assaymark" / "library" / "demo_models" / "small"


def bound(path: Path, **options: Any) -> BoundTask:
    """Return the task of a file of rows."""
    return bind(task_from_rows(path)[0], BindOptions(**options))


def parts(message: Message) -> list[str | bytes]:
    """Return texts and image files of a message."""
    return [part.data if isinstance(part, ImagePart) else str(getattr(part, "text", part)) for part in message.parts]


def test_numbered_places(tmp_path: Path) -> None:
    """`<image 2>` is column image_2, in a question or an option; without places images come first."""
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(digit(number))
    rows: list[dict[str, Any]] = [
        {"question": "<image 2> or <image 1>?", "image_1": "0.png", "image_2": "1.png", "options": ["x", "<image 2>"]},
        {"question": "Both?", "image_1": "1.png", "image_2": "2.png", "options": "['x', 'y']"},
        {"question": "One?", "image_1": None, "image_2": "2.png", "options": ["x", "y"]},
        {"question": "None?", "image_1": None, "image_2": None, "options": ["x", "y"]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({**row, "answer": "B"}) for row in rows))
    results = [parts(request.messages[0]) for request in bound(path).requests()]
    assert results == [
        [digit(1), " or ", digit(0), "?\nA. x\nB. ", digit(1), "\nAnswer:"],
        [digit(1), digit(2), "\nBoth?\nA. x\nB. y\nAnswer:"],
        [digit(2), "\nOne?\nA. x\nB. y\nAnswer:"],
        ["None?\nA. x\nB. y\nAnswer:"],
    ]


def test_a_templates_messages_have_the_images(tmp_path: Path) -> None:
    """A chat template is given messages with images, and their places in its text are the template's own."""
    path = write_digits(tmp_path, 2)

    def render(messages: Any, continue_final: bool, /, tools: str | None = None) -> str:
        return "".join(f"{m.role}|" + "".join(getattr(p, "text", "IMG") for p in m.parts) for m in messages)

    (first, _) = bound(path, apply_chat_template=True).requests(render)
    assert "".join(first.segments) == "user|Which digit is IMG?\nA. 0\nB. 1\nAnswer:"
    assert [image.data for image in first.images] == [digit(0)]


@pytest.mark.parametrize("form", ["path", "data URL", "csv"])
def test_hashes_follow_the_image(tmp_path: Path, form: str) -> None:
    """Another image in the same file name, or another data URL, makes another sample, data set and request."""
    path = tmp_path / ("rows.csv" if form == "csv" else "rows.jsonl")

    def made(number: int) -> tuple[str, str, Request]:
        (tmp_path / "d.png").write_bytes(digit(number))
        image = data_url(digit(number)) if form == "data URL" else "d.png"
        if form == "csv":
            path.write_text(f"question,image,answer\nWhat is it?,{image},7\n")
        else:
            path.write_text(json.dumps({"question": "What is it?", "image": image, "answer": "7"}))
        task = bound(path)
        return task.plan.dataset_hash, task.samples()[0].sha256, next(iter(task.requests()))

    first, again, other = made(1), made(1), made(2)
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_text_rows_keep_their_hash(tmp_path: Path) -> None:
    """The hashes of a task without images are those of earlier versions."""
    path = tmp_path / "rows.csv"
    path.write_text("question,A,B,answer\nWhat is it?,7,8,A\n")
    task = bound(path)
    assert task.samples()[0].sha256 == "sha256:3006a0ee52932039d72084c1b382b7b12df5a95c1dd89f0b7dfebca4ebca5165"
    assert task.task.spec_hash == "sha256:63e5d798272bcf24806d02a79c8123e9c495f996eb11141ff1bd67cea3c8c3b5"
    assert task.plan.dataset_hash == "sha256:8309bf02653d826586b76ed28484225745863f8fc78b502caec8d3cb5e31f044"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_1": "absent.png"}, r"sample 0: column 'image_1': no image .*absent.png"),
        ({"image_1": "rows.jsonl"}, r"sample 0: column 'image_1': .* no image, beginning with b'"),
        ({"image_1": "https://example.org/a.png"}, r"sample 0: column 'image_1': .*not fetched"),
        ({"image_1": None}, "sample 0: the question shows <image 1>, and column 'image_1' is empty"),
        ({"question": "<image 3>?"}, "sample 0: the question shows <image 3>, and column 'image_3' is empty"),
        ({"question": "<image 1> and <image>?"}, "sample 0: the question has 2 times <image> and the row 1 images"),
    ],
)
def test_bad_images_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A row whose image cannot be used is one line with row and column, or is skipped and counted."""
    path = write_digits(tmp_path, 2)
    first, second = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **change}), second]))
    with pytest.raises(MalformedSample, match=message):
        list(bound(path).requests())
    task = bound(path, skip_bad_rows=True)
    assert task.skipped.n == 1
    assert len(list(task.requests())) == 1


@pytest.mark.parametrize(
    ("column", "value"), [("video", "a.mp4"), ("audio", {"bytes": "", "path": "a.wav"}), ("clip_1", "b.webm")]
)
def test_audio_and_video_are_refused(tmp_path: Path, column: str, value: Any) -> None:
    """One line says what rows may have, and how a video's frames are given; a text called video is a text."""
    path = tmp_path / "rows.jsonl"
    row = {"question": "What?", "answer": "x"}
    path.write_text(json.dumps({**row, column: value}))
    with pytest.raises(DataError, match=f"column '{column}' has audio or video.*frames of a video as columns image_1"):
        task_from_rows(path)
    path.write_text(json.dumps({**row, column: "a film about cats"}))
    task_from_rows(path)


def test_questions_about_other_images_are_other_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`task check` does not take one question about two images for one with two answers."""
    write_digits(tmp_path, 3)
    rows = [{"question": "Which digit?", "image": f"digit_{i}.png", "answer": f"{i} is it"} for i in range(3)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert main(["task", "check", str(path)]) == 0
    assert "more than once" not in capsys.readouterr().out
    path.write_text("\n".join(json.dumps({**row, "image": "digit_0.png"}) for row in rows))
    main(["task", "check", str(path)])
    assert "1 question(s) occur more than once" in capsys.readouterr().out


def test_a_model_of_text_refuses(tmp_path: Path) -> None:
    """A model that takes text only is refused before anything is loaded, and told what takes images."""
    path = write_digits(tmp_path, 2)
    with pytest.raises(PlanError, match=r"takes text only, and rows has images.*--model hf-multimodal.*chat server"):
        evaluate(str(DEMO), [str(path)])


def test_audits_refuse(tmp_path: Path) -> None:
    """An audit's own prompts would ask about images that the model is not shown, so it refuses."""
    rows = str(write_digits(tmp_path, 2))
    with pytest.raises(PlanError, match="task rows has images, and an audit's own prompts are of text only"):
        audit_prompts(["fake"], rows)
    with pytest.raises(PlanError, match="task rows has images"):
        audit_contamination("fake", rows)


def test_rescoring_needs_no_image(tmp_path: Path) -> None:
    """Stored answers are scored again from the stored rows, though the image files are gone."""
    run = evaluate("fake", [str(write_digits(tmp_path, 3))], store=str(tmp_path / "runs.sqlite"))
    before = {record.request.id: record.scores[0].value for record in run.samples("rows")}
    rescore_run(run, RescoreOptions(task_files=(str(tmp_path / "rows.jsonl"),)))
    assert {record.request.id: record.scores[0].value for record in run.samples("rows")} == before


def test_shots_and_rotated_images_are_refused(tmp_path: Path) -> None:
    """Shots have no images of their own, and an option that is an image is not rotated."""
    path = write_digits(tmp_path, 2)
    with pytest.raises(PlanError, match="has images and takes no shots; omit --num_fewshot 2"):
        bound(path, num_fewshot=2)
    row = {"question": "Which?", "image_1": "digit_0.png", "image_2": "digit_1.png", "answer": "A"}
    path.write_text(json.dumps({**row, "options": ["<image 1>", "<image 2>"]}))
    with pytest.raises(MalformedSample, match="an option is an image, so the options cannot be rotated"):
        list(bound(path, circular=True).requests())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"output_type": "loglikelihood_rolling"}, "expected another with doc_to_image"),
        ({"doc_to_turns": ["a"], "doc_to_text": None}, "doc_to_turns is .*; expected none with doc_to_image"),
        ({"num_fewshot": 3}, "num_fewshot is 3; expected none with doc_to_image"),
        ({"doc_to_image": "pictures"}, "doc_to_image is 'pictures'; expected a column: .*image_1"),
    ],
)
def test_task_files(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    """A task file's keys that do not go with images are named."""
    write_digits(tmp_path, 2)
    spec = {
        "task": "t",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "doc_to_image": "image_1",
        **more,
    }
    with pytest.raises(DataError, match=message):
        bind(task_from_spec(spec, tmp_path / "t.yaml", "user"), BindOptions())


def test_stored_once_shown_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The store has each image once, to the byte; views, JSON and exports show it by its hash, never its bytes."""
    path, place = write_digits(tmp_path, 3), str(tmp_path / "runs.sqlite")
    big = io.BytesIO()
    Image.effect_noise((300, 300), 80).save(big, "PNG")  # hardly compressible
    (tmp_path / "digit_0.png").write_bytes(big.getvalue())
    first = evaluate("fake", [str(path)], store=place, apply_chat_template=True)
    evaluate("fake", [str(path)], model_args="seed=2", store=place, apply_chat_template=True)
    with closing(sqlite3.connect(place)) as connection:
        (sizes,) = zip(
            *connection.execute("select length(content) from texts where length(content) > 20000"), strict=True
        )
    assert len(sizes) == 1, "the second run's images are the first one's"
    assert sizes[0] < 1.02 * len(big.getvalue()), "packed to about the size of the file"
    store = Store.open(place)
    requests = [record.request for record in store.samples(first.id, "rows")]
    assert [image.data for request in requests for image in request.images] == [
        (tmp_path / f"digit_{i}.png").read_bytes() for i in range(3)
    ]
    assert store.unanswered(first.id, requests) == []
    assert main(["verify", "--store", place]) == 0
    (record, *_) = first.samples("rows")
    result = as_text(document(sample_example([record])), width=120)
    assert str(record.request.images[0]) in result
    content = sample_to_json(record)
    assert content["images"] == [
        {"sha256": record.request.images[0].sha256, "media_type": "image/png", "n_bytes": len(big.getvalue())}
    ]
    assert len(json.dumps(content, default=str)) < 5000
    assert all(len(str(row)) < 5000 for row in wrong_rows(first.store, first.id))
    for target in ("run.json", "run.assaymark", "out", "wrong.jsonl"):
        more = ["--wrong"] if target == "wrong.jsonl" else []
        assert main(["export", first.id, *more, "-o", str(tmp_path / target), "--store", place]) == 0
    samples = next((tmp_path / "out").rglob("samples_*.jsonl"))
    assert samples.stat().st_size < 20_000
    other = str(tmp_path / "other.sqlite")
    assert main(["import", str(tmp_path / "run.assaymark"), "--store", other]) == 0
    copied = [record.request for record in Store.open(other).samples(first.id, "rows")]
    assert copied == requests
    assert [image.data for request in copied for image in request.images] == [
        image.data for request in requests for image in request.images
    ]
    capsys.readouterr()
    assert main(["show", first.id, "--samples", "rows", "--search", "digit", "--index", "--store", place]) == 0
    assert "rows 2" in capsys.readouterr().out
    assert main(["show", first.id, "--samples", "rows", "--search", "iVBORw0KGgo", "--store", place]) == 0
    assert "rows 2" not in capsys.readouterr().out, "images are not text to search"


def test_a_changed_image_in_the_store_is_found(tmp_path: Path) -> None:
    """A stored image that is not the one of its hash is an error, and not sent."""
    request = next(iter(bound(write_digits(tmp_path, 2)).requests()))
    split = split_request(request)
    key = (request.task, request.sample_index, request.turn)
    assert join_request(key, request.sample_sha256, split.form, split.pieces) == request
    changed = [base64.b64encode(digit(9)).decode() if piece.startswith("iVBOR") else piece for piece in split.pieces]
    with pytest.raises(HashMismatch, match="is not the one with hash"):
        join_request(key, request.sample_sha256, split.form, changed)


def test_images_are_packed_quickly() -> None:
    """An image in base64 is packed to about its own size, and unpacks to the same text; long texts still shrink."""
    data = random.Random(1).randbytes(300_000)
    text = base64.b64encode(data).decode()
    packed = pack_text(text)
    assert len(packed) < 1.02 * len(data)
    assert unpack_text(packed) == text
    words = "one text with words and spaces " * 1000
    assert len(pack_text(words)) < len(words) / 50
