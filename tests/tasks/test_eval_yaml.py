"""Benchmarks with an eval.yaml become tasks of our own; what cannot be done, or must not be, is one clear line."""

import copy
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assaymark import evaluate
from assaymark.audit.task_check import check_task
from assaymark.cli.main import main
from assaymark.errors import AssaymarkError, DataError, ModelUnavailable, UnknownName, UsageError
from assaymark.interop.hub_results import hub_results
from assaymark.models.fake import FakeModel
from assaymark.records import GenerateQuery, Output, Request
from assaymark.runs.rescoring import RescoreOptions, rescore_stored
from assaymark.runs.task_export import TaskExportOptions, export_benchmark
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind
from tests.judges.judge_server import judging_server

ROWS = [
    {"question": f"Question {n}?", "options": [f"option {n}{at}" for at in range(4)], "answer": n % 4, "text": str(n)}
    for n in range(12)
]
CHOICE: dict[str, Any] = {
    "id": "choice",
    "field_spec": {"input": "question", "target": "answer", "choices": "options"},
    "solvers": [{"name": "multiple_choice"}],
    "scorers": [{"name": "choice"}],
}
TEXT: dict[str, Any] = {
    "id": "text",
    "field_spec": {"input": "question", "target": "text"},
    "solvers": [{"name": "generate"}],
    "scorers": [{"name": "match"}],
}


def benchmark(folder: Path, *tasks: Mapping[str, Any], rows: list[dict[str, Any]] = ROWS, **top: Any) -> Path:
    """Write a benchmark's folder; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"name": "made", "evaluation_framework": "inspect-ai", "tasks": list(tasks), **top}
    (folder / "eval.yaml").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def bound_of(name: Path | str, **own: Any) -> list[BoundTask]:
    """Return the tasks of a name, bound to their rows."""
    selected = Catalog.open(lm_eval=False).select([str(name)], own=OwnData(**own)).tasks
    return [bind(task, BindOptions(data_dir=own.get("data_dir"))) for task in selected]


def why_not(name: Path | str) -> str:
    """Return the one line with which a benchmark is refused, when it is read or when its prompts are made."""
    with pytest.raises(AssaymarkError) as refused:
        [list(bound.requests()) for bound in bound_of(name)]
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_tasks_are_named_by_folder_and_id(tmp_path: Path) -> None:
    """One task has its folder's name, several have their ids too, and one of several can be named."""
    one = benchmark(tmp_path / "one", TEXT)
    two = benchmark(tmp_path / "two", TEXT, CHOICE)
    assert [each.plan.name for each in bound_of(one)] == ["one"]
    assert [each.plan.name for each in bound_of(two)] == ["two/text", "two/choice"]
    assert [each.plan.name for each in bound_of(two / "eval.yaml")] == ["two/text", "two/choice"]
    assert [each.plan.name for each in bound_of(two / "choice")] == ["two/choice"]
    with pytest.raises(UnknownName, match="choice"):
        bound_of(two / "choise")


def test_other_names_are_not_of_the_benchmark_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a benchmark's folder, or with one beside a file, names, patterns and files mean what they mean elsewhere."""
    folder = benchmark(tmp_path / "made", TEXT, CHOICE)
    (folder / "own.jsonl").write_text('{"question": "q", "answer": "a"}\n', encoding="utf-8")
    monkeypatch.chdir(folder)
    catalog = Catalog.open(lm_eval=False)
    for name, tasks in {
        "arc_easy": 1,
        "arc_*": 2,
        "own.jsonl": 1,
        "../made/own.jsonl": 1,
        ".": 2,
        "../made/text": 1,
    }.items():
        assert len(catalog.select([name]).tasks) == tasks, name
    with pytest.raises(UnknownName, match="unknown task 'choise'"):
        catalog.select(["choise"])


def test_a_benchmark_of_the_hub_is_read_from_a_local_copy(tmp_path: Path) -> None:
    """`hub:ORG/NAME/ID` is the data set in the folder of local copies; its task says which benchmark it is."""
    copy = benchmark(tmp_path / "org" / "name", {**TEXT, "config": "main"}, CHOICE)
    (copy / "main").mkdir()
    (copy / "test.jsonl").rename(copy / "main" / "test.jsonl")
    (bound,) = bound_of("hub:org/name/text", data_dir=tmp_path)
    assert bound.plan.name == "org/name/text"
    assert len(bound.samples()) == len(ROWS)
    assert "hub:ORG/NAME" in why_not("hub:name")
    clone = benchmark(tmp_path / "org" / "clone", TEXT)
    (bound,) = bound_of("hub:org/clone", data_dir=tmp_path)
    assert len(bound.samples()) == len(ROWS)
    card = "configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: ../name/main/test.jsonl\n"
    (clone / "README.md").write_text(f"---\n{card}---\n", encoding="utf-8")
    with pytest.raises(DataError, match="is not in the folder"):
        bound_of("hub:org/clone", data_dir=tmp_path)
    with pytest.raises(DataError, match="a copy of a revision that nobody states; name hub:org/clone, or"):
        bound_of("hub:org/clone@8f3a", data_dir=tmp_path)


def test_shuffled_options_keep_the_right_one(tmp_path: Path) -> None:
    """Each row's options are in an order of its own, the same each time, and the target is the right one's letter."""
    folder = benchmark(tmp_path / "made", {**CHOICE, "shuffle_choices": True})
    (bound,), (again,) = bound_of(folder), bound_of(folder)
    requests = list(bound.requests())
    assert [request.messages for request in again.requests()] == [request.messages for request in requests]
    letters = []
    for request, row in zip(requests, ROWS, strict=True):
        listed = dict(line.split(") ", 1) for line in request.messages[0].text.splitlines()[-4:])
        options = row["options"]
        assert isinstance(options, list)
        assert sorted(listed.values()) == options
        assert listed[request.target] == options[n if isinstance(n := row["answer"], int) else 0]
        letters.append(request.target)
        output = Output(request.id, 0, text=f"ANSWER: {request.target}")
        (score,) = bound.score(request, bound.samples()[request.sample_index], [output])
        assert score.value == 1.0
    assert len(set(letters)) == 4
    assert letters != ["ABCD"[n % 4] for n in range(12)]


def test_the_rows_are_those_that_the_card_names(tmp_path: Path) -> None:
    """A data set's README names the files of its configurations, by path or pattern, in any folder below its own."""
    folder = benchmark(tmp_path / "made", {**TEXT, "config": "hard", "split": "train"})
    (folder / "files").mkdir()
    (folder / "test.jsonl").rename(folder / "files" / "hard-01.jsonl")
    card = "configs:\n- config_name: hard\n  data_files:\n  - split: train\n    path: files/hard-*.jsonl\n"
    (folder / "README.md").write_text(f"---\n{card}---\n# Made\n", encoding="utf-8")
    (bound,) = bound_of(folder)
    assert len(bound.samples()) == len(ROWS)
    benchmark(folder, {**TEXT, "config": "herd"})
    assert "no configuration 'herd'; it has: hard" in why_not(folder)
    without_card = benchmark(folder.parent / "without", {**TEXT, "config": "hard"})
    assert "no configuration 'hard'; it has: default" in why_not(without_card)


@pytest.mark.parametrize(
    "path", ["../secret.jsonl", "/etc/passwd", "files/../../secret.jsonl", "https://x/y.jsonl", "link.jsonl"]
)
def test_data_files_stay_in_the_folder(path: str, tmp_path: Path) -> None:
    """A card that names a file elsewhere, also through a link, is refused, and the file is not read."""
    folder = benchmark(tmp_path / "made", TEXT)
    (tmp_path / "secret.jsonl").write_text('{"question": "q", "text": "t"}\n', encoding="utf-8")
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    card = f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: {path}\n---\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    assert "is not in" in why_not(folder)


@pytest.mark.parametrize(
    ("key", "path"), [("path", "a**b"), ("path", "."), ("path", "["), ("path", "x" * 5000), ("config", "x" * 5000)]
)
def test_malformed_names_are_one_line(key: str, path: str, tmp_path: Path) -> None:
    """Patterns that no file system takes, and names that are no names, in a card or as a configuration."""
    folder = benchmark(tmp_path / "made", {**TEXT, "config": path} if key == "config" else TEXT)
    card = {"configs": [{"config_name": "default", "data_files": [{"split": "test", "path": path}]}]}
    if key == "path":
        (folder / "README.md").write_text(f"---\n{json.dumps(card)}\n---\n", encoding="utf-8")
    with pytest.raises(DataError):
        bound_of(folder)
    with pytest.raises(DataError, match="is not in the folder"):
        bound_of(benchmark(tmp_path / "other", {**TEXT, "config": "/etc"}))


@pytest.mark.parametrize("target", ["option 00", "E", "literal:F", "1.0", "", "none"])
def test_a_right_answer_that_is_no_option_is_refused(target: str, tmp_path: Path) -> None:
    """Every answer to such a row would be wrong, with nothing said; several letters are several right options."""
    folder = benchmark(tmp_path / "made", CHOICE, rows=[{**ROWS[0], "answer": target}])
    assert "names no option" in why_not(folder) or "and there are 4 options" in why_not(folder)
    (bound,) = bound_of(benchmark(tmp_path / "other", CHOICE, rows=[{**ROWS[0], "answer": "B, D"}]))
    assert next(iter(bound.requests())).target == "B, D"


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "tools": ({"solvers": [{"name": "use_tools"}, {"name": "generate"}]}, "use_tools gives the model tools"),
    "critique": ({"solvers": [{"name": "self_critique"}]}, "self_critique comes before"),
    "epochs of it": ({"solvers": [{"name": "generate"}, {"name": "self_critique"}], "epochs": 2}, "neither epochs"),
    "judge's argument": ({"scorers": [{"name": "model_graded_qa", "args": {"history": True}}]}, "no argument"),
    "judge's text": ({"scorers": [{"name": "model_graded_qa", "args": {"template": "{x}"}}]}, "it may have {question}"),
    "judge's pattern": ({"scorers": [{"name": "model_graded_qa", "args": {"grade_pattern": "C|I"}}]}, "has no group"),
    "misspelt solver": ({"solvers": [{"name": "multiple_choise"}]}, "nearest: multiple_choice"),
    "misspelt scorer": ({"scorers": [{"name": "matches"}]}, "nearest: match"),
    "misspelt key": ({"epoch": 3}, "unknown key 'epoch'; nearest: epochs"),
    "misspelt field": ({"field_spec": {"input": "question", "targets": "text"}}, "key 'targets'; nearest: target"),
    "misspelt argument": ({"scorers": [{"name": "match", "args": {"ignore_cases": True}}]}, "ignore_case"),
    "wrong argument": ({"scorers": [{"name": "match", "args": {"location": "middle"}}]}, "begin, end, any, exact"),
    "misspelt step": ({"scorers": [{"name": "match", "arg": {}}]}, "unknown key 'arg'; nearest: args"),
    "sandbox": ({"field_spec": {"input": "question", "target": "text", "sandbox": "x"}}, "sandbox is for samples"),
    "no generation": ({"solvers": [{"name": "chain_of_thought"}]}, "no solver asks the model"),
    "two generations": ({"solvers": [{"name": "generate"}, {"name": "generate"}]}, "comes after generate"),
    "choice alone": ({"scorers": [{"name": "choice"}]}, "choice reads the answers to multiple_choice"),
    "choices alone": ({"solvers": [{"name": "multiple_choice"}]}, "needs `choices` in field_spec"),
    "reducer": ({"epoch_reducer": "pass_at_5", "epochs": 4}, "needs as many epochs, and epochs is 4"),
    "strange reducer": ({"epoch_reducer": "best", "epochs": 4}, "expected mean, max"),
    "epochs": ({"epochs": 10**9}, "epochs is 1000000000"),
    "no epochs": ({"epochs": True}, "epochs is True"),
    "split": ({"split": "tset"}, "has no split 'tset'; it has test"),
    "column": ({"field_spec": {"input": "question", "target": "txt"}}, "'txt' is undefined"),
    "number": ({"field_spec": {"input": "options", "target": "text"}}, "the question is ["),
    "pattern": ({"scorers": [{"name": "pattern", "args": {"pattern": "(["}}]}, "does not compile"),
    "no pattern": ({"scorers": [{"name": "pattern"}]}, "pattern needs the argument pattern"),
    "fields": ({"field_spec": None}, "field_spec is missing"),
    "list": ({"solvers": "generate"}, "solvers is 'generate'; expected a list"),
    "address": ({"solvers": [{"name": "system_message", "args": {"template": "https://x/y"}}, {"name": "generate"}]},
                "an address; write the text itself"),
    "text": ({"solvers": [{"name": "user_message", "args": {"template": 3}}, {"name": "generate"}]}, "expected a text"),
    "id": ({"id": "../x"}, "expected letters, digits"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    """Each unknown or unfit key, solver, scorer, argument and column is one line that names it and what to do."""
    changes, words = REFUSED[name]
    assert words in why_not(benchmark(tmp_path / "made", {**TEXT, **changes}))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{prompt.__class__}", "attributes, indices and forms are not carried out"),
        ("{0.__class__.__mro__}", "attributes, indices and forms are not carried out"),
        ("{text[0]}", "attributes, indices and forms are not carried out"),
        ("{prompt:>999999999999}", "attributes, indices and forms are not carried out"),
        ("{prompt!r}", "attributes, indices and forms are not carried out"),
        ("{", "write {{ and }} for braces themselves"),
        ("{} {0}", "expected one"),
    ],
)
def test_formats_are_not_carried_out(template: str, words: str, tmp_path: Path) -> None:
    """A template may name values; attributes, indices, conversions and widths of Python's formats are refused."""
    solvers = [{"name": "prompt_template", "args": {"template": template}}, {"name": "generate"}]
    fields = {**TEXT["field_spec"], "metadata": ["text"]}
    assert words in why_not(benchmark(tmp_path / "made", {**TEXT, "solvers": solvers, "field_spec": fields}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: &a [*a]", "is inside the node that it refers to"),
        ("tasks: " + "[" * 5000, "exceeded maximum nesting depth"),
        ("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)), "expand to"),
        ("tasks: 'x\n", "not valid YAML"),
        ("[1, 2]", "expected keys and values"),
        ("tasks: 3", "tasks is 3"),
        ("tasks: [3]", "tasks[0] is 3"),
        ("evaluation_framework: nemo\ntasks: []", "only inspect-ai is read here"),
        ("tasks: []\nversion: 2", "tasks is []"),
        ("name: " + "x" * 2**21, "at most 1,048,576 are read"),
    ],
)  # fmt: skip
def test_hostile_files_are_one_line(text: str, words: str, tmp_path: Path) -> None:
    """Cycles, depth, aliases, other types and a file of megabytes are refused before anything is made of them."""
    folder = benchmark(tmp_path / "made", TEXT)
    (folder / "eval.yaml").write_text(text, encoding="utf-8")
    assert words in why_not(folder)


def test_a_pattern_without_end_fails_its_samples_alone(tmp_path: Path) -> None:
    """A regular expression that takes forever makes its sample failed, in seconds, with a line that names it."""
    scorers = [{"name": "pattern", "args": {"pattern": "(a+)+b"}}]
    (bound,) = bound_of(benchmark(tmp_path / "made", {**TEXT, "scorers": scorers}))
    sample = bound.samples()[0]
    request = bound.request(sample)
    (score,) = bound.score(request, sample, [Output(request.id, 0, text="a" * 40)])
    assert score.value is None
    assert "took more than 2 s" in str(score.detail)
    (score,) = bound.score(request, sample, [Output(request.id, 0, text="aab")])
    assert score.value == 0.0


def test_a_row_without_its_right_option_is_named(tmp_path: Path) -> None:
    """A position that no option has, and a target that is a list, are faults of their row."""
    beyond = [{**ROWS[0], "answer": 4}]
    assert "sample 0: doc_to_target" in (why := why_not(benchmark(tmp_path / "beyond", CHOICE, rows=beyond)))
    assert "number 4 of 4 options" in why
    lists = [ROWS[0], {**ROWS[0], "text": ["a", "b"]}]
    assert "the target is ['a', 'b']; expected a text" in why_not(benchmark(tmp_path / "lists", TEXT, rows=lists))


def test_a_run_asks_a_server_and_keeps_its_scores(tmp_path: Path) -> None:
    """A benchmark of both kinds runs over a chat server: what it is sent, and scores with one interval for a sample."""

    def reply(text: str) -> str:
        return "ANSWER: B" if "A) " in text else text.removeprefix("Question ").rstrip("?")

    folder = benchmark(tmp_path / "made", CHOICE, {**TEXT, "epochs": 3, "epoch_reducer": "pass_at_2"})
    with judging_server(reply) as server:
        store = str(tmp_path / "s.db")
        run = evaluate("local-chat-completions", [str(folder)], model_args=server.arguments, store=store)
        assert len(server.seen) == len(ROWS) * 4
        assert server.seen.count("Question 7?") == 3
    values = {estimate.task: estimate for estimate in run.estimates}
    assert values["made/text"].metric == "inspect_match_pass_at_2"
    assert values["made/choice"].value == pytest.approx(3 / len(ROWS))
    assert values["made/text"].value == 1.0
    assert values["made/text"].n == len(ROWS)
    assert values["made/text"].method == "wilson"


def test_a_revised_answer_is_asked_for_in_three_requests_and_scored_once(tmp_path: Path) -> None:
    """Each sample has an answer, its critique and a revision, of which the last is scored, also when scored again."""

    def reply(text: str) -> str:
        number = next(word for word in text.split() if word.endswith("?")).rstrip("?")
        return number if "[Critique]: it is wrong" in text else "it is wrong" if "Critique: " in text else "none"

    steps = [{"name": "generate"}, {"name": "self_critique"}]
    folder = benchmark(tmp_path / "made", {**TEXT, "solvers": steps})
    store = str(tmp_path / "s.db")
    with judging_server(reply) as server:
        run = evaluate("local-chat-completions", [str(folder)], model_args=server.arguments, store=store)
        assert len(server.seen) == 3 * len(ROWS)
    (estimate,) = run.estimates
    assert (estimate.value, estimate.n) == (1.0, len(ROWS))
    rescored = rescore_stored(store, "last", RescoreOptions(task_files=[str(folder)]))
    (again,) = rescored.run.estimates
    assert (again.value, again.n) == (1.0, len(ROWS))


def test_a_check_finds_what_is_wrong_with_rows(tmp_path: Path) -> None:
    """`task check` takes a benchmark's folder: duplicates and a skewed key are warnings, a broken file is an error."""
    folder = benchmark(tmp_path / "made", TEXT, rows=[{**row, "text": "same"} for row in [*ROWS, *ROWS]])
    texts = [finding.text for finding in check_task(str(folder)).findings]
    assert any("12 row(s) are duplicates" in text for text in texts)
    assert any("the answer key is skewed" in text for text in texts)
    broken = benchmark(tmp_path / "broken", TEXT, rows=[{"question": "q", "text": None}])
    assert [finding.level for finding in check_task(str(broken)).findings] == ["note", "error"]


UNFIT: Mapping[str, tuple[dict[str, Any], str]] = {
    "metric": ({"metric_list": [{"metric": "bleu"}]}, "metric bleu has no scorer in an eval.yaml"),
    "filter": ({"filter_list": [{"name": "l", "filter": [{"function": "lowercase"}]}]}, "filters (lowercase) have no"),
    "turns": ({"doc_to_turns": ["a", "b"], "doc_to_text": None}, "conversations of several turns"),
    "private": ({"private": True}, "is private: its rows are sealed"),
    "likelihood": ({"output_type": "loglikelihood", "metric_list": None}, "is loglikelihood"),
    "nothing": ({"metric_list": []}, "has no metric"),
    "targets": ({"doc_to_target": "{{ ['1', '2'] }}"}, "several right answers"),
    "system": (
        {
            "doc_to_messages": "{{ [{'role': 'system', 'content': q}, {'role': 'user', 'content': q}] | tojson }}",
            "doc_to_text": None,
        },
        "has another system message",
    ),
    "settings": ({"generation_kwargs": {"do_sample": True, "temperature": 1, "min_p": 0.1}}, "generates with min_p"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_an_eval_yaml_cannot_say_is_not_exported(name: str, tmp_path: Path) -> None:
    """A task with what has no counterpart is refused by that, and nothing is written."""
    changes, words = UNFIT[name]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"q": "1+1?", "a": "2"}\n{"q": "1+2?", "a": "3"}\n', encoding="utf-8")
    spec = {"task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
            "test_split": "test", "doc_to_text": "q", "doc_to_target": "a", **changes}  # fmt: skip
    file = tmp_path / "own.yaml"
    file.write_text(json.dumps(spec), encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(words)):
        export_benchmark(str(file), TaskExportOptions(output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_exported_task_asks_the_same(tmp_path: Path) -> None:
    """The benchmark of a task of one's own has its prompts, settings, references and epochs, and is not overwritten."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"q": "What is {1}+1?", "a": "2"}\n{"q": "日本", "a": "[3]"}\n', encoding="utf-8")
    file = tmp_path / "own.yaml"
    spec = {
        "task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test", "doc_to_target": "a", "target_is_text": True, "repeats": 3,
        "doc_to_messages":
            "{{ [{'role': 'system', 'content': 'Be {brief}.'}, {'role': 'user', 'content': q}] | tojson }}",
        "generation_kwargs": {"temperature": 0.5, "max_gen_toks": 5, "until": ["x"]},
        "filter_list": [{"name": "all", "filter": []}],
        "metric_list": [{"metric": "inspect_match_at_least_2", "numeric": True}],
    }  # fmt: skip
    file.write_text(json.dumps(spec), encoding="utf-8")
    written = export_benchmark(str(file), TaskExportOptions(output=tmp_path / "out"))
    assert (written.n_rows, written.differs) == (2, ())
    (own,), (theirs,) = bound_of(file), bound_of(tmp_path / "out")
    for mine, other in zip(own.requests(), theirs.requests(), strict=True):
        assert (other.messages, other.target, other.queries) == (mine.messages, mine.target, mine.queries)
    assert [(each.name, each.kwargs) for each in theirs.metrics] == [(each.name, each.kwargs) for each in own.metrics]
    with pytest.raises(UsageError, match="exists already"):
        export_benchmark(str(file), TaskExportOptions(output=tmp_path / "out"))


def test_rows_that_a_store_has_sealed_are_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under their task's name nor as rows of another file."""
    monkeypatch.chdir(tmp_path)
    store = str(tmp_path / "store.sqlite")
    for name in ("exam.csv", "copy.csv"):
        Path(name).write_text("question,answer\nWhat is 1+1 and more?,2\nWhat is 2+2 and more?,4\n", encoding="utf-8")
    assert main(["task", "seal", "exam.csv", "--store", store]) == 0
    for name in ("exam.csv", "copy.csv"):
        with pytest.raises(UsageError, match="its rows are sealed in"):
            export_benchmark(name, TaskExportOptions(output=tmp_path / "out", store=store))
    assert not (tmp_path / "out").exists()
    assert export_benchmark("copy.csv", TaskExportOptions(output=tmp_path / "out", store="other.sqlite")).n_rows == 2


def test_shots_are_written_out_and_repeats_that_do_not_count_are_named(tmp_path: Path) -> None:
    """A prompt has the task's own examples; of repeated answers exact_match scores the first, so one is asked for."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"q": "{at}+1?", "a": "{at + 1}"}}\n' for at in range(3)), encoding="utf-8")
    spec = {"task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
            "test_split": "test", "fewshot_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "a",
            "num_fewshot": 1, "repeats": 4, "metric_list": [{"metric": "exact_match"}],
            "generation_kwargs": {"do_sample": True, "temperature": 0.5, "top_p": 0.9}}  # fmt: skip
    file = tmp_path / "own.yaml"
    file.write_text(json.dumps(spec), encoding="utf-8")
    written = export_benchmark(str(file), TaskExportOptions(output=tmp_path / "out"))
    (own,), (theirs,) = bound_of(file), bound_of(tmp_path / "out")
    asked = ["".join(request.segments) for request in own.requests()]
    assert all(prompt.count("+1?") == 2 for prompt in asked)
    assert [request.messages[-1].text for request in theirs.requests()] == asked
    (query,) = next(iter(theirs.requests())).queries
    assert isinstance(query, GenerateQuery)
    assert (query.settings.top_p, query.settings.repeats) == (0.9, 1)
    assert "of which the first counts" in written.differs[-1]


JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        10**30,
        1.5,
        "",
        "x" * 3000,
        "{",
        "{a.b}",
        "{{",
        "%",
        "../x",
        "\0",
        [],
        [[]],
        {},
        {"a": {}},
        ["a"],
    ),
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON value, itself included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places_in(each, (*path, key))


def with_junk(content: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """Return a JSON value with another one at a path."""
    if not path:
        return junk
    changed = copy.copy(content)
    changed[path[0]] = with_junk(content[path[0]], path[1:], junk)
    return changed


def test_any_value_in_any_place_is_read_or_refused(tmp_path: Path) -> None:
    """Values of all kinds in all places of a file, and of its rows, give a task or one line, and never a traceback."""
    solvers = [{"name": "system_message", "args": {"template": "{text}", "n": 1}},
               {"name": "multiple_choice", "args": {"cot": True, "max_tokens": 5}}]  # fmt: skip
    fields = {**CHOICE["field_spec"], "metadata": ["text"]}
    scorers = [{"name": "choice"}, {"name": "f1", "args": {"stop_words": ["a"]}},
               {"name": "match", "args": {"location": "any", "numeric": True}}]  # fmt: skip
    whole = {"tasks": [{**CHOICE, "solvers": solvers, "scorers": scorers, "field_spec": fields, "epochs": 2}]}
    folder = benchmark(tmp_path / "made", CHOICE, rows=ROWS[:2])
    cases = [(path, junk) for path in places_in(whole) for junk in JUNK]
    refused = []
    for path, junk in random.Random(7).sample(cases, 250):
        (folder / "eval.yaml").write_text(json.dumps(with_junk(whole, path, junk)), encoding="utf-8")
        refused.append(refusal(folder))
    (folder / "eval.yaml").write_text(json.dumps(whole), encoding="utf-8")
    for path in places_in(ROWS[0]):
        for junk in JUNK if path else ():
            (folder / "test.jsonl").write_text(json.dumps(with_junk(ROWS[0], path, junk)) + "\n", encoding="utf-8")
            refused.append(refusal(folder))
    assert sum(map(bool, refused)) > 200
    assert [line for line in refused if "\n" in line] == []


def refusal(folder: Path) -> str:
    """Return how a benchmark is refused; empty where its prompts are made and answers scored."""
    try:
        for bound in bound_of(folder):
            for sample, request in zip(bound.samples(), bound.requests(), strict=True):
                outputs = [Output(request.id, 0, at, text="ANSWER: A") for at in range(request.n_outputs)]
                bound.score(request, sample, outputs)
    except AssaymarkError as error:
        return str(error)
    return ""


def test_a_registered_benchmark_gives_an_entry_for_its_leaderboard(tmp_path: Path) -> None:
    """A run of a benchmark of the Hub by its eval.yaml, on all of its rows, can be written as `.eval_results`."""
    rows = [{**ROWS[n % 12], "question": f"Question {n}?"} for n in range(198)]
    task = {**CHOICE, "id": "gpqa_diamond", "config": "gpqa_diamond", "split": "train"}
    copy_of_it = benchmark(tmp_path / "data" / "Idavidrein" / "gpqa", task, rows=rows)
    (copy_of_it / "gpqa_diamond").mkdir()
    (copy_of_it / "test.jsonl").rename(copy_of_it / "gpqa_diamond" / "train.jsonl")
    data, store = str(tmp_path / "data"), str(tmp_path / "s.db")
    run = evaluate("fake", "hub:Idavidrein/gpqa/gpqa_diamond", data_dir=data, store=store)
    (made,), refused = hub_results(run.store, run.id)
    assert (made.benchmark.id, made.value, refused) == ("gpqa_diamond", run.estimates[0].value, [])


class EndsOnce(FakeModel):
    """Ends the first time it is asked for critiques, after one of them."""

    has_ended = False

    def answer(self, requests: Sequence[Request], **options: Any) -> Iterator[Output]:
        """Yield the outputs."""
        for number, output in enumerate(super().answer(requests, **options)):
            if requests[0].turn == 1 and number == 1 and not self.has_ended:
                self.has_ended = True
                raise ModelUnavailable("it ended")
            yield output


def test_a_revision_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    """A run that ended between critiques asks for the others, and gives the scores of one that did not end."""
    steps = [{"name": "generate"}, {"name": "self_critique"}]
    folder = benchmark(tmp_path / "made", {**TEXT, "solvers": steps, "scorers": [{"name": "f1"}]})
    model, whole = EndsOnce(), FakeModel()
    with pytest.raises(ModelUnavailable):
        evaluate(model, str(folder), store=str(tmp_path / "s.db"))
    resumed = evaluate(model, str(folder), store=str(tmp_path / "s.db"))
    assert resumed.estimates == evaluate(whole, str(folder), store=str(tmp_path / "other.db")).estimates
    assert model.n_requested < whole.n_requested + 2
