"""Rows of sealed tasks are nowhere that others can reach: pages, JSON, static files, reports, exports are searched."""

import csv
import io
import json
import random
import re
import secrets
import shutil
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.arena.answer_files import answers_of_runs
from assaymark.arena.ballots import VoteLimits, Voter
from assaymark.arena.battles import Arena
from assaymark.arena.export import export_votes, verify_export
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.static.links import PageReader, addresses, canonical, visiting
from assaymark.store import Store
from assaymark.store.public_store import public_store
from assaymark.web.app import create_app

N = 8
MARK = "zqxmarker"  # in every text of every row, and in every answer
BOARD = """
title: Exam
tasks:
  - {file: exam.csv, column: Exam}
  - {file: words.csv, column: Words}
  - {file: open.csv, column: Open}
"""


def command(*words: str | Path) -> tuple[int, str]:
    """Run a command as typed; return its exit code and what it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main([str(word) for word in words])
    return code, printed.getvalue()


def done(*words: str | Path) -> str:
    """Run a command that must succeed; return what it printed."""
    code, printed = command(*words)
    assert code == 0, printed
    return printed


def write_rows(folder: Path) -> None:
    """Write a multiple-choice file and a generated one whose texts all hold the marker, and one without."""
    for name, mark in (("exam", MARK), ("open", "plain")):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["question", "A", "B", "answer", "subject"])
            rows.writerows([f"{mark} question {n}?", f"{mark} yes {n}", f"{mark} no {n}", "AB"[n % 2],
                            ("law", "art")[n % 3 == 0]] for n in range(N))  # fmt: skip
    with (folder / "words.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "answer"])
        rows.writerows([f"{MARK} say {n}", f"{MARK} word {n}"] for n in range(N))


@dataclass(frozen=True)
class Place:
    """A folder with runs of two models, a board and a store."""

    folder: Path

    @property
    def store(self) -> str:
        """The store's file."""
        return str(self.folder / "runs.sqlite")

    @property
    def board(self) -> Path:
        """The board's file."""
        return self.folder / "exam.yaml"

    def run(self, *words: str) -> None:
        """Run all three tasks."""
        tasks = ",".join(str(self.folder / f"{name}.csv") for name in ("exam", "words", "open"))
        done("run", "--model", "fake", "--tasks", tasks, "--store", self.store, "--quiet", *words)

    def seal(self, *words: str) -> None:
        """Seal the tasks whose rows have the marker."""
        for name in ("exam", "words"):
            done("task", "seal", self.folder / f"{name}.csv", "-o", self.folder, "--store", self.store, *words)

    def run_ids(self) -> list[str]:
        """Return the runs' ids, the latest first."""
        with Store.open_to_read(self.store) as store:
            return [row.run_id for row in store.runs()]


@pytest.fixture(scope="module")
def with_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows, a board, and runs of two models; one of them also ran a part. Copy it."""
    place = Place(tmp_path_factory.mktemp("with_runs"))
    write_rows(place.folder)
    place.board.write_text(BOARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(place.folder / "home"))
        for words in (["seed=1,accuracy=0.6"], ["seed=2,accuracy=0.4"], ["seed=1,accuracy=0.6", "--num_fewshot", "2"]):
            place.run("--model_args", *words)
    return place.folder


@pytest.fixture
def place(with_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place of the test's own with those runs. Its seals have the same keys, and so previews, each time."""
    # else one preview of half of eight rows in 128 has all of them or none
    keys = random.Random(1)
    monkeypatch.setattr(secrets, "token_hex", lambda n_bytes=32: keys.randbytes(n_bytes).hex())
    shutil.copytree(with_runs, tmp_path, dirs_exist_ok=True)
    return Place(tmp_path)


def visited(
    app: Any, run_ids: list[str], *, rows: Sequence[int] = (0, 3, N - 1), skipped: Sequence[str] = ()
) -> dict[str, str]:
    """Return what each page holds that links lead to, its JSON twin, and addresses that no page names.

    A search is for a part of the marker, since pages repeat what was searched for. Of a task's rows those at the places
    `rows` are asked for; pages of the runs `skipped` are not.
    """
    searches = (f"?q={MARK[:4]}", "?q=0", "?wrong=1")
    ends = (*searches, *(f".json{search}" for search in searches))
    samples = [f"/{n}{suffix}" for n in rows for suffix in ("", ".json")]
    first, second, third, *_ = run_ids
    todo = deque(["/", "/boards"])
    todo += [f"/run/{first}/samples/{task}{end}" for task in ("exam", "words") for end in (*ends, *samples)]
    pairs = (f"{first},{second}", f"{second},{first}", f"{first},{third}")
    todo += [f"/compare{suffix}?runs={pair}" for suffix in ("", ".json") for pair in pairs if not skipped]
    texts: dict[str, str] = {}
    seen = set(todo)
    with visiting(app) as visitor:
        while todo:
            address = todo.popleft()
            response = visitor.get(address)
            texts[address] = str(response.headers) + response.text
            path, mark, query = address.partition("?")
            targets = [response.headers["location"]] if response.is_redirect else []
            if "html" in response.headers.get("content-type", ""):
                targets += [*addresses(response.text), f"{path}.json{mark}{query}"]
            for target in map(canonical, targets):
                is_page = target.startswith("/") and not target.startswith(("/static", "/.json", "/guide"))
                is_page = is_page and "sort=" not in target and "cols=" not in target
                row = re.match(r"/run/\w+/samples/\w+/(\d+)", target)
                is_other = (row is not None and int(row[1]) not in rows) or any(each in target for each in skipped)
                if is_page and not is_other and target not in seen:
                    seen.add(target)
                    todo.append(target)
    return texts


def outputs(place: Place, with_sealed: tuple[str, ...] = (), *, rows: Sequence[int] = (0,)) -> dict[str, str]:
    """Return what each page, file and export holds, by its name; packed files as their tables' texts.

    Pages of all runs, with `rows` of their tasks, are those of a server with the board's file; of one without a file
    the pages of one run are visited, besides those of the boards that it makes.
    """
    ids = place.run_ids()
    texts: dict[str, str] = {}
    out = place.folder / "out"
    if not with_sealed:
        texts |= visited(create_app([board_feature(open_site((str(place.board),), place.store))]), ids, rows=rows)
        without = create_app([board_feature(open_site((), place.store))])
        others = visited(without, ids, rows=(0,), skipped=ids[1:])
        texts |= {f"without a file {address}": text for address, text in others.items()}
        done("board", "export", place.board, "-o", out / "site", "--store", place.store)
        command("board", "datasets", place.board, "-o", out / "datasets", "--store", place.store)
        done("card", "fake-gold-1", "--store", place.store, "-o", out / "card.md")
        texts["query"] = done("board", "query", place.board, "", "--store", place.store, "--json")
    for suffix in ("csv", "md", "tex", "yaml", "json", "parquet"):
        done("export", ids[0], "-o", out / f"run.{suffix}", "--store", place.store, *with_sealed)
    done("export", ids[0], "-o", out / "lm_eval", "--store", place.store, *with_sealed)
    for suffix in ("jsonl", "csv"):
        done("export", ids[0], "-o", out / f"wrong.{suffix}", "--wrong", "--store", place.store, *with_sealed)
    for suffix in ("html", "md"):
        done("report", ids[0], "-o", out / f"one.{suffix}", "--store", place.store, *with_sealed)
        done("report", ids[0], ids[1], "-o", out / f"two.{suffix}", "--store", place.store, *with_sealed)
    for path in out.rglob("*"):
        if path.is_file():
            texts[str(path.relative_to(out))] = path.read_bytes().decode("utf-8", "replace")
    return texts


@pytest.mark.slow
def test_a_sealed_task_is_nowhere_and_an_open_one_everywhere(place: Place) -> None:
    """No page, JSON, static file, report or export holds a row of a sealed task; without the seal most kinds do."""
    before = outputs(place)
    open_in = {name for name, text in before.items() if MARK in text}
    kinds = ["/compare", "/samples/exam", "/samples/words/0", "/samples/exam/0.json", "site/", "lm_eval/",
             "wrong.jsonl", "wrong.csv", "one.html", "one.md", "two.html", "datasets/"]  # fmt: skip
    for kind in kinds:
        assert any(kind in name for name in open_in), f"the marker is in no {kind}, so its absence would show nothing"
    place.seal()
    for leftover in (place.folder / "out").rglob("*"):
        if leftover.is_file() and "site" not in leftover.parts:
            leftover.unlink()
    after = outputs(place, rows=(0, 3, N - 1))
    assert [name for name, text in after.items() if MARK in text] == []
    assert any("plain question" in text for name, text in after.items() if "/samples/open" in name)
    # the numbers stay
    site = open_site((str(place.board),), place.store)
    (board,) = site.boards.values()
    assert {column.title for column in site.table(board).columns} == {"Exam", "Words", "Open"}
    assert all(len(row.cells) == 3 for row in site.table(board).rows if not row.is_baseline)
    # and the owner's own commands
    assert MARK in done("show", place.run_ids()[0], "--samples", "exam", "--store", place.store)


@pytest.mark.slow
def test_a_server_that_runs_already_withholds_at_once(place: Place) -> None:
    """Sealing needs no restart: what a server has cached of rows, comparisons and hashes is not shown any more."""
    run_ids = place.run_ids()
    with Store.open_to_read(place.store) as store:
        tasks = store.run(run_ids[0]).plan.tasks
        hashes = [task.dataset_hash for task in tasks if task.name in {"exam", "words"}]
    app = create_app([board_feature(open_site((str(place.board),), place.store))])
    before = visited(app, run_ids, rows=(0,))
    place.seal()
    after = visited(app, run_ids)
    for secret in (MARK, *hashes):
        assert any(secret in text for text in before.values())
        assert [name for name, text in after.items() if secret in text] == []


@pytest.mark.slow
def test_an_explicit_option_writes_sealed_rows(place: Place) -> None:
    """--with_sealed writes what is left out without it; a file of the whole run is refused without it."""
    place.seal()
    run = place.run_ids()[0]
    refused = command("export", run, "-o", place.folder / "run.assaymark", "--store", place.store)
    assert refused[0] == 2
    assert "--with_sealed" in refused[1]
    assert "exam, words" in refused[1]
    done("export", run, "-o", place.folder / "run.assaymark", "--store", place.store, "--with_sealed")
    texts = outputs(place, ("--with_sealed",))
    for kind in ("lm_eval/", "wrong.jsonl", "one.md", "two.html"):
        assert any(kind in name and MARK in text for name, text in texts.items()), kind


def withheld_in(place: Place, task: str, run: str = "last") -> list[bool]:
    """Return which samples of a run are withheld from others."""
    with Store.open_to_read(place.store) as store:
        row = store.run(run)
        return [record.is_withheld for record in public_store(store).samples(row.run_id, task)]


def write_resaved(place: Place, how: str) -> Path:
    """Write the rows of the sealed file anew, with another hash; return the file."""
    header, *lines = (place.folder / "exam.csv").read_text().splitlines()
    changed = {
        "reversed": [header, *lines[::-1]],
        "cut": [header, *lines[:5]],
        "delimiter": [line.replace(",", ";") for line in (header, *lines)],
        "column": [f"{header},source", *(f"{line},web" for line in lines)],
        "spaces": [header, *(line.replace(f"{MARK} question", f"{MARK.upper()}   Question") for line in lines)],
        "ends": [f"{line}\r" for line in (header, *lines)],
    }[how]
    file = place.folder / f"{how}.csv"
    file.write_text("\n".join([*changed, ""]), newline="")
    return file


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["reversed", "cut", "delimiter", "column", "spaces", "ends"])
def test_resaved_rows_stay_sealed(place: Place, how: str, when: str) -> None:
    """Rows of a sealed file under another name, in another order, number or form are withheld too."""
    file = write_resaved(place, how)
    if when == "after":
        place.seal()
    done("run", "--model", "fake", "--tasks", file, "--store", place.store, "--quiet")
    if when == "before":
        assert not any(withheld_in(place, how))
        place.seal()
    assert all(withheld_in(place, how))
    done("report", "last", "-o", place.folder / "r.md", "--store", place.store)
    assert MARK not in (place.folder / "r.md").read_text().lower()
    assert not any(withheld_in(place, "open", place.run_ids()[-1]))


def test_a_target_of_ones_own_code_leaves_no_sealed_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that --target rewrites to id, inputs and expected are withheld, from a copy of the file too."""
    place.seal("--public_fraction", "0.25")
    (place.folder / "exb.csv").write_text((place.folder / "exam.csv").read_text())
    (place.folder / "app.py").write_text("def answer(row):\n    return 'A'\n")
    monkeypatch.chdir(place.folder)
    done("run", "--target", "app.py:answer", "--tasks", "exb.csv", "--scorers", "exact", "--store", place.store,
         "--quiet")  # fmt: skip
    with Store.open_to_read(place.store) as store:
        (task,) = store.run("last").tasks
        assert MARK in repr(list(store.samples(store.run("last").run_id, task)))
    assert all(withheld_in(place, task))
    done("report", "last", "-o", place.folder / "t.md", "--store", place.store)
    assert MARK not in (place.folder / "t.md").read_text()


def write_shots(place: Place) -> Path:
    """Write another task whose shots are rows of the sealed file; return its file."""
    file = place.folder / "shots.yaml"
    file.write_text(
        f"""task: shots
dataset_path: csv
dataset_kwargs: {{data_files: {{test: "{place.folder}/open.csv", train: "{place.folder}/exam.csv"}}}}
test_split: test
fewshot_split: train
output_type: multiple_choice
doc_to_text: "{{{{question}}}}\\nAnswer:"
doc_to_choice: [A, B]
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""
    )
    return file


@pytest.mark.parametrize("when", ["before", "after"])
def test_sealed_rows_do_not_leave_as_shots_of_another_task(place: Place, when: str) -> None:
    """A task whose shots are sealed rows is withheld with them; without shots it is shown."""
    words = ("run", "--model", "fake", "--tasks", write_shots(place), "--store", place.store, "--quiet")
    if when == "after":
        place.seal()
    done(*words)
    assert not any(withheld_in(place, "shots"))
    done(*words, "--num_fewshot", "3")
    if when == "before":
        place.seal()
    with Store.open_to_read(place.store) as store:
        run_id = store.run("last").run_id
        assert MARK in repr(list(store.samples(run_id, "shots")))
    assert all(withheld_in(place, "shots"))
    done("export", "last", "-o", place.folder / "out", "--store", place.store)
    assert not any(MARK in path.read_text() for path in (place.folder / "out").rglob("*.json*"))


def test_revealing_a_task_reveals_none_of_its_shots(place: Place) -> None:
    """Of a revealed task, requests whose shots are rows of a task that stays sealed are withheld, others shown."""
    file = write_shots(place)
    words = ("run", "--model", "fake", "--tasks", file, "--store", place.store, "--quiet")
    place.seal()
    done("task", "seal", file, "-o", place.folder / "seals", "--store", place.store)
    done("task", "reveal", file, "--seal", place.folder / "seals" / "shots.seal.json", "--store", place.store)
    done(*words)
    assert not any(withheld_in(place, "shots"))
    done(*words, "--num_fewshot", "3")
    assert all(withheld_in(place, "shots"))


def test_no_column_of_a_sealed_row_is_shown_as_its_category(tmp_path: Path) -> None:
    """Of a sealed task only short values of a category or subject are shown, and only those that several rows have."""
    place = Place(tmp_path)
    values = {"type": ["law", "art"] * 4, "category": ["law"] * 3 + ["art"] * 3 + [f"{MARK} alone", f"{MARK} " * 9]}
    for column, own in values.items():
        with (tmp_path / f"{column}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["question", "answer", column])
            rows.writerows([f"{MARK} question {column} {n}?", f"{MARK} {n}", own[n]] for n in range(N))
        done("run", "--model", "fake", "--tasks", tmp_path / f"{column}.csv", "--store", place.store, "--quiet")
        with Store.open_to_read(place.store) as store:
            run_id = store.run("last").run_id
            before = {each.category for each in public_store(store).sample_list(run_id, column).samples}
            assert before == {" ".join(value.split()) for value in own}
        done("task", "seal", tmp_path / f"{column}.csv", "-o", tmp_path, "--store", place.store)
        with Store.open_to_read(place.store) as store:
            others = public_store(store)
            wanted = {"law", "art"} if column == "category" else set()
            listed = others.sample_list(run_id, column)
            assert {each.category for each in listed.samples} == {*wanted, None}
            assert {each.category for each in others.categories(run_id)} == {*wanted, None}
            assert {each.category for each in others.categories(run_id, column)} == {*wanted, None}
            subjects = [each for each in others.estimates(run_id) if each.details.get("kind") == "subject"]
            assert {each.details["alias"] for each in subjects} == wanted
            results = [record.sample.row for record in others.samples(run_id, column) if record.sample is not None]
            assert MARK not in repr(results)
            assert {row.get("category") for row in results} == {*wanted, None}
            for task in (column, None):
                n_of = {name: others.sample_list(run_id, task, category=name).total for name in set(own)}
                assert n_of == {name: own.count(name) if name in wanted else 0 for name in set(own)}


@pytest.mark.parametrize("is_choice", [False, True])
def test_a_category_that_is_the_answer_is_not_shown(tmp_path: Path, is_choice: bool) -> None:
    """Where texts are classified, the category is what a sealed row asks for."""
    place = Place(tmp_path)
    labels = [("sport", "law")[n % 3 == 0] for n in range(N)]
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", *("A", "B")[: 2 * is_choice], "answer", "category"])
        rows.writerows([f"{MARK} question {n}?", *(["sport", "law"] if is_choice else []),
                        "AB"[label == "law"] if is_choice else label.title(), label]
                       for n, label in enumerate(labels))  # fmt: skip
    done("run", "--model", "fake", "--tasks", tmp_path / "labels.csv", "--store", place.store, "--quiet")
    done("task", "seal", tmp_path / "labels.csv", "-o", tmp_path, "--store", place.store)
    with Store.open_to_read(place.store) as store:
        others, run_id = public_store(store), store.run("last").run_id
        assert {each.category for each in others.sample_list(run_id, "labels").samples} == {None}
        assert {each.category for each in others.categories(run_id)} == {None}
        assert [each.task for each in others.estimates(run_id)] == ["labels"] * len(others.estimates(run_id))
        assert {record.sample.row.get("category") for record in others.samples(run_id, "labels")
                if record.sample is not None} == {None}  # fmt: skip


def test_labels_that_a_scorer_gives_are_withheld(place: Place) -> None:
    """A scorer of one's own may give an answer, or the question in it, as a label; the most frequent are counted."""
    app = place.folder / "app.py"
    app.write_text("def answer(question):\n    return question\n\ndef label(output):\n    return output\n")
    done("run", "--target", f"{app}:answer", "--tasks", place.folder / "words.csv", "--scorers", f"{app}:label",
         "--store", place.store, "--quiet")  # fmt: skip
    for is_sealed in (False, True):
        if is_sealed:
            place.seal()
        with Store.open_to_read(place.store) as store:
            estimates = public_store(store).estimates(store.run("last").run_id)
            assert (MARK in repr(estimates)) != is_sealed


@pytest.mark.parametrize("words", [[], ["--with_sealed"]])
def test_a_training_file_has_no_sealed_rows(place: Place, words: list[str]) -> None:
    """Rows that are trained on for another task are left out where they are sealed, and a line says so."""
    place.seal()
    done("run", "--model", "fake", "--model_args", "seed=1,accuracy=0.1", "--tasks", place.folder / "open.csv",
         "--store", place.store, "--quiet")  # fmt: skip
    rows = (place.folder / "exam.csv").read_text() + "free and open question?,yes,no,A,law\n"
    (place.folder / "rows.csv").write_text(rows)
    file = place.folder / "train.jsonl"
    printed = done("export", "last", "--wrong", "--chat", "--train_on", place.folder / "rows.csv", "-o", file,
                   "--store", place.store, *words)  # fmt: skip
    assert "free and open question" in file.read_text()
    assert (MARK in file.read_text()) == bool(words)
    assert ("left out: of sealed tasks; --with_sealed writes them" in printed) != bool(words)


def test_an_owner_is_told_what_is_wrong_with_revealed_rows(place: Place) -> None:
    """An empty file verifies nothing; a new folder is made; a commitment of the first format says what it covers."""
    place.seal("--public_fraction", "0.5")
    commitment, out = place.folder / "exam.commitment.json", place.folder / "new" / "folder"
    done("task", "reveal", place.folder / "exam.csv", "--seal", place.folder / "exam.seal.json", "-o", out,
         "--store", place.store)  # fmt: skip
    rows = out / "exam.revealed.jsonl"
    assert "not cover" not in done("task", "verify", commitment, rows)
    empty = place.folder / "empty.jsonl"
    empty.write_text("\n")
    code, printed = command("task", "verify", commitment, empty)
    assert (code, "no row was revealed" in printed) == (3, True)
    content = json.loads(commitment.read_text())
    commitment.write_text(json.dumps({**content, "valid_until": "2099-01-01"}))
    code, printed = command("task", "verify", commitment, rows)
    assert (code, "the file was changed" in printed) == (3, True)


def test_what_was_left_out_is_said(place: Place) -> None:
    """Exports, the arena and the alarm say that rows are missing because they are sealed."""
    place.seal()
    file = place.folder / "w.jsonl"
    printed = done("export", "last", "--wrong", "-o", file, "--store", place.store)
    assert "rows of sealed tasks were left out (exam, words); --with_sealed writes them" in printed
    assert "left out" not in done("export", "last", "--wrong", "-o", file, "--store", place.store, "--with_sealed")
    with Store.open_to_read(place.store) as store, pytest.raises(UsageError, match=r"sealed: words"):
        answers_of_runs(store, [])
    done("task", "seal", place.folder / "open.csv", "-o", place.folder, "--store", place.store)
    assert "has no preview" in done("board", "exposure", place.board, "--store", place.store)


@pytest.mark.parametrize(("task", "is_noted"), [("{file: open.csv}", True), ("boolq", False)])
def test_baselines_of_cards_that_cite_nobody_are_noted(tmp_path: Path, task: str, is_noted: bool) -> None:
    """`baselines: cards` without a card that cites people says so."""
    write_rows(tmp_path)
    (tmp_path / "b.yaml").write_text(f"title: Board\ntasks:\n  - {task}\nbaselines: cards\n")
    printed = done("board", "check", tmp_path / "b.yaml")
    assert ("`baselines: cards` adds no row" in printed) == is_noted


def test_a_seal_of_an_earlier_version_learns_its_rows(place: Place) -> None:
    """A store sealed before rows were recognised learns them from its runs, when the next run is opened."""
    place.seal()
    with closing(sqlite3.connect(place.store)) as connection, connection:
        for table in ("sealed_rows", "sealed_copies"):
            connection.execute(f"DELETE FROM {table}")
    done("run", "--model", "fake", "--tasks", write_resaved(place, "cut"), "--store", place.store, "--quiet")
    assert all(withheld_in(place, "cut"))


@pytest.mark.slow
def test_an_imported_run_stays_sealed(place: Place, tmp_path: Path) -> None:
    """A run that comes from another store with sealed tasks is sealed here too, its preview included."""
    place.seal("--public_fraction", "0.5")
    file = tmp_path / "run.assaymark"
    done("export", place.run_ids()[0], "-o", file, "--store", place.store, "--with_sealed")
    target = str(tmp_path / "other.sqlite")
    done("import", file, "--store", target)
    with Store.open_to_read(target) as store:
        (row,) = store.runs()
        assert all(record.is_withheld for record in public_store(store).samples(row.run_id, "exam"))


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["{file: exam.csv, private: true}", "whole"])
def test_a_boards_file_seals(place: Place, entry: str) -> None:
    """`private: true` of an entry, or of the board, withholds its tasks on the board's pages."""
    entries = BOARD.replace("{file: exam.csv, column: Exam}", entry)
    entries = entries.replace("{file: words.csv, column: Words}", "{file: words.csv, private: true}")
    place.board.write_text(f"{BOARD}private: true\n" if entry == "whole" else entries)
    pages = visited(create_app([board_feature(open_site((str(place.board),), place.store))]), place.run_ids())
    assert [name for name, text in pages.items() if MARK in text] == []
    done("board", "export", place.board, "-o", place.folder / "site", "--store", place.store)
    assert not any(MARK in path.read_text("utf-8", "replace") for path in (place.folder / "site").rglob("*.*"))
    assert read_board(place.board).private >= {"exam", "words"}


def test_a_task_file_seals_from_the_first_row(tmp_path: Path) -> None:
    """`private: true` in a task file withholds the rows of a run in progress too; the run key is as before."""
    write_rows(tmp_path)
    done("task", "init", tmp_path / "words.csv", "-o", tmp_path / "mine.yaml", "--name", "mine")
    first = assaymark.evaluate("fake", str(tmp_path / "mine.yaml"), store=str(tmp_path / "open.sqlite"))
    spec = (tmp_path / "mine.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(spec + "\nprivate: true\nvalid_until: 2030-01-31\n")
    seen: list[bool] = []

    def observe(_: Any) -> None:
        with Store.open_to_read(str(tmp_path / "runs.sqlite")) as store:
            for row in store.runs():
                records = list(public_store(store).samples(row.run_id, "mine"))
                seen.extend(record.is_withheld for record in records)

    run = assaymark.evaluate("fake", str(tmp_path / "mine.yaml"), store=str(tmp_path / "runs.sqlite"), observe=observe)
    assert seen
    assert all(seen)
    assert run.id == first.id
    assert "valid until 2030-01-31" in done("task", "seals", "--store", tmp_path / "runs.sqlite")


def test_edited_rows_stay_sealed(place: Place) -> None:
    """A run of corrected rows under the name of a sealed task is sealed, though its data set has another hash."""
    place.seal()
    text = (place.folder / "exam.csv").read_text()
    (place.folder / "exam.csv").write_text(text.replace("question 0", "question zero"))
    done("run", "--model", "fake", "--tasks", place.folder / "exam.csv", "--store", place.store, "--quiet")
    with Store.open_to_read(place.store) as store:
        assert all(record.is_withheld for record in public_store(store).samples(store.run("last").run_id, "exam"))


@pytest.mark.slow
def test_a_preview_shows_its_rows_and_no_shots(place: Place) -> None:
    """With a public fraction the same rows are shown in every run, but not where their prompts show other rows."""
    place.seal("--public_fraction", "0.5")
    with Store.open_to_read(place.store) as store:
        results = {}
        for row in store.runs():
            records = list(public_store(store).samples(row.run_id, "exam"))
            results[row.run_id] = {record.request.sample_index for record in records if not record.is_withheld}
            n_shots = records[0].request.n_shots
            assert (len(results[row.run_id]) == 0) == (n_shots > 0)
    sets = {frozenset(indices) for indices in results.values() if indices}
    assert len(sets) == 1
    (public,) = sets
    assert 0 < len(public) < N
    site = open_site((str(place.board),), place.store)
    zero_shot = next(run_id for run_id, indices in results.items() if indices)
    with visiting(create_app([board_feature(site)])) as visitor:
        _check_preview(visitor, zero_shot, public)
        listed = visitor.get(f"/run/{zero_shot}/samples/exam.json?q={MARK}").json()
        assert {line["index"] for line in listed["samples"]} == public
        assert listed["n_matching"] == len(public)
    done("board", "export", place.board, "-o", place.folder / "site", "--store", place.store)
    text = "".join(path.read_text("utf-8", "replace") for path in (place.folder / "site").rglob("*.html"))
    assert {n for n in range(N) if f"{MARK} question {n}?" in text} == public


def _check_preview(visitor: PageReader, run_id: str, public: frozenset[int]) -> None:
    for index in range(N):
        response = visitor.get(f"/run/{run_id}/samples/exam/{index}")
        assert response.status_code == (200 if index in public else 403)
        assert (MARK in response.text) == (index in public)


def test_the_arena_asks_no_sealed_prompts(place: Place) -> None:
    """Battles over stored answers are drawn from open tasks only."""
    with Store.open_to_read(place.store) as store:
        assert answers_of_runs(store, [])[0].prompts
    place.seal()
    with Store.open_to_read(place.store) as store, pytest.raises(UsageError, match="share"):
        answers_of_runs(store, [])


def test_a_task_that_is_sealed_later_leaves_the_arena(place: Place) -> None:
    """A running arena draws no row that has been sealed since, and exported votes have no texts of it."""
    with Store.open(place.store) as store:
        arena = Arena(store, answers_of_runs(store, [])[0], VoteLimits(0.0, 10**9, 10**9, 10**9), seed=1)
        battle = arena.begin(Voter("ada", "here"))
        assert MARK in str(battle.prompt)
        arena.vote(Voter("ada", "here"), battle.token, "a", "key")
        file, told = place.folder / "votes.jsonl", list[str]()
        export_votes(store, file, texts=True, tell=told.append)
        assert (MARK in file.read_text(), told) == (True, [])
        place.seal()
        with pytest.raises(DataError, match="no common prompt that may be shown"):
            arena.begin(Voter("eve", "here"))
        export_votes(store, file, texts=True, tell=told.append)
        assert (MARK in file.read_text(), len(told)) == (False, 1)
        assert verify_export(file) == (1, None)


@pytest.mark.slow
def test_revealed_rows_are_shown_and_verified(place: Place) -> None:
    """After `reveal` anybody can verify the rows, a changed one is found, and the store shows them."""
    place.seal()
    made = done(
        "task", "reveal", place.folder / "exam.csv", "--seal", place.folder / "exam.seal.json", "--store", place.store
    )
    rows = place.folder / "exam.revealed.jsonl"
    assert f"{N} rows" in made
    assert f"{N} of {N} rows" in done("task", "verify", place.folder / "exam.commitment.json", rows)
    code, printed = command("task", "reveal", place.folder / "words.csv", "--seal", place.folder / "exam.seal.json",
                            "--store", place.store)  # fmt: skip
    assert (code, "no seal of these 8 rows" in printed) == (3, True)
    lines = rows.read_text().splitlines()
    changed = json.loads(lines[3])
    changed["row"]["answer"] = "A" if changed["row"]["answer"] == "B" else "B"
    rows.write_text("\n".join([*lines[:3], json.dumps(changed), *lines[4:]]))
    code, printed = command("task", "verify", place.folder / "exam.commitment.json", rows)
    assert code == 3
    assert "not those committed to: 3" in printed
    with Store.open_to_read(place.store) as store:
        run_id = store.runs()[0].run_id
        assert not any(record.is_withheld for record in public_store(store).samples(run_id, "exam"))
        assert all(record.is_withheld for record in public_store(store).samples(run_id, "words"))


def texts_in(path: Path) -> Iterator[str]:
    """Yield every text column of a SQLite file."""
    with closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from (str(value) for value in row)


@pytest.mark.slow
def test_the_store_keeps_no_salt(place: Place) -> None:
    """The secret that opens rows is in the owner's file, which only the owner may read, and not in the store."""
    place.seal()
    file = place.folder / "exam.seal.json"
    secret = json.loads(file.read_text())["secret"]
    assert file.stat().st_mode & 0o077 == 0
    assert not any(secret in text for text in texts_in(Path(place.store)))
    assert secret not in (place.folder / "exam.commitment.json").read_text()


def test_sealing_again_completes_and_changes_nothing(place: Place) -> None:
    """The same call completes what a kill left, and seals another store; other options are refused."""
    words = ("task", "seal", place.folder / "exam.csv", "-o", place.folder, "--public_fraction", "0.5")
    done(*words, "--store", place.store)
    secret, published = place.folder / "exam.seal.json", place.folder / "exam.commitment.json"
    before = secret.read_text(), published.read_text()
    published.unlink()
    done(*words, "--store", place.store)
    done(*words, "--store", place.folder / "other.sqlite")
    assert (secret.read_text(), published.read_text()) == before
    root = json.loads(before[1])["root"]
    assert root in done("task", "seals", "--store", place.folder / "other.sqlite")
    code, printed = command(*words[:-1], "0.9", "--store", place.store)
    assert (code, "other rows or options" in printed) == (2, True)
    code, printed = command(*words[:3], "-o", place.folder / "elsewhere", "--store", place.store)
    assert (code, root in printed) == (2, True)
    assert not (place.folder / "elsewhere").exists()


@pytest.mark.slow
def test_new_rows_are_sealed_apart_and_the_old_ones_revealed(place: Place) -> None:
    """Rotation: a new version has a commitment of its own; revealing the old rows leaves the new ones sealed."""
    place.seal()
    old = (place.folder / "exam.csv").read_text()
    (place.folder / "exam.csv").write_text(old.replace(f"{MARK} question", f"{MARK} new question"))
    done("task", "seal", place.folder / "exam.csv", "--version", "2", "-o", place.folder, "--store", place.store)
    assert (place.folder / "exam-2.commitment.json").exists()
    done("run", "--model", "fake", "--tasks", place.folder / "exam.csv", "--store", place.store, "--quiet")
    (place.folder / "exam.csv").write_text(old)  # with other line ends than before
    done("task", "reveal", place.folder / "exam.csv", "--seal", place.folder / "exam.seal.json", "--store", place.store)
    with Store.open_to_read(place.store) as store:
        latest, *earlier = [row.run_id for row in store.runs()]
        assert all(record.is_withheld for record in public_store(store).samples(latest, "exam"))
        assert not any(record.is_withheld for record in public_store(store).samples(earlier[0], "exam"))
