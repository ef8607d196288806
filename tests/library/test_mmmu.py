"""MMMU: its prompts, answers and folds are lm-eval's and its authors', on made rows in its layout."""

import io
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")

import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from assaymark.errors import MalformedSample
from assaymark.runs.evaluate import evaluate
from assaymark.tasks.catalog import Catalog
from tests.library.test_library import module

WORDS = (
    *(
        "A",
        "B",
        "C",
        "(A)",
        "(B)",
        "(D)",
        "a",
        "the",
        "answer",
        "is",
        "so",
        "could",
        "be",
        "therefore",
        "result",
        "final",
    ),
    *(
        "=",
        "12",
        "1,234",
        "3.14159",
        "-5",
        "2e3",
        ".5",
        "7.",
        "x",
        "red",
        "Blue",
        "green apple",
        "\n",
        ":",
        ",",
        "!",
        "'",
    ),
    *("thus", "24/7", "nan", "1_000", "?", "e", "a.", "8%", "12.0"),
)
OPTIONS = ("red", "Blue", "green apple", "12", "a")


def row(**more: Any) -> dict[str, Any]:
    """Return a row in MMMU's layout, without images."""
    return {
        "id": "validation_Art_1",
        "question": "Which? <image 1>",
        "options": str(list(OPTIONS)),
        "answer": "B",
        "question_type": "multiple-choice",
        **more,
    }


def texts(seed: int, n: int) -> list[str]:
    """Return random answers of words that the rules look at."""
    drawn = random.Random(seed)
    joins = (" ", " ", " ", "", ". ", "\n")
    return [
        "".join(word + drawn.choice(joins) for word in drawn.choices(WORDS, k=drawn.randint(0, 12))) for _ in range(n)
    ]


@pytest.mark.oracle
def test_options_are_read_as_lm_eval_reads_them() -> None:
    """Of 4,000 random answers each is read as the same option, or as none where lm-eval guesses."""
    theirs = pytest.importorskip("lm_eval.tasks.mmmu.utils")
    ours = module("mmmu/rows")
    letters = [*"ABCDE"]
    named = dict(zip(letters, OPTIONS, strict=True))
    n_named = 0
    for answer in texts(1, 4000):
        mine = ours.chosen(answer, OPTIONS)
        guesses = {theirs.parse_multi_choice_response(answer, letters, named) for _ in range(1 if mine else 24)}
        n_named += mine is not None
        assert guesses == {mine} if mine else len(guesses) > 1, answer
    assert 1000 < n_named < 4000


@pytest.mark.oracle
def test_short_answers_are_compared_as_lm_eval_compares_them() -> None:
    """Of 4,000 random answers each is right or wrong as in lm-eval, for texts and numbers."""
    theirs = pytest.importorskip("lm_eval.tasks.mmmu.utils")
    ours = module("mmmu/rows")
    n_right = 0
    for i, answer in enumerate(texts(2, 4000)):
        expected = WORDS[i % len(WORDS)].strip() or "12"
        right = theirs.eval_open(expected, theirs.parse_open_response(answer))
        assert ours.contains(answer, [expected]) == right, (answer, expected)
        n_right += right
    assert 300 < n_right < 3700


@pytest.mark.oracle
def test_prompts_and_images_are_lm_evals() -> None:
    """Texts and the order of images are lm-eval's, with images in options and shown twice."""
    theirs = pytest.importorskip("lm_eval.tasks.mmmu.utils")
    ours = module("mmmu/rows")
    images = {f"image_{i}": f"picture {i}" for i in range(1, 8)}
    for each in (
        row(),
        row(question="<image 2> or <image 1> or <image 2>?", options="['<image 3>', 'x']"),
        row(question="How many in <image 1>?", options="[]", question_type="open", answer="4"),
    ):
        given = {**each, **images}
        assert ours.text(given) == theirs.doc_to_text(given)
        assert ours.images(given) == theirs.doc_to_image(given)


def test_several_acceptable_answers_are_each_accepted() -> None:
    """The Hub has them as the text of a list, and the authors' code as a list; a guess can be repeated."""
    ours = module("mmmu/rows")
    given = row(question_type="open", options="[]", answer="['24/7', '3.429']")
    assert ours.accuracy(given, ["So the ratio is 24/7."]) == {"acc": 1.0}
    assert ours.accuracy(given, ["It is 3.43"]) == {"acc": 1.0}
    assert ours.accuracy(given, ["It is 3.5"]) == {"acc": 0.0}
    guesses = [ours.accuracy(row(question=f"{i}"), ["I cannot see it"])["acc"] for i in range(400)]
    assert guesses == [ours.accuracy(row(question=f"{i}"), ["I cannot see it"])["acc"] for i in range(400)]
    assert 0.1 < sum(guesses) / 400 < 0.3


def test_the_folds_are_the_authors() -> None:
    """`mmmu` is the validation split: 30 subjects in six disciplines, each question weighing the same."""
    selection = Catalog.open(lm_eval=False).select(["mmmu"])
    assert len(selection.tasks) == 30
    assert {len(group.children) for group in selection.groups} == {6, 4, 5, 7}
    assert all(metric.weight_by_size for group in selection.groups for metric in group.metrics)
    assert {task.dataset.path for task in selection.tasks} == {"MMMU/MMMU"}


def png(colour: str) -> Mapping[str, Any]:
    """Return an image as the Hub stores it."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(stream, "PNG")
    return {"bytes": stream.getvalue(), "path": f"{colour}.png"}


def write_subject(root: Path, subject: str, rows: list[dict[str, Any]]) -> None:
    """Write rows of a subject as the Hub's Parquet file has them."""
    folder = root / "MMMU" / "MMMU" / subject
    folder.mkdir(parents=True)
    whole = [{**{f"image_{i}": None for i in range(1, 8)}, **each} for each in rows]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    names = list(whole[0])
    columns = {
        name: pa.array([each[name] for each in whole], image if name.startswith("image_") else pa.string())
        for name in names
    }
    parquet.write_table(pa.table(columns), folder / "validation.parquet")


@pytest.mark.oracle
def test_lm_evals_own_tasks_with_images_run(tmp_path: Path) -> None:
    """ChartQA, as lm-eval has it, runs on rows with the Hub's images, each in its place before the question."""
    pytest.importorskip("lm_eval")
    folder = tmp_path / "HuggingFaceM4" / "ChartQA" / "default"
    folder.mkdir(parents=True)
    image = pa.array([png("red"), png("blue")], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    columns = {"image": image, "query": ["How many?", "Which year?"], "label": [["3"], ["2001"]]}
    parquet.write_table(pa.table(columns), folder / "test.parquet")
    run = evaluate("fake", ["chartqa"], model_args="mode=gold", data_dir=str(tmp_path))
    first, second = run.samples("chartqa")
    assert [part.data for part in second.request.images] == [png("blue")["bytes"]]
    assert first.request.messages[0].shown.startswith("[image ")
    assert {e.n for e in run.estimates} == {2}


@pytest.mark.slow
def test_runs_on_the_hubs_layout(tmp_path: Path) -> None:
    """Rows with the Hub's image bytes run to folded scores, and a missing image is named with its row and column."""
    red, blue = png("red"), png("blue")
    write_subject(
        tmp_path, "Art", [row(image_1=red), row(question="<image 2> or <image 1>?", image_1=red, image_2=blue)]
    )
    write_subject(tmp_path, "Music", [row(image_1=blue, question_type="open", options="[]", answer="12")] * 3)
    write_subject(tmp_path, "Design", [row(image_1=blue), row(question="<image 2>", image_1=red)])
    run = evaluate("fake", ["mmmu_val_art", "mmmu_val_music"], model_args="mode=gold", data_dir=str(tmp_path))
    assert {e.task: (e.value, e.n) for e in run.estimates} == {"mmmu_val_art": (1.0, 2), "mmmu_val_music": (1.0, 3)}
    (_, second) = run.samples("mmmu_val_art")
    shown = [image.data for image in second.request.images]
    assert shown == [blue["bytes"], red["bytes"]]
    with pytest.raises(MalformedSample, match=r"mmmu_val_design.*sample 1: .*column 'image_2' is empty"):
        evaluate("fake", ["mmmu_val_design"], data_dir=str(tmp_path))
