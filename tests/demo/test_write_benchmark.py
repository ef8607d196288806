"""The data files of the demo tasks."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from demo.stories import THINGS
from demo.world import PEOPLE, build_world
from demo.write_benchmark import DATA_FOLDER, SIZES, write_files

_SPLITS = ("test", "train")


def _rows(task: str, split: str) -> list[dict[str, Any]]:
    lines = (DATA_FOLDER / task / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_generator_writes_the_files_that_are_committed(tmp_path: Path) -> None:
    """Every data file is made again byte for byte."""
    write_files(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    carried = {path.relative_to(DATA_FOLDER): path.read_bytes() for path in DATA_FOLDER.rglob("*.jsonl")}
    assert made == carried


@pytest.mark.parametrize("task", sorted(SIZES))
def test_splits_have_their_sizes_and_share_no_row(task: str) -> None:
    """No row occurs twice in a task, in one split or in both."""
    rows = {split: [json.dumps(row) for row in _rows(task, split)] for split in _SPLITS}
    assert (len(rows["test"]), len(rows["train"])) == SIZES[task]
    everything = rows["test"] + rows["train"]
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize(
    "task", [t for t in sorted(SIZES) if t.startswith(("demo_letters", "demo_facts", "demo_truth", "demo_yesno"))]
)
def test_shots_ask_other_questions_than_test_rows(task: str) -> None:
    """No question of the train split is asked in the test split, and no question twice in one split."""
    asked = {split: [row["question"] for row in _rows(task, split)] for split in _SPLITS}
    assert not set(asked["test"]) & set(asked["train"])
    assert len(set(asked["test"])) == len(asked["test"])


def _gold(task: str, row: dict[str, Any]) -> Any:
    column = {"demo_facts": "answerKey", "demo_yesno": "label"}.get(task, "answer")
    return row[column]


@pytest.mark.parametrize(
    "task", [t for t in sorted(SIZES) if t.startswith(("demo_letters", "demo_facts", "demo_who", "demo_yesno"))]
)
@pytest.mark.parametrize("split", _SPLITS)
def test_the_right_answer_stands_everywhere_equally_often(task: str, split: str) -> None:
    """Always choosing one place or one word scores exactly chance."""
    counts = Counter(_gold(task, row) for row in _rows(task, split))
    assert len(set(counts.values())) == 1
    assert len(counts) == (2 if task in {"demo_who", "demo_yesno"} else 4)


@pytest.mark.parametrize("task", [t for t in sorted(SIZES) if t.startswith(("demo_letters", "demo_facts"))])
def test_choices_of_a_row_differ(task: str) -> None:
    """Every question has four different choices."""
    for split in _SPLITS:
        for row in _rows(task, split):
            choices = row["choices"]["text"] if task == "demo_facts" else row["choices"]
            assert len(set(choices)) == 4, row


def test_truth_rows_have_several_true_and_several_false_sentences() -> None:
    """Each row has two or three true and two to four false sentences, none twice."""
    for split in _SPLITS:
        for row in _rows("demo_truth", split):
            targets = row["mc2_targets"]
            assert len(targets["choices"]) == len(targets["labels"]) == len(set(targets["choices"]))
            assert targets["labels"].count(1) in {2, 3}
            assert targets["labels"].count(0) in {2, 3, 4}


def test_who_rows_are_true_of_the_right_person_only() -> None:
    """Each sentence has one gap after both names, and what follows it is true of the right option alone."""
    trades = {(f.entity, f.value) for f in build_world().facts}
    for row in _rows("demo_who", "test"):
        before, after = row["sentence"].split("_")
        assert all(row[o] in before and row[o] not in after for o in ("option1", "option2"))
        true_of = [o for o in ("1", "2") if any((row[f"option{o}"], w) in trades for w in re.findall(r"\w+", after))]
        assert true_of == [row["answer"]]


def test_the_last_word_is_a_need_or_a_memory() -> None:
    """Half of the stories end in a thing that nobody has named, half in where the hero lives or what pet he keeps."""
    facts = {(f.entity, f.value) for f in build_world().only_told}
    n_memories = 0
    for row in _rows("demo_last_word", "test"):
        *before, last = re.findall(r"\w+", row["text"])
        hero = next(w for w in before if w in PEOPLE)
        assert last not in before
        assert last in THINGS or (hero, last) in facts
        n_memories += last not in THINGS
    assert n_memories == SIZES["demo_last_word"][0] // 2


def test_letters_and_yesno_rows_are_true_in_the_valley() -> None:
    """Each row's answer is the value of a fact that is only told, about what its question names."""
    results = {(f.form, f.entity, f.value) for f in build_world().only_told}
    tasks = [task for task in SIZES if task.startswith(("demo_letters", "demo_yesno"))]
    for task in tasks:
        form = "letters" if "letters" in task else "yesno"
        for row in _rows(task, "test"):
            value = "ABCD"[row["answer"]] if form == "letters" else ("no", "yes")[row["label"]]
            assert any((form, name, value) in results for name in re.findall(r"\w+", row["question"])), row


def test_a_yesno_passage_tells_other_facts() -> None:
    """A passage never says yes or no, so the answer is not in it."""
    for row in _rows("demo_yesno", "test"):
        assert not {"yes", "no"} & set(re.findall(r"\w+", row["passage"])), row


def test_an_order_and_its_reply_agree() -> None:
    """A reply has the words of its order alone, and as often as the order says."""
    times = {"twice": 2, "three times": 3, "four times": 4}
    for row in _rows("demo_orders", "test"):
        assert set(re.findall(r"\w+", row["reply"])) <= set(re.findall(r"\w+", row["order"]))
        for said, n in times.items():
            if row["order"].endswith(f" {said}."):
                assert row["reply"].split() == [row["order"].split()[1]] * n


def test_a_sum_is_right() -> None:
    """The total is that of both terms."""
    assert all(row["first"] + row["second"] == int(row["total"]) for row in _rows("demo_sums", "test"))
