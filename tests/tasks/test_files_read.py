"""Which files of a folder a task reads."""

from pathlib import Path

from assaymark.tasks.files_read import files_read

TASK = """
include: base.inc
task: {name}
test_split: test
output_type: generate_until
doc_to_text: !function utils.prompt
doc_to_target: "{{{{answer}}}}"
"""


def test_only_what_a_task_names_is_read(tmp_path: Path) -> None:
    """A task's file, its include, its functions' modules and its data files; nothing else that lies beside them."""
    (tmp_path / "mine.yaml").write_text(TASK.format(name="mine"))
    (tmp_path / "base.inc").write_text("dataset_path: csv\ndataset_kwargs: {data_files: {test: q.csv}}\n")
    (tmp_path / "utils.py").write_text("from more import text\ndef prompt(row): return text(row)\n")
    (tmp_path / "more.py").write_text("def text(row): return row['question']\n")
    (tmp_path / "q.csv").write_text("question,answer\na,b\n")
    for name in (".env", "secret.csv", "other.py", "board.yaml", "other.yaml"):
        (tmp_path / name).write_text("task: other\n")
    names = {"mine.yaml", "base.inc", "utils.py", "more.py", "q.csv"}
    assert {path.relative_to(tmp_path).as_posix() for path in files_read([str(tmp_path / "mine.yaml")])} == names


def test_a_groups_and_a_suites_members_are_read(tmp_path: Path) -> None:
    """A group names tasks of its folder, a suite names files: these are read, and no other task of the folder."""
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name).replace("utils", name))
        (tmp_path / f"{name}.py").write_text("def prompt(row): return row['question']\n")
    (tmp_path / "base.inc").write_text("dataset_path: rows\n")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "test.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    (tmp_path / "rows" / "private.txt").write_text("no rows")
    (tmp_path / "group.yaml").write_text("group: both\ntask: [one, two]\n")
    group = {path.relative_to(tmp_path).as_posix() for path in files_read([str(tmp_path / "group.yaml")])}
    assert group == {"group.yaml", "one.yaml", "one.py", "two.yaml", "two.py", "base.inc", "rows/test.jsonl"}
