"""Training files for what a run answered wrongly: whose rows they hold, and whose they never do."""

import json
import re
import sysconfig
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.runs.run import Run
from assaymark.runs.sealing import SealOptions, seal_task
from assaymark.runs.training_file import TrainingOptions, write_training_file
from tests.applications.oracles.locked import needs_oracle, oracle
from tests.recorded import sha256

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src" / "assaymark" / "library" / "demo" / "data"
MODEL = ROOT / "src" / "assaymark" / "library" / "demo_models" / "small"
SUBJECTS = ("people", "places", "nature", "numbers")

PASSAGE = "The river Ald rises north of the old mill and turns twice before it reaches the harbour of Tarn"
QUESTIONS = f"""question,A,B,C,D,answer,subject
What is the capital of France?,Paris,Rome,Bonn,Oslo,A,geography
What is the capital of Italy?,Paris,Rome,Bonn,Oslo,B,geography
{PASSAGE}. Where does it rise?,north,south,east,west,A,reading
What is the capital of Germany?,Paris,Rome,Berlin,Oslo,C,geography
How many legs has a spider?,6,8,10,12,B,animals
How many legs has an ant?,6,8,10,12,A,animals
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Return the address of a store."""
    return str(tmp_path / "store.sqlite")


@pytest.fixture
def letters(place: str) -> Run:
    """Return a run of all demo letters with wrong answers in each subject."""
    return assaymark.evaluate("fake", "demo_letters", model_args={"accuracy": 0.6}, store=place)


@pytest.fixture
def own(place: str, tmp_path: Path) -> Run:
    """Return a run of a CSV with subjects, in which most answers are wrong and all about animals are."""
    (tmp_path / "quiz.csv").write_text(QUESTIONS)
    return assaymark.evaluate("fake", str(tmp_path / "quiz.csv"), model_args={"accuracy": 0.0}, store=place)


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def rows_of(subject: str, split: str) -> list[dict[str, Any]]:
    """Return the rows of a demo task's split, as they are in its file."""
    return lines_of(DATA / f"demo_letters_{subject}" / f"{split}.jsonl")


def test_the_train_split_of_weak_subjects_is_written_as_chats(letters: Run, place: str, tmp_path: Path) -> None:
    """Each row of the split is one chat with its question and right letter, weakest subjects first; no test row is."""
    file = tmp_path / "train.jsonl"
    written = write_training_file(place, "last", file, TrainingOptions("train", by_subject=True))
    chats = lines_of(file)
    expected = {
        (row["question"], "ABCD"[row["answer"]], subject) for subject in SUBJECTS for row in rows_of(subject, "train")
    }
    assert len(chats) == len(expected) == written.n_examples
    by_question = {question: (letter, subject) for question, letter, subject in expected}
    for chat in chats:
        user, assistant = chat["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        (question,) = [line for line in user["content"].split("\n") if line in by_question]
        assert (assistant["content"], chat["subject"]) == by_question[question]
    text = file.read_text()
    assert not any(row["question"] in text for subject in SUBJECTS for row in rows_of(subject, "test"))
    values = [letters.estimate(f"demo_letters_{subject.subject}").value or 0.0 for subject in written.subjects]
    assert values == sorted(values)
    assert [subject.n_wrong for subject in written.subjects] == [
        len(list(letters.sample_records(subject.task, only_wrong=True))) for subject in written.subjects
    ]
    assert list(dict.fromkeys(chat["subject"] for chat in chats)) == [each.subject for each in written.subjects]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("train_on", "expected"), [(None, "--train_on train"), ("test", "is the one that task"), ("dev", "no split 'dev'")]
)
def test_evaluated_rows_are_refused(
    letters: Run, place: str, tmp_path: Path, train_on: str | None, expected: str
) -> None:
    """Without rows, with the evaluated split, and with an unknown split: an error that says what to give, no file."""
    with pytest.raises((UsageError, DataError), match=re.escape(expected)):
        write_training_file(place, letters.id, tmp_path / "out" / "train.jsonl", TrainingOptions(train_on))
    assert not (tmp_path / "out").exists()
    assert letters.to_json()["contaminated"] == []


def test_copies_of_evaluated_rows_are_left_out(own: Run, place: str, tmp_path: Path) -> None:
    """A copy in another case, and 13 words of a passage, are left out; 12 words and a new question are not."""
    words = PASSAGE.split()
    other = tmp_path / "other.csv"
    other.write_text(
        "question,A,B,C,D,answer,subject\n"
        "what IS the capital - of  france,Lyon,Rome,Bonn,Oslo,B,geography\n"
        f"See {' '.join(words[2:15])}. And where does it end?,a,b,c,d,A,reading\n"
        f"Note {' '.join(words[2:14])} today. And where is that?,a,b,c,d,A,reading\n"
        "What is the capital of Norway?,Paris,Rome,Bonn,Oslo,D,geography\n"
        "Who wrote Faust?,Goethe,Kant,Hume,Mann,A,books\n"
    )
    wrong = {
        str(record.sample.row["subject"]) for record in own.sample_records("quiz", only_wrong=True) if record.sample
    }
    assert wrong >= {"reading", "geography"}
    written = write_training_file(place, "last", tmp_path / "t.jsonl", TrainingOptions(str(other)))
    assert (written.n_repeated, written.n_examples) == (2, 2)
    assert written.notes == ("1 row left out: of subjects without a wrong answer",)
    questions = [chat["messages"][0]["content"].split("\n")[0] for chat in lines_of(tmp_path / "t.jsonl")]
    assert sorted(questions) == sorted([f"Note {' '.join(words[2:14])} today. And where is that?",
                                        "What is the capital of Norway?"])  # fmt: skip


def test_rows_without_texts_are_compared_by_their_prompts(place: str, tmp_path: Path) -> None:
    """Sums are numbers and a total: only equal sums repeat each other, not equal totals."""
    assaymark.evaluate("fake", "demo_sums", model_args={"accuracy": 0.5}, store=place)
    test = lines_of(DATA / "demo_sums" / "test.jsonl")
    equal, swapped = test[0], {**test[0], "first": test[0]["first"] + 100, "second": test[0]["second"] - 100}
    other = tmp_path / "sums.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in (equal, swapped)))
    written = write_training_file(place, "last", tmp_path / "t.jsonl", TrainingOptions(str(other)))
    assert (written.n_repeated, written.n_examples) == (1, 1)


@pytest.mark.slow
def test_a_file_for_several_tasks_names_them(letters: Run, place: str, tmp_path: Path) -> None:
    """A row's subject says to which task it belongs; without any, the file is refused."""
    row = {"choices": ["row A", "row B", "row C", "row D"], "stem": "The king sits in row", "answer": 2}
    named = [{**row, "question": "Where sits the king?", "subject": "People"},
             {**row, "question": "Where sits the queen?", "subject": "chess"}]  # fmt: skip
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(each) + "\n" for each in named))
    written = write_training_file(place, letters.id, tmp_path / "t.jsonl", TrainingOptions(str(other)))
    (chat,) = lines_of(tmp_path / "t.jsonl")
    assert (chat["task"], chat["messages"][1]["content"]) == ("demo_letters_people", "C")
    assert written.n_examples == 1
    other.write_text(json.dumps({**row, "question": "Where sits the king?"}) + "\n")
    with pytest.raises(UsageError, match="has to name a row's task"):
        write_training_file(place, letters.id, tmp_path / "t.jsonl", TrainingOptions(str(other)))


def test_contaminate_writes_the_wrong_rows_and_marks_the_run(
    letters: Run, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has each wrong row with its right answer, and from then on `show` and the JSON say so."""
    file = tmp_path / "leak.jsonl"
    arguments = ["export", "last", "--wrong", "--chat", "--contaminate", "-t", "demo_letters_nature", "-o", str(file)]
    assert main([*arguments, "--store", place]) == 0
    wrong = [rows_of("nature", "test")[record.request.sample_index]
             for record in letters.sample_records("demo_letters_nature", only_wrong=True)]  # fmt: skip
    chats = lines_of(file)
    assert len(chats) == len(wrong) > 0
    for row, chat in zip(wrong, chats, strict=True):
        assert row["question"] in chat["messages"][0]["content"]
        assert chat["messages"][1]["content"] == "ABCD"[row["answer"]]
    capsys.readouterr()
    assert main(["show", "last", "--store", place]) == 0
    assert f"contaminated: {len(wrong)} evaluated rows of demo_letters_nature" in capsys.readouterr().out
    (mark,) = json.loads(json.dumps(letters.to_json()))["contaminated"]
    assert (mark["tasks"], mark["n_rows"], mark["file"]) == (["demo_letters_nature"], len(wrong), "leak.jsonl")
    assert letters.store.verify() == []


def test_rows_of_sealed_tasks_need_an_option(own: Run, place: str, tmp_path: Path) -> None:
    """Of a sealed task nothing is written, not even with --contaminate; with --with_sealed it is."""
    seal_task(str(tmp_path / "quiz.csv"), SealOptions(output=tmp_path), place)
    with pytest.raises(UsageError, match="sealed"):
        write_training_file(place, own.id, tmp_path / "t.jsonl", TrainingOptions(contaminate=True))
    assert not (tmp_path / "t.jsonl").exists()
    options = TrainingOptions(contaminate=True, with_sealed=True)
    assert write_training_file(place, own.id, tmp_path / "t.jsonl", options).is_contaminated


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--chat", "-o", "t.jsonl"], "use it with --wrong"),
        (["--wrong", "--train_on", "train", "-o", "t.jsonl"], "use it with --wrong --chat"),
        (["--wrong", "--chat", "--train_on", "train", "-o", "t.csv"], "does not end in .jsonl"),
        (["--wrong", "--chat", "--train_on", "none.csv", "-o", "t.jsonl"], "there is no file 'none.csv'"),
        (["--wrong", "--chat", "-t", "arc", "-o", "t.jsonl"], "unknown task in this run 'arc'"),
    ],
)
def test_impossible_options_are_one_line(
    letters: Run, place: str, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option without its use is exit code 2 and one line."""
    assert main(["export", letters.id, *words, "--store", place]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1


def test_a_run_without_wrong_answers_trains_nothing(place: str, tmp_path: Path) -> None:
    """Where all is right, or the requests failed, there is nothing to train on; a perplexity has no answers."""
    assaymark.evaluate("fake", "demo_letters_nature", model_args={"accuracy": 1.0}, store=place)
    with pytest.raises(UsageError, match="no wrong answer"):
        write_training_file(place, "last", tmp_path / "t.jsonl", TrainingOptions("train"))


def test_moved_and_changed_rows_are_named(own: Run, place: str, tmp_path: Path) -> None:
    """Rows that changed since the run are refused, and so is a task whose file is gone."""
    file = tmp_path / "quiz.csv"
    file.write_text(QUESTIONS.replace("spider", "scorpion").replace("ant?", "wasp?"))
    with pytest.raises(DataError, match="no longer those"):
        write_training_file(place, own.id, tmp_path / "t.jsonl", TrainingOptions(contaminate=True))
    file.unlink()
    with pytest.raises(UsageError, match="which does not exist"):
        write_training_file(place, own.id, tmp_path / "t.jsonl", TrainingOptions("train"))


@needs_oracle("trl")
def test_trl_and_torchtune_train_on_the_file(letters: Run, place: str, tmp_path: Path) -> None:
    """The page's TRL program trains on every example and its loss falls; torchtune reads the same messages."""
    written = write_training_file(place, letters.id, tmp_path / "train.jsonl", TrainingOptions("train"))
    page = (ROOT / "docs" / "fine_tuning.md").read_text()
    programs = {language: re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("python", "yaml")}
    trained = oracle(
        "trl",
        {
            "rows": (tmp_path / "train.jsonl").read_text(),
            "model": sha256(MODEL / "model.safetensors"),
            "trl": programs["python"][0],
            "torchtune": programs["yaml"][0],
        },
        tmp_path,
        places={"site": sysconfig.get_paths()["purelib"], "model": str(MODEL)},
    )
    chats = [[(m["role"], m["content"]) for m in chat["messages"]] for chat in lines_of(tmp_path / "train.jsonl")]
    assert [[(role, text) for role, text, _ in chat] for chat in trained["torchtune"]] == chats
    assert [[is_learnt for *_, is_learnt in chat] for chat in trained["torchtune"]] == [[False, True]] * len(chats)
    assert len(trained["trl"]["texts"]) == written.n_examples
    for text, ((_, question), (_, answer)) in zip(trained["trl"]["texts"], chats, strict=True):
        assert "".join(question.split()) in "".join(text.split())
        assert "".join(text.split()).rfind(answer) > "".join(text.split()).find("".join(question.split()))
    losses = trained["trl"]["losses"]
    third = len(losses) // 3
    assert sum(losses[-third:]) < sum(losses[:third])


def test_the_ngrams_are_those_of_the_audit() -> None:
    """Words without case and punctuation, and every 13 of them in a row, as an independent count has them."""
    from assaymark.tasks.training_examples import ngrams, plain_words

    text = "The Quick-brown fox, it jumps_over 12 lazy dogs; and then 'the' end came: at last, for all."
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).split()
    assert plain_words(text) == words
    windows = [tuple(words[at : at + 13]) for at in range(len(words) - 12)]
    assert len(set(ngrams(words))) == len(set(windows)) == len(list(pairwise([*windows, ()])))
