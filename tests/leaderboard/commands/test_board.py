"""`assaymark board` and `assaymark serve` as people type them."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.pages.board import about_page
from assaymark.leaderboard.site import Site
from assaymark.records.json_values import json_fields

SCORES = """model,params,license,type,Law,Books
a/small,1.5,mit,chat,40,50
b/large,70,apache-2.0,base,80,90
c/mid,8,mit,merge,60,
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Return a board file of a small table."""
    (tmp_path / "scores.csv").write_text(SCORES)
    place = tmp_path / "board.yaml"
    assert main(["board", "init", str(place), "--table", str(tmp_path / "scores.csv"), "--title", "Ours"]) == 0
    return place


@pytest.mark.parametrize(
    ("headings", "form"),
    [
        ("fullname,average,arc,hellaswag,mmlu", "open-llm-v1"),
        ("model_name,model_average_score,evaluations_ifeval_value", "open-llm-v2"),
    ],
)
def test_init_recognises_published_tables(tmp_path: Path, headings: str, form: str) -> None:
    """Their columns say which of them it is; nobody has to know the name of the format."""
    (tmp_path / "table.csv").write_text(f"{headings}\n")
    assert main(["board", "init", str(tmp_path / "board.yaml"), "--table", str(tmp_path / "table.csv")]) == 0
    assert f"  format: {form}\n" in (tmp_path / "board.yaml").read_text()


def test_init_names_files_in_any_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A board of `bücher 😀.csv` reads as its owner would write it, and finds the file again."""
    (tmp_path / "bücher 😀.csv").write_text("question,A,B,answer\nWho?,me,you,A\n", encoding="utf-8")
    place = tmp_path / "board.yaml"
    assert main(["board", "init", str(place), "--tasks", str(tmp_path / "bücher 😀.csv")]) == 0
    assert '  - file: "bücher 😀.csv"\n    column: "bücher 😀"\n' in place.read_text(encoding="utf-8")
    assert main(["board", "check", str(place)]) == 0
    assert "columns bücher 😀" in capsys.readouterr().out


def test_init_check_and_query_work_together(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What init writes is checked and searched; the search is the page's."""
    assert main(["board", "check", str(board)]) == 0
    assert "Ours" in capsys.readouterr().out
    assert main(["board", "query", str(board), "license:mit", "params:<5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in rows] == ["a/small"]
    assert rows[0]["average"]["value"] == pytest.approx(0.45)
    assert main(["board", "query", str(board), "--sort", "-law"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("b/large") < printed.index("c/mid") < printed.index("a/small")
    assert main(["board", "query", str(board), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("rank,rank_best,rank_worst,model,average")


def test_an_average_of_some_columns_says_of_how_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows with the same columns stand together, those with most first, whatever their averages."""
    (tmp_path / "t.csv").write_text("model,A,B\no/a,,99\no/whole,50,51\no/b,20,\no/c,,98\n")
    (tmp_path / "t.yaml").write_text("title: T\ntable: {file: t.csv, columns: {A: A, B: B}}\n")
    assert main(["board", "query", str(tmp_path / "t.yaml")]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines() if "o/" in line]
    assert [" ".join(line[:-2]) for line in words] == [
        "1 (1–1) o/whole 50.5", "o/b 20.0 (1 of 2)", "o/a 99.0 (1 of 2)", "o/c 98.0 (1 of 2)",
    ]  # fmt: skip


def test_the_about_page_of_a_fresh_board_has_no_sample_text(board: Path) -> None:
    """Nothing that `init` writes as a comment or a draft is shown before its owner writes it."""
    twin = json_fields(about_page(Site([read_board(board)]), "board"))
    assert isinstance(twin, dict)
    assert {key: twin[key] for key in ("title", "introduction", "about", "policy", "faq")} == {
        "title": "Ours", "introduction": "", "about": "", "policy": "", "faq": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["board", "query", "{board}", "lisense:mit"], "unknown search key 'lisense'", 2),
        (["board", "query", "{board}", "--sort", "nothing"], "sort: 'nothing' is not known", 2),
        (["board", "init", "{board}"], "is there already", 2),
        (["board", "init", "{board}.new", "--suite", "open-llm-v7"], "unknown suite 'open-llm-v7'; nearest:", 2),
        (["board", "init", "{board}.new", "--tasks", "gone.csv"], "file not found: gone.csv", 2),
        (["board", "check", "gone.yaml"], "there is no board file gone.yaml", 2),
        (["serve", "gone.yaml"], "there is no board file gone.yaml", 2),
        (["serve", "{board}", "--host", "0.0.0.0"], "name what it is called there with --allow_host", 2),
        (["serve", "{board}", "{board}"], "two boards are called 'board'", 2),
    ],
)
def test_each_fault_is_one_line(
    board: Path, words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What, where, and what to do."""
    capsys.readouterr()
    assert main([word.format(board=board) for word in words]) == code
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [{file: 3}]", "tasks[1].file is 3; expected the name of a file"),
        ("tasks: [{file: [a]}]", "tasks[1].file is ['a']; expected the name of a file"),
        ('tasks: [{file: "a\\0b"}]', "tasks[1].file is 'a\\x00b', which is not a file name"),
        ('tasks: [{file: "~nosuchuser/x.csv"}]', "tasks[1].file is '~nosuchuser/x.csv', which is not a file name"),
        (f"tasks: [{{file: {'x' * 9000}}}]", "which is not a file name: File name too long"),
        ('tasks: [{file: "a\\nb"}]', "which does not exist"),
        ('suite: open-llm-v1\nresults: "a\\0"', "results is 'a\\x00', which is not a file name"),
        ("suite: open-llm-v1\nresults: /dev/zero", "results names /dev/zero, which is not a regular file"),
        ("suite: open-llm-v1\nresults: /etc/passwd", "/etc/passwd is in no supported format"),
        ('suite: "a\\0.yaml"', "suite is 'a\\x00.yaml', which is not a file name"),
        ("table: {file: .., columns: {A: A}}", "table.file names .., which is not a regular file"),
        ("table: {columns: {A: A}}", "table.file is None; expected the name of a file"),
        ("table: {file: /dev/zero, columns: {A: A}}", "table.file names /dev/zero, which is not a regular file"),
        ("table: {file: /etc/passwd, columns: {A: A}}", "has no column 'model'; expected a first line with model, A"),
        ("table: {file: scores.csv, columns: {Law: Lawyers}}", "has no column 'Lawyers'"),
    ],
)
def test_check_finds_what_query_would_refuse(
    board: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands print the same line about files that the leaderboard names, and nothing of what is in them."""
    board.write_text(text)
    errors = []
    for command in ("check", "query"):
        capsys.readouterr()
        assert main(["board", command, str(board)]) == 3
        errors.append(capsys.readouterr().err.strip())
    assert errors[0] == errors[1]
    assert said in errors[0]
    assert "\n" not in errors[0]
    assert "root" not in errors[0].replace(str(board.parent), "")
    assert len(errors[0]) < 1500


def test_check_reports_a_fault_in_a_row(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is read whole, not only its heading."""
    (board.parent / "scores.csv").write_text(SCORES + "d/late,1,mit,chat,forty,50\n")
    capsys.readouterr()
    assert main(["board", "check", str(board)]) == 3
    assert "line 5: Law is 'forty'" in capsys.readouterr().err


def test_check_of_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """A board's own name is checked like those in it."""
    for name in ("x" * 9000, "~nosuchuser/board.yaml"):
        assert main(["board", "check", name]) == 2
        assert "is not a file name" in capsys.readouterr().err


@pytest.mark.slow
def test_serve_answers_and_ends_with_control_c(board: Path) -> None:
    """The real command on a free port: its address is printed, the board is there, Ctrl-C ends it with 0."""
    command = [sys.executable, "-m", "assaymark", "serve", str(board), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            result = re.search(r"Ours at (http://127\.0\.0\.1:\d+/)", line)
            assert result, line
            with urllib.request.urlopen(f"{result[1]}board/board", timeout=60) as response:
                assert "b/large" in response.read().decode().replace("<wbr>", "")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
