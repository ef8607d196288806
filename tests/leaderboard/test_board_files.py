"""A board's YAML file: what it gives, and each fault as one line with file and key."""

from pathlib import Path

import pytest

from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board_files import board_of_suite, library_suites, read_board
from assaymark.leaderboard.board_init import write_board

TEN_LINES = """
title: Small exam
introduction: Questions of four subjects, *written by us*.
tasks:
  - {file: law.csv, column: Law, category: Professions}
  - {file: books.csv, column: Books, category: Culture}
  - {file: music.csv, column: Music, category: Culture}
faq:
  - {question: Why?, answer: Because.}
models: {org/name: {type: chat, licence: mit}}
"""


def questions(folder: Path, *names: str) -> None:
    """Write files of two questions each."""
    for name in names:
        (folder / name).write_text("question,A,B,answer\nIs it so?,yes,no,A\nAnd this?,yes,no,B\n")


def test_a_board_of_own_task_sets_takes_ten_lines(tmp_path: Path) -> None:
    """Three CSV files in two categories make three columns, listed by category."""
    questions(tmp_path, "law.csv", "books.csv", "music.csv")
    (tmp_path / "exam.yaml").write_text(TEN_LINES)
    board = read_board(tmp_path / "exam.yaml")
    assert (board.name, board.title) == ("exam", "Small exam")
    assert [(column.title, column.category) for column in board.score_columns] == [
        ("Law", "Professions"),
        ("Books", "Culture"),
        ("Music", "Culture"),
    ]
    assert [path.name for path in board.task_files] == ["law.csv", "books.csv", "music.csv"]
    assert board.models["org/name"] == {"type": "chat", "licence": "mit"}


@pytest.mark.parametrize("name", sorted({suite.name for suite in library_suites().values()}))
def test_each_suite_of_the_package_has_a_board(name: str) -> None:
    """A board's columns are its suite's."""
    suite = library_suites()[name]
    board = board_of_suite(suite)
    assert tuple(column.title for column in board.score_columns) == suite.columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suite: open-llm-v1\ntasks: [a.csv]", "expected exactly one of suite, tasks and table"),
        ("title: x", "has none of them"),
        ("suite: open-llm-v9", "unknown suite 'open-llm-v9'; nearest: open-llm-v"),
        ("suit: open-llm-v1", "unknown key 'suit'; nearest: suite"),
        ("suite: open-llm-v1\nlogo: missing.png", "logo names missing.png, which does not exist"),
        ("suite: open-llm-v1\ncolumns: [license]", "columns names 'license'; nearest: licence"),
        ("suite: open-llm-v1\ncategories: {Maths: [GSM9K]}", "categories names the column 'GSM9K'"),
        ("suite: open-llm-v1\nnormalise: chance", "belongs to a board with `tasks`"),
        ("suite: open-llm-v1\nrank_together: 3", "expected true or false"),
        ("suite: open-llm-v1\nbaselines: [{name: Human}]", "lacks its name or source"),
        ("suite: open-llm-v1\nfaq: [why]", "expected question: and answer:"),
        ("suite: open-llm-v1\nname: ../up", "expected lower-case letters"),
        ("suite: open-llm-v1\nmodels: {a: {type: robot}}", "models.a.type is not known"),
        ("suite: open-llm-v1\nmodels: {a: {params: many}}", "expected a number"),
        ("suite: open-llm-v1\nmodels: {a: {price: 3}}", "models.a.price is stated without its date and source"),
        ("suite: open-llm-v1\nprices: {a: 3}", "prices.a is 3; expected keys with values"),
        ("suite: open-llm-v1\nprices: {a: {read: -1, generated: 1}}", "prices.a.read is -1; expected US dollars"),
        ("suite: open-llm-v1\nprices: {a: {read: 1}}", "prices.a.generated is None; expected US dollars"),
        ("suite: open-llm-v1\nprices: {a: {read: .nan, generated: 1}}", "prices.a.read is nan; expected US dollars"),
        ("suite: open-llm-v1\nprices: {a: {read: 1, generated: 2}}", "prices.a.source is missing"),
        ("suite: open-llm-v1\nprices: {a: {read: 1, generated: 2, source: x}}", "prices.a.date is None; expected a"),
        ("suite: open-llm-v1\nprices: {a: {read: 1, generated: 2, source: x, date: May}}", "prices.a.date is 'May'"),
        ("suite: open-llm-v1\nprices: {a: {in: 1}}", "prices.a has the unknown key 'in'"),
        ("tasks: []", "expected at least one file or task"),
        ("tasks: [gone.csv]", "names gone.csv, which does not exist"),
        ("tasks: [{task: arc, colour: red}]", "unknown key 'colour'"),
        ("table: {file: gone.csv, columns: {A: A}}", "table.file names gone.csv"),
        ("table: {file: board.yaml}", "table.columns is missing"),
        ("- a\n- b", "expected keys such as"),
        ("title: [", "not valid YAML"),
    ],
)
def test_each_fault_is_one_line_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """What, where, what was expected."""
    place = tmp_path / "board.yaml"
    place.write_text(text)
    with pytest.raises(DataError) as raised:
        read_board(place)
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(place))
    assert "\n" not in str(raised.value)


def test_what_init_writes_is_read(tmp_path: Path) -> None:
    """A suite, own task sets and a table each make a file that works as it is."""
    questions(tmp_path, "law.csv", "books.csv")
    (tmp_path / "scores.csv").write_text("model,params,Law,Books\na/b,7,60,70.5\n")
    write_board(tmp_path / "one.yaml", suite="nous", tasks=(), table=None, title=None)
    write_board(tmp_path / "two.yaml", suite=None, tasks=[str(tmp_path / "law.csv"), str(tmp_path / "books.csv")],
                table=None, title='Ours: "the" board')  # fmt: skip
    write_board(tmp_path / "three.yaml", suite=None, tasks=(), table=str(tmp_path / "scores.csv"), title=None)
    first, two, three = (read_board(tmp_path / f"{name}.yaml") for name in ("one", "two", "three"))
    assert first.suite is not None
    assert first.suite.name == "nous"
    assert two.title == 'Ours: "the" board'
    assert [column.title for column in two.score_columns] == ["law", "books"]
    assert three.table is not None
    assert dict(three.table.columns) == {"Law": "Law", "Books": "Books"}
    with pytest.raises(UsageError, match="is there already"):
        write_board(tmp_path / "one.yaml", suite=None, tasks=(), table=None, title=None)


@pytest.mark.parametrize(
    ("form", "headings"),
    [
        ("open-llm-v1", "fullname,precision,average,arc,hellaswag"),
        ("open-llm-v2", "id,model_name,model_average_score,evaluations_ifeval_value"),
    ],
)
def test_init_recognises_a_published_table(tmp_path: Path, form: str, headings: str) -> None:
    """By its headings, with which the file needs no list of columns."""
    (tmp_path / "open.csv").write_text(headings + "\n")
    write_board(tmp_path / "b.yaml", suite=None, tasks=(), table=str(tmp_path / "open.csv"), title=None)
    table = read_board(tmp_path / "b.yaml").table
    assert table is not None
    assert (table.format, dict(table.columns)) == (form, {})


@pytest.mark.parametrize(
    ("text", "name"),
    [("task: law_exam\n", "law_exam"), ('task: "law exam"  # ours\n', "law exam"),
     ("task: [a, b]\ngroup: exams\n", "exams"),
     ("include: other.yaml\n", "sets"), ("x: 1\n  task: inner\n", "sets")],
)  # fmt: skip
def test_a_task_file_counts_by_the_name_it_states(tmp_path: Path, text: str, name: str) -> None:
    """Stored runs know a task by the name in its YAML file, which may be called otherwise."""
    (tmp_path / "sets.yaml").write_text(text)
    (tmp_path / "board.yaml").write_text("title: B\ntasks: [sets.yaml]\n")
    board = read_board(tmp_path / "board.yaml")
    assert board.suite is not None
    assert [member.task for member in board.suite.members] == [name]
