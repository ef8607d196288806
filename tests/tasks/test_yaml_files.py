"""Task files: include, !function, and errors that name file and line."""

from pathlib import Path

import pytest

from assaymark.errors import DataError
from assaymark.tasks.task import FunctionRef
from assaymark.tasks.yaml_files import notes_on_file, parse_yaml, read_task_file


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_own_keys_win_over_included_ones(tmp_path: Path) -> None:
    """Later includes override earlier ones, and the file itself overrides all; `task_list` is not inherited."""
    write(tmp_path, "base_yaml", "a: 1\nb: 1\ntask_list: [x]\n")
    write(tmp_path, "sub/more_yaml", "include: ../base_yaml\nb: 2\nc: 2\n")
    path = write(tmp_path, "t.yaml", "include: [base_yaml, sub/more_yaml]\nc: 3\ntask: t\n")
    assert read_task_file(path) == {"a": 1, "b": 2, "c": 3, "task": "t"}


def test_functions_stay_names_and_know_their_folder(tmp_path: Path) -> None:
    """A function is looked up beside the file that names it, not beside the one that includes it; nothing runs."""
    write(tmp_path, "base/helper.py", "raise SystemExit('imported')\n")
    write(tmp_path, "base/base_yaml", "process_docs: !function helper.rows\n")
    path = write(tmp_path, "t.yaml", "include: base/base_yaml\ndoc_to_text: !function other.package.f\n")
    spec = read_task_file(path)
    assert spec["process_docs"] == FunctionRef("helper.rows", tmp_path / "base" / "helper.py")
    assert spec["doc_to_text"] == FunctionRef("other.package.f", None)
    assert spec["doc_to_text"].module == "other.package"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [", r"t\.yaml: not valid YAML: line 2, column 1"),
        ("a: 1\n b: 2", r"line 2, column 3"),
        ("- a\n- b", r"contains list; expected keys and values"),
        ("", r"contains NoneType"),
        ("1: a", r"key 1 is not a text"),
        ("a: !function f", r"!function 'f'; expected <module>\.<function>"),
        ("a: !other x", r"line 1.*!other"),
        ("include: absent_yaml", r"include names 'absent_yaml', which is not a file"),
        ("include: 3", r"include is 3; expected a file name"),
        ("include: t.yaml", r"circular include: t\.yaml -> t\.yaml"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    """Every error in a file is one line with its path and what was expected."""
    with pytest.raises(DataError, match=message) as caught:
        read_task_file(write(tmp_path, "t.yaml", text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    """Reading an absent file is an error of ours."""
    with pytest.raises(DataError, match="cannot read task file"):
        read_task_file(tmp_path / "absent.yaml")


def test_a_repeated_key_is_noted(tmp_path: Path) -> None:
    """Of equal keys the last one counts, as in lm-eval; the note names key and lines, at any depth."""
    path = tmp_path / "twice.yaml"
    path.write_text("task: a\nmetadata:\n  version: 1\n  version: 2\ntask: b\n")
    assert parse_yaml(path)["task"] == "b"
    assert sorted(notes_on_file(path)) == [
        "twice.yaml: the key 'task' is in line 1 and again in line 5; the last one counts",
        "twice.yaml: the key 'version' is in line 3 and again in line 4; the last one counts",
    ]
    path.write_text("task: a\nlist: [{x: 1}, {x: 2}]\nf: !function a.b\ndoc_to_choice: [x, 1, yes]\n")
    assert notes_on_file(path) == []


@pytest.mark.parametrize("choices", ["['{{a}}', '{{b}}']", "{1: x, 2: '{{a}}'}"])
def test_a_template_in_a_list_of_choices_is_noted(tmp_path: Path, choices: str) -> None:
    """lm-eval sends the braces, and the score is that of choices which no row has."""
    path = tmp_path / "t.yaml"
    path.write_text(f"task: t\ndoc_to_choice: {choices}\n")
    (note,) = notes_on_file(path)
    assert note.startswith("t.yaml: the choice '{{a}}' is sent as it stands: no list is a template")
    path.write_text("task: t\ndoc_to_choice: '{{[a, b]}}'\n")
    assert notes_on_file(path) == []
