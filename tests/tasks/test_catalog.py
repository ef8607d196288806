"""The catalogue: names, groups, tags, globs, files, old names, and what happens without lm_eval."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assaymark import settings
from assaymark.errors import DataError, MissingExtra, UnknownName, UsageError
from assaymark.tasks import lm_eval_names, task_index
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.task_index import copy_package_indexes, index_package
from tests.tasks.folders import task_spec, write_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tasks of one tag, a group of both, and a group above it."""
    root = tmp_path / "mine"
    write_task(root, task_spec("sums", tag="arithmetic"))
    write_task(root, task_spec("more_sums", tag=["arithmetic", "hard"], num_fewshot=2))
    write_task(
        root,
        {
            "group": "both",
            "group_alias": "Both",
            "task": ["sums", {"task": "more_sums", "num_fewshot": 3}],
            "aggregate_metric_list": [{"metric": "acc", "weight_by_size": False, "filter_list": "none"}],
            "metadata": {"version": 2},
        },
    )
    write_task(root, {"group": "all", "task": ["both", "arithmetic_letters", {"group": "inner", "task": ["sums"]}]})
    write_task(root, task_spec("letters", tag="arithmetic_letters"))
    return root


def open_with(folder: Path) -> Catalog:
    """Return a catalogue without lm_eval."""
    return Catalog.open([folder], lm_eval=False)


def test_names_tags_and_groups(folder: Path) -> None:
    """A task, a tag and a group are selected by name; a group's overrides reach its tasks."""
    catalog = open_with(folder)
    assert [task.name for task in catalog.select(["arithmetic"]).tasks] == ["more_sums", "sums"]
    selection = catalog.select(["both"])
    assert [(task.name, task.num_fewshot, task.groups) for task in selection.tasks] == [
        ("sums", None, ("both",)),
        ("more_sums", 3, ("both",)),
    ]
    (group,) = selection.groups
    assert (group.name, group.alias, group.children, group.version) == ("both", "Both", ("sums", "more_sums"), "2")
    (metric,) = group.metrics
    assert (metric.metric, metric.weight_by_size, metric.filters) == ("acc", False, ("none",))


def test_groups_contain_groups_and_tags(folder: Path) -> None:
    """A group of groups lists its own children, every task is there once, inner groups are named by outer ones."""
    selection = open_with(folder).select(["all"])
    assert [task.name for task in selection.tasks] == ["sums", "more_sums", "letters"]
    assert {group.name: group.children for group in selection.groups} == {
        "all": ("both", "letters", "all::inner"),
        "both": ("sums", "more_sums"),
        "all::inner": ("sums",),
    }
    assert selection.tasks[0].groups == ("all", "both", "all::inner")


def test_one_name_for_two_tasks_is_refused(folder: Path) -> None:
    """A task and the same task changed by a group cannot be in one run."""
    with pytest.raises(UsageError, match="two different tasks are called 'more_sums'"):
        open_with(folder).select(["more_sums", "both"])


def test_globs_files_and_folders(folder: Path) -> None:
    """A pattern, a YAML path and a folder select the tasks they match or contain."""
    catalog = open_with(folder)
    assert [task.name for task in catalog.select(["more_*ums"]).tasks] == ["more_sums"]
    assert [task.name for task in catalog.select([str(folder / "sums.yaml")]).tasks] == ["sums"]
    alone = Catalog.open(lm_eval=False)
    selected = alone.select([str(folder / "sums.yaml")]).tasks[0]
    assert (selected.origin, selected.trusted[0]) == ("user", folder)
    with pytest.raises(DataError, match="no file"):
        alone.select([str(folder / "absent.yaml")])
    with pytest.raises(DataError, match=r"no file 'questions\.csv' in "):
        alone.select(["questions.csv"])
    (folder / "template.yaml").write_text("output_type: multiple_choice\n")
    with pytest.raises(DataError, match="has neither 'task' nor 'group'"):
        alone.select([str(folder / "template.yaml")])
    (folder / "template.yaml").write_text("task: [1, 2]\n")
    with pytest.raises(DataError, match=r"template\.yaml: task is \[1, 2\], a list; expected a name"):
        alone.select([str(folder / "template.yaml")])
    (folder / "template.yaml").write_text("output_type: multiple_choice\n")
    (folder / "all.yaml").unlink()
    (folder / "both.yaml").unlink()
    assert [task.name for task in alone.select([str(folder)]).tasks] == ["letters", "more_sums", "sums"]


def test_unknown_names_offer_the_nearest(folder: Path) -> None:
    """The error about a misspelt name lists similar names."""
    with pytest.raises(UnknownName, match="unknown task 'sumss'; nearest: sums"):
        open_with(folder).select(["sumss"])
    with pytest.raises(UnknownName, match="unknown task pattern"):
        open_with(folder).select(["zzz*"])
    with pytest.raises(UsageError, match="no tasks"):
        open_with(folder).select([])


def test_truthfulqas_tag_has_the_three_tasks_of_lm_eval() -> None:
    """The tag does not select mc2 twice: as it is scored now, and as it was in 2023."""
    result = Catalog.open(lm_eval=False).select(["truthfulqa"]).tasks
    assert {task.name for task in result} == {"truthfulqa_gen", "truthfulqa_mc1", "truthfulqa_mc2"}


def test_old_names_still_work() -> None:
    """Names of earlier harness versions are replaced, with a note."""
    catalog = Catalog.open(lm_eval=False)
    selection = catalog.select(["truthfulqa-mc", "arc-challenge", "hendrycksTest-anatomy"])
    assert [task.name for task in selection.tasks] == [
        "truthfulqa_mc1",
        "truthfulqa_mc2",
        "arc_challenge",
        "mmlu_anatomy",
    ]
    assert "arc-challenge is now called arc_challenge" in selection.notes
    assert len(catalog.select(["hendrycksTest-*"]).tasks) == 57
    assert [task.name for task in catalog.select(["ARC-Easy,winogrande"]).tasks] == ["arc_easy", "winogrande"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ceval", "ceval-valid"), ("mgsm", "mgsm_direct")],
)
def test_short_names_of_lm_evals_benchmarks(name: str, meant: str) -> None:
    """A short name is lm-eval's longer one; without lm-eval the error names the extra."""
    with pytest.raises(MissingExtra, match=rf"'{meant}'.*\.\[lm-eval\]"):
        Catalog.open(lm_eval=False).select([name])


def test_a_short_name_of_a_benchmark_of_the_library() -> None:
    """It stands for the longer one, without lm-eval too."""
    assert [task.name for task in Catalog.open(lm_eval=False).select(["medqa"]).tasks] == ["medqa_4options"]


def test_a_file_without_its_ending_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--tasks quiz` beside quiz.csv means the file, also in another folder; a folder that is not there is no error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.csv").write_text("question,answer\nWhy?,so\n")
    with pytest.raises(UnknownName, match=r"quiz\.csv; a file is named with its ending"):
        Catalog.open(lm_eval=False).select(["quiz"])
    with pytest.raises(UnknownName, match=rf"{tmp_path}/quiz\.csv; a file is named"):
        Catalog.open(lm_eval=False).select([f"{tmp_path}/quiz"])
    for name in ("/no/such/quiz", "no\0where/quiz"):
        with pytest.raises(UnknownName):
            Catalog.open(lm_eval=False).select([name])


def test_a_name_with_which_several_begin_lists_them() -> None:
    """`bigbench` is not a task: its error lists groups and the extra that has them, `gpqa_diamond`'s our own tasks."""
    catalog = Catalog.open(lm_eval=False)
    with pytest.raises(UnknownName, match=r"bigbench_generate_until.*\d+ names begin or end with it .*lm-eval"):
        catalog.select(["big-bench"])
    with pytest.raises(UnknownName, match="gpqa_diamond_n_shot") as caught:
        catalog.select(["gpqa_diamond"])
    assert "only lm_eval" not in str(caught.value)
    with pytest.raises(UnknownName, match="hendrycks_math500"):
        catalog.select(["math500"])


def test_a_benchmark_that_is_elsewhere_says_what_it_needs() -> None:
    """An agents' benchmark is not confused with a name that looks like it."""
    with pytest.raises(UnknownName, match=r"SWE-bench.*neither this library nor lm-eval.*Inspect"):
        Catalog.open(lm_eval=False).select(["SWE-bench"])


def test_mmlu_folds_to_four_groups() -> None:
    """Our mmlu has four groups of the 57 subjects."""
    selection = Catalog.open(lm_eval=False).select(["mmlu"])
    assert len(selection.tasks) == 57
    assert selection.groups[0].name == "mmlu"
    assert len(selection.groups) == 5
    assert all(task.groups[0] == "mmlu" and len(task.groups) == 2 for task in selection.tasks)


def test_a_users_task_wins_and_prefixes_choose(folder: Path) -> None:
    """The user's task of a name replaces ours; a prefix selects one of them."""
    write_task(folder, task_spec("arc_easy"))
    catalog = open_with(folder)
    assert catalog.select(["arc_easy"]).tasks[0].origin == "user"
    assert catalog.select(["assaymark:arc_easy"]).tasks[0].origin == "assaymark"


def test_broken_files_are_listed_with_their_error(folder: Path) -> None:
    """A file that cannot be read does not hide the others; it is listed with the reason and refused when selected."""
    (folder / "broken.yaml").write_text("task: [")
    catalog = open_with(folder)
    entry = next(entry for entry in catalog.entries() if entry.name == "broken")
    assert not entry.runnable_here
    assert "not valid YAML" in (entry.reason or "")
    with pytest.raises(DataError, match="not valid YAML"):
        catalog.select(["broken"])
    assert catalog.select(["sums"]).tasks


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"group": "g", "task": ["absent"]}, "has 'absent', and no task, group or tag has that name"),
        ({"group": "g", "task": [3]}, "has the member 3; expected a name"),
        ({"group": "g", "task": ["g"]}, "group 'g' contains itself: g -> g"),
        (
            {"group": "g", "task": ["sums"], "aggregate_metric_list": [{"metric": "acc", "aggregation": "max"}]},
            "expected mean",
        ),
        ({"group": "g", "task": ["sums"], "aggregate_metric_list": ["acc"]}, "expected items such as `metric: acc`"),
    ],
)
def test_faulty_groups_are_named(folder: Path, group: dict[str, Any], message: str) -> None:
    """A group with a fault is refused with its file and what was expected."""
    write_task(folder, group)
    with pytest.raises(DataError, match=message):
        open_with(folder).select(["g"])


def test_a_group_may_define_a_task(folder: Path) -> None:
    """A member that is not a known task but has keys of its own is a task named by its group."""
    member = {**task_spec("own"), "doc_to_text": "{{text}}"}
    write_task(folder, {"group": "g", "task": [member]})
    selection = open_with(folder).select(["g"])
    assert [task.name for task in selection.tasks] == ["g::own"]
    assert selection.groups[0].children == ("g::own",)


def test_the_index_is_valid_until_a_file_changes(folder: Path) -> None:
    """A second opening reads the index; a new or changed file is found nevertheless."""
    open_with(folder)
    notes = {json.loads(path.read_text())["root"]: path for path in (settings.cache_folder() / "task_index").iterdir()}
    note = notes[str(folder)]
    note.write_text(note.read_text().replace('"more_sums"', '"from_the_index"'))
    assert "from_the_index" in {entry.name for entry in open_with(folder).entries()}
    write_task(folder, task_spec("new"))
    names = {entry.name for entry in open_with(folder).entries()}
    assert "new" in names
    assert "from_the_index" not in names
    note.write_text("damaged")
    assert "new" in {entry.name for entry in open_with(folder).entries()}


def test_a_packages_files_are_looked_at_once(folder: Path) -> None:
    """In one process the same list is returned until a file is added to a folder of the package or removed."""
    write_task(folder / "inner", task_spec("deep"))
    files = index_package(folder)
    assert index_package(folder) is files
    new = write_task(folder / "inner", task_spec("new"))
    assert {file.name for file in index_package(folder)} - {file.name for file in files} == {"new"}
    new.unlink()
    assert index_package(folder) == files


def test_only_packages_indexes_are_copied_and_are_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the other cache folder a package's files are not parsed again, and a user's folder is not named."""
    theirs = tmp_path / "theirs"
    write_task(theirs, task_spec("secret"))
    open_with(theirs)
    files = index_package(folder)
    copy_package_indexes(tmp_path / "other")
    for note in (tmp_path / "other" / "task_index").iterdir():
        assert json.loads(note.read_text())["root"] != str(theirs)
        note.write_text(note.read_text().replace('"more_sums"', '"from_the_index"'))
    monkeypatch.setenv("ASSAYMARK_CACHE", str(tmp_path / "other"))
    names = {file.name for file in files} - {"more_sums"} | {"from_the_index"}
    assert {file.name for file in index_package(folder)} == names


def test_without_lm_eval_its_names_are_known() -> None:
    """A task that only lm_eval has is listed; selecting it is an error with the install command."""
    catalog = Catalog.open(lm_eval=False)
    entries = {entry.name: entry for entry in catalog.entries()}
    assert len(entries) > 14_000
    assert not entries["asdiv"].runnable_here
    assert "pip install" in (entries["asdiv"].reason or "")
    with pytest.raises(MissingExtra, match=r"\.\[lm-eval\]"):
        catalog.select(["asdiv"])
    with pytest.raises(MissingExtra):
        catalog.select(["asdiv*"])
    with pytest.raises(UnknownName, match="asdiv"):
        catalog.select(["asdivv"])


def test_names_are_written_by_kind(folder: Path, tmp_path: Path) -> None:
    """The script lists tasks, groups and the tags that are neither."""
    target = tmp_path / "names" / "names.json.gz"
    assert lm_eval_names.write_names(folder, target) == 8
    content = json.loads(gzip.decompress(target.read_bytes()))
    assert content["task"] == ["letters", "more_sums", "sums"]
    assert content["group"] == ["all", "both"]
    assert content["tag"] == ["arithmetic", "arithmetic_letters", "hard"]


@pytest.mark.slow
def test_the_shipped_names_are_those_of_the_installed_version(lm_files: Catalog) -> None:
    """The list in the package equals that of lm_eval 0.4.13, name by name."""
    known = lm_eval_names.known_names()
    assert len(known) == 14_683
    selected = {entry.name for entry in lm_files.entries() if entry.origin == "lm-eval"}
    assert selected <= set(known)
    assert {name for name, kind in known.items() if kind != "tag"} <= {entry.name for entry in lm_files.entries()}


def test_every_task_of_lm_eval_can_be_named(lm_files: Catalog) -> None:
    """With lm_eval installed all of its tasks, groups and tags are in the catalogue, and ours come first."""
    entries = {entry.name: entry for entry in lm_files.entries()}
    assert set(lm_eval_names.known_names()) <= set(entries)
    assert entries["arc_easy"].origin == "assaymark"
    assert entries["asdiv"].origin == "lm-eval"
    assert entries["asdiv"].runnable_here
    assert entries["mmmu_val_accounting"].origin == "assaymark"
    assert entries["chartqa"].runnable_here
    assert lm_files.select(["lm-eval:arc_easy"]).tasks[0].origin == "lm-eval"


def test_an_include_path_must_be_a_folder(tmp_path: Path) -> None:
    """A path that is not a directory is refused."""
    with pytest.raises(DataError, match="is not a directory"):
        Catalog.open([tmp_path / "absent"], lm_eval=False)


def test_an_index_of_another_version_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that has more metrics runs more tasks, though no file of theirs changed."""
    task_index.index_folder(folder)
    monkeypatch.setattr(task_index, "why_not_runnable", lambda *_: "not in this version")
    assert {each.reason for each in task_index.index_folder(folder)} == {None}
    monkeypatch.setattr(settings, "VERSION", "0.9")
    assert {each.reason for each in task_index.index_folder(folder)} == {None, "not in this version"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_folder_whose_name_is_no_text_is_indexed(tmp_path: Path) -> None:
    """A name in Latin-1, as older archives have it, is kept by the index."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9t"))
    write_task(folder, task_spec("summed"))
    for _ in range(2):  # read, and from the cache
        assert [each.name for each in task_index.index_folder(folder)] == ["summed"]
        assert [each.name for each in task_index.index_folder(tmp_path)] == ["summed"]


def test_a_list_of_tasks_needs_no_arrays_database_or_patterns() -> None:
    """What takes a tenth of a second to import, or to compile, stays out of `ls tasks`."""
    unneeded = ("numpy", "sqlalchemy", "torch", "assaymark.scoring.choice_letters")
    program = (
        "import sys; from assaymark.cli.main import main; main(['ls', 'tasks']); "
        f"sys.exit(repr([name for name in {unneeded} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]"
