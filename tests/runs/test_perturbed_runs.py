"""Runs with perturbed copies: what is asked, stored and resumed, and what the results say."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import PlanError
from assaymark.models.fake import FakeModel
from assaymark.options.of_plans import stored_perturbations
from assaymark.perturbations.named import perturbations_of
from assaymark.records import Score, canonical_json
from assaymark.results.evidence.perturbations import PerturbedScores, perturbed_from
from assaymark.results.evidence.records import MetricInput
from assaymark.results.views.samples import marked_texts
from assaymark.runs.run import Run
from assaymark.store import Store
from assaymark.store.public_store import public_store
from assaymark.store.sealed_tasks import SealedTask
from tests.results.made import plain_rows, task_of

SENTENCES = (
    "He said that the government will accommodate him.",
    "I am certain that the committee is going to achieve this.",
    "Which king lived in his beautiful castle?",
    "It is not clear what the waiter believes.",
)
N = 40
CHOICE = """
task: chores
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl, train: shots.jsonl}}
test_split: test
training_split: train
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nA. {{choices.text[0]}}\\nB. {{choices.text[1]}}\\nAnswer:"
doc_to_choice: "{{choices.label}}"
doc_to_target: "{{choices.label.index(key)}}"
metric_list: [{metric: acc}]
"""
TEXT = """
task: sayings
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl, train: shots.jsonl}}
test_split: test
training_split: train
output_type: generate_until
doc_to_text: "{{question}}\\nA:"
doc_to_target: "{{said}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 6}
metric_list: [{metric: exact_match}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a multiple-choice and a generation task on the same forty rows."""
    rows = [
        {
            "question": f"{SENTENCES[at % 4]} {SENTENCES[(at // 4) % 4]} Is {at} even?" if at % 5 else f"{at} + 1?",
            "choices": {"label": ["A", "B"], "text": [f"yes, he said {at} ", f"the {at} men"]},
            "key": "AB"[at % 2],
            "said": f"she told him {at} times",
        }
        for at in range(N)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shots = [{**row, "question": f"{row['question']} (shot, he is not asked)"} for row in rows[:6]]
    (tmp_path / "shots.jsonl").write_text("".join(json.dumps(row) + "\n" for row in shots))
    (tmp_path / "chores.yaml").write_text(CHOICE)
    (tmp_path / "sayings.yaml").write_text(TEXT)
    return tmp_path


def _run(folder: Path, perturb: Any = "mild_mix,gender,typos:0.2", model: Any = None, **options: Any) -> Run:
    return assaymark.evaluate(
        FakeModel(mode="gold", accuracy=0.7) if model is None else model,
        ["chores", "sayings"],
        include_path=[folder],
        data_dir=folder,
        store=str(folder / "runs.sqlite"),
        num_fewshot=2,
        perturb=perturb,
        **options,
    )


@pytest.fixture
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as the current one."""
    monkeypatch.chdir(folder)
    return folder


def _command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return a command's exit code and what it printed."""
    code = main(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def _credit(score: Score) -> Any:
    return score.detail["credit"] if isinstance(score.detail, dict) and "credit" in score.detail else score.value


def _scores(run: Run, task: str, metric: str) -> dict[int, float]:
    return {
        record.request.sample_index: float(_credit(score))
        for record in run.samples(task)
        for score in record.scores
        if score.metric == metric
    }


def test_copies_are_helms_texts_in_the_tasks_own_prompt(in_folder: Path) -> None:
    """The question is perturbed by HELM's rule for `id{index}`; shots, frame, options and gold answer stay."""
    run = _run(in_folder)
    (mild_mix, gender, _) = perturbations_of("mild_mix,gender,typos:0.2")
    originals = {record.request.sample_index: record for record in run.samples("chores")}
    copies = run.samples("chores~mild_mix")
    assert len(originals) == N
    assert 0 < len(copies) <= N
    for record in copies:
        original = originals[record.request.sample_index]
        assert original.sample is not None
        assert record.sample is not None
        question = original.sample.row["question"]
        _, (text,) = mild_mix.texts(f"id{record.request.sample_index}", [], [question])
        assert text != question
        assert record.sample.row == {**original.sample.row, "question": text}
        own = original.request.segments[-1]
        assert record.request.segments == (*original.request.segments[:-1], own.replace(question, text))
        assert record.request.sample_sha256 == original.request.sample_sha256
    unchanged = set(originals) - {record.request.sample_index for record in copies}
    for index in unchanged:
        sample = originals[index].sample
        assert sample is not None
        question = sample.row["question"]
        assert mild_mix.texts(f"id{index}", [], [question])[1] == [question]
    for record in run.samples("chores~gender"):
        index = record.request.sample_index
        original = originals[index]
        assert original.sample is not None
        assert record.sample is not None
        options, (text,) = gender.texts(
            f"id{index}", original.sample.row["choices"]["text"], [original.sample.row["question"]]
        )
        assert record.sample.row["question"] == text
        assert record.sample.row["choices"]["text"] == options == [f"yes, she said {index} ", f"the {index} men"]
        assert record.sample.row["choices"]["label"] == ["A", "B"]


def test_references_of_generated_answers_change_with_fairness_only(in_folder: Path) -> None:
    """HELM perturbs references for gender, and keeps them for robustness."""
    run = _run(in_folder)
    assert {record.request.target.split()[2] for record in run.samples("sayings~gender")} == {"her"}
    assert {record.request.target.split()[2] for record in run.samples("sayings~mild_mix")} == {"him"}


LISTED = """
task: picks
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\\nA. {{choices.text[0]}}\\nB. {{choices.text[1]}}\\nAnswer:"
doc_to_target: "{{key}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 6}
metric_list: [{metric: exact_match}]
"""


def test_listed_options_of_generated_answers_change_with_fairness_only(in_folder: Path) -> None:
    """They are references, as HELM's are: mild_mix keeps them, gender changes them with the question."""
    (in_folder / "picks.yaml").write_text(LISTED)
    run = assaymark.evaluate("fake", "picks", include_path=[in_folder], perturb="mild_mix,gender", store="runs.sqlite")
    (mild_mix, gender) = perturbations_of("mild_mix,gender")
    rows = {record.request.sample_index: record.sample.row for record in run.samples("picks") if record.sample}
    for by, task in ((mild_mix, "picks~mild_mix"), (gender, "picks~gender")):
        copies = run.samples(task)
        assert len(copies) >= N // 4
        for record in copies:
            index = record.request.sample_index
            row = rows[index]
            (first, second), (text,) = by.texts(f"id{index}", row["choices"]["text"], [row["question"]])
            assert record.request.prompt == f"Question: {text}\nA. {first}\nB. {second}\nAnswer:"
            assert (first == row["choices"]["text"][0]) == (by is mild_mix)
            assert text != row["question"]


def test_the_generator_has_the_id_that_helm_ids_declares(in_folder: Path) -> None:
    """A number of rows before the split, or a column; without the key, the position."""
    options: dict[str, Any] = {"include_path": [in_folder], "perturb": "typos:0.3", "store": "runs.sqlite"}
    (typos,) = perturbations_of("typos:0.3")
    for declared in ("", "{after: 4957}", "{column: said}"):
        metadata = f"metadata: {{version: 1, helm_ids: {declared}}}\n" if declared else ""
        (in_folder / "picks.yaml").write_text(LISTED + metadata)
        run = assaymark.evaluate("fake", "picks", **options)
        rows = {record.request.sample_index: record.sample.row for record in run.samples("picks") if record.sample}
        copies = run.samples("picks~typos:0.3")
        assert len(copies) > N // 2
        for record in copies:
            index = record.request.sample_index
            number = {"": index, "{after: 4957}": 4957 + index}.get(declared, rows[index]["said"])
            assert record.sample is not None
            _, (text,) = typos.texts(f"id{number}", [], [rows[index]["question"]])
            assert record.sample.row["question"] == text


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("17", "helm_ids is 17; expected {after: NUMBER}"),
        ("{after: -1}", "expected {after: NUMBER}"),
        ("{after: true}", "expected {after: NUMBER}"),
        ("{after: 1, column: key}", "expected {after: NUMBER}"),
        ("{column: kye}", "does not have the column 'kye' that helm_ids names; its columns: question, choices"),
    ],
)
def test_a_wrong_helm_ids_is_one_line(
    in_folder: Path, capsys: pytest.CaptureFixture[str], declared: str, why: str
) -> None:
    """The line names what is there and what was expected."""
    (in_folder / "picks.yaml").write_text(f"{LISTED}metadata: {{helm_ids: {declared}}}\n")
    code, printed = _command(
        capsys, "run", "--model", "fake", "--tasks", "picks.yaml", "--perturb", "mild_mix", "--store", "runs.sqlite"
    )
    assert code == (2 if "kye" in declared else 3)  # only the rows show that there is no such column
    assert why in " ".join(printed.split())
    assert "Traceback" not in printed


@pytest.mark.parametrize(("task", "metric"), [("chores", "acc"), ("sayings", "exact_match")])
def test_results_equal_a_plain_computation(in_folder: Path, task: str, metric: str) -> None:
    """Differences are paired with the original, and the worst case is HELM's, over all samples."""
    run = _run(in_folder)
    original = _scores(run, task, metric)
    copies = {by: _scores(run, f"{task}~{by}", metric) for by in ("mild_mix", "gender", "typos:0.2")}
    results = {
        (each.by, each.is_worst): each
        for each in perturbed_from(run.row.extra)
        if (each.task, each.metric) == (task, metric)
    }
    assert set(results) == {*((by, False) for by in copies), ("robustness", True), ("fairness", True)}
    for by, own in copies.items():
        result = results[by, False]
        assert result.n == len(own)
        assert result.value == pytest.approx(sum(own.values()) / len(own))
        assert result.difference == pytest.approx(sum(own[i] - original[i] for i in own) / len(own))
        assert result.n_broken == sum(own[i] < original[i] for i in own)
        assert result.n_mended == sum(own[i] > original[i] for i in own)
        assert result.difference_low is not None
        assert result.difference_high is not None
        assert result.difference_low <= result.difference <= result.difference_high
    for family, members in (("robustness", ("mild_mix", "typos:0.2")), ("fairness", ("gender",))):
        lowest = [min([value, *(copies[by][i] for by in members if i in copies[by])]) for i, value in original.items()]
        assert results[family, True].n == N
        assert results[family, True].value == pytest.approx(sum(lowest) / N)
    assert any(result.n_broken for result in results.values()) or metric == "exact_match"


def test_the_same_call_asks_nothing_and_another_perturbation_is_another_run(in_folder: Path) -> None:
    """The perturbations are a part of the key; a run without them has the key that it always had."""
    first = _run(in_folder)
    model = FakeModel(mode="gold", accuracy=0.7)
    again = _run(in_folder, model=model)
    assert (again.id, model.n_requested) == (first.id, 0)
    plain = _run(in_folder, perturb=None)
    assert "perturb" not in plain.row.plan.content
    assert all("perturbed" not in task for task in json.loads(canonical_json(plain.row.plan.content))["tasks"])
    assert len({first.id, plain.id, _run(in_folder, perturb="mild_mix,gender,typos:0.3").id}) == 3


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(in_folder: Path) -> None:
    """After kill -9 only what is missing is asked, and the results are those of a run that was not killed."""
    command = [
        sys.executable, "-m", "assaymark", "run", "--model", "fake", "--model_args", "accuracy=0.7,delay_ms=20",
        "--tasks", "chores,sayings", "--include_path", ".", "--store", "killed.sqlite", "--num_fewshot", "2",
        "--perturb", "mild_mix,gender,typos:0.2", "--quiet",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=in_folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    n_stored = 0
    while time.monotonic() < deadline and n_stored < 60:
        time.sleep(0.1)
        if (in_folder / "killed.sqlite").exists():
            with Store.open(str(in_folder / "killed.sqlite")) as store:
                n_stored = sum(row.n_outputs for row in store.runs())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert n_stored >= 60
    with Store.open(str(in_folder / "killed.sqlite")) as store:
        (row,) = store.runs()
        kept = row.n_outputs
        assert row.status != "finished"
    subprocess.run(command, cwd=in_folder, check=True, capture_output=True, env={**os.environ})
    whole = _run(in_folder, model="fake", model_args="accuracy=0.7")
    with Store.open(str(in_folder / "killed.sqlite")) as store:
        (row,) = store.runs()
        assert row.n_attempts == 2
        assert row.status == "finished"
        assert perturbed_from(row.extra) == perturbed_from(whole.row.extra)
        assert kept < row.n_outputs == whole.row.n_outputs
        _, second = store.attempts(row.run_id)
        assert second.status == "finished"


@pytest.mark.slow
def test_a_run_is_rescored_reproduced_and_compared_with_its_copies(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies are scored again with their originals, asked again from the stored plan, and compared by name."""
    words = in_folder / "words.json"
    words.write_text('{"certain": ["sure"], "clear": ["plain", "evident"]}')
    run = _run(in_folder, perturb=f"mild_mix,synonym:1={words}", model="fake")
    words.unlink()  # the plan stores its content
    results = perturbed_from(run.row.extra)
    store = ["--store", str(in_folder / "runs.sqlite")]
    rescored = _command(capsys, "rescore", run.id, *store, "--include_path", str(in_folder))
    assert rescored[0] == 0, rescored[1]
    assert "chores~mild_mix: " in rescored[1]
    assert perturbed_from(run.row.extra) == results
    (in_folder / "sayings.yaml").write_text(TEXT.replace("exact_match}", "exact_match, ignore_case: true}"))
    changed = _command(capsys, "rescore", run.id, *store, "--tasks", str(in_folder / "sayings.yaml"))
    assert changed[0] == 0, changed[1]
    assert "sayings~synonym:1: " in changed[1]
    (in_folder / "sayings.yaml").write_text(TEXT)
    reproduced = _command(capsys, "reproduce", run.id, *store, "--include_path", str(in_folder))
    assert reproduced[0] == 0, reproduced[1]
    other = _run(in_folder, perturb="mild_mix,gender", model="fake", model_args="seed=1")
    compared = _command(capsys, "compare", run.id, other.id, *store)
    assert "chores~mild_mix" in compared[1]


def test_broken_samples_are_listed_with_their_words(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--broken` lists copies that score lower than the sample as it is, of one perturbation or of all."""
    run = _run(in_folder)
    result = next(e for e in perturbed_from(run.row.extra) if (e.task, e.by) == ("chores", "mild_mix"))
    broken = run.sample_records("chores~mild_mix", only_broken=True)
    assert len(broken) == result.n_broken > 0
    original, copy = _scores(run, "chores", "acc"), _scores(run, "chores~mild_mix", "acc")
    assert {r.request.sample_index for r in broken} == {i for i in copy if copy[i] < original[i]}
    assert len(run.sample_records("chores", only_broken=True)) > len(broken)
    (first, *_) = run.samples_to_json(broken)
    assert isinstance(first["original"], dict)
    assert first["original"]["task"] == "chores"
    assert first["original"]["wrong"] is False
    store = ["--store", str(in_folder / "runs.sqlite")]
    actual = _command(capsys, "show", run.id, "--samples", "chores", "--broken", *store)
    assert "unperturbed: right" in actual[1]
    lonely = _command(capsys, "show", run.id, "--broken", *store)
    assert "--samples TASK --broken" in lonely[1]
    plain = _run(in_folder, perturb=None)
    none = _command(capsys, "show", plain.id, "--samples", "chores", "--broken", *store)
    assert "no perturbed copies of chores" in none[1]


def test_marked_words_make_the_perturbed_text_and_leave_the_shared_ones() -> None:
    """The parts join to the text; those that are not marked are in the original, in order."""
    original, perturbed = "She is a doctor, and I am not.", "she's a  doctro, and I am not."
    parts = marked_texts(original, perturbed)
    assert "".join(part.text for part in parts) == perturbed
    assert [part.text for part in parts if part.is_changed] == ["she's", "  doctro"]
    assert not any(part.is_changed for part in marked_texts(original, original))


REFUSED: Mapping[str, tuple[str, str]] = {
    "one text": (
        'output_type: loglikelihood\ndoc_to_text: "{{question[:9]}}"\ndoc_to_target: "{{question[9:]}}"',
        "not in the answer too",
    ),
    "contexts": (
        (
            'output_type: multiple_choice\ndoc_to_text: "{{0}}"\ndoc_to_choice: "{{[question, said]}}"\n'
            "doc_to_target: said"
        ),
        "its choices are contexts",
    ),
    "rolling": ('output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{question}}"', "answer too"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tasks_without_a_question_of_their_own_are_refused(in_folder: Path, name: str) -> None:
    """A copy with another answer would be another question; the task is named with the reason."""
    fields, why = REFUSED[name]
    metric = "perplexity" if name == "rolling" else "acc"
    (in_folder / "odd.yaml").write_text(
        "task: odd\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        f"{fields}\n"
        f"metric_list: [{{metric: {'word_perplexity' if metric == 'perplexity' else metric}}}]\n"
    )
    with pytest.raises(PlanError, match="task odd cannot be perturbed") as raised:
        assaymark.evaluate(
            "fake", "odd", include_path=[in_folder], perturb="mild_mix", store=str(in_folder / "s.sqlite")
        )
    assert why in str(raised.value)


def test_copies_of_sealed_tasks_are_withheld_with_them(in_folder: Path) -> None:
    """A seal of the data set, or of another one under the task's name, covers copies; a preview shows the same rows."""
    run = _run(in_folder)
    plan = next(task for task in run.row.plan.tasks if task.name == "chores")
    store = run.store
    store.seals.put(SealedTask("chores", plan.dataset_hash, key="5a" * 32, public_fraction=0.3))
    gate = public_store(store)
    results = {r.request.sample_index for r in gate.samples(run.id, "chores") if not r.is_withheld}
    copies = list(gate.samples(run.id, "chores~mild_mix"))
    assert copies
    assert {r.request.sample_index for r in copies if not r.is_withheld} <= results
    assert any(r.is_withheld for r in copies)
    store.seals.put(SealedTask("sayings", "sha256:" + "0" * 64))
    other = public_store(store)
    assert other.why_withheld(run.id, "sayings~mild_mix") is not None


def test_a_perturbed_cost_is_no_share() -> None:
    """Costs below 1 are not shown as per cent, and equal differences of them have no interval."""
    task = task_of("t", MetricInput("cost", higher_is_better=False), MetricInput("acc"))
    scores = PerturbedScores({"t:typos": ("t", "typos", None)})
    for name, value in (("t", 0.001), ("t:typos", 0.002)):
        rows = [*plain_rows(name, [value] * 3, "cost"), *plain_rows(name, [1.0] * 3)]
        assert len(list(scores.watch(rows))) == 6
    cost, accuracy = scores.results([task], ())
    assert (cost.metric, cost.is_share, cost.low, cost.difference_low) == ("cost", False, None, None)
    assert cost.difference == pytest.approx(0.001)
    assert (accuracy.is_share, accuracy.low is not None) == (True, True)


def test_facts_of_another_store_that_are_no_results_are_left_out() -> None:
    """A run's facts may come from a file: entries with other fields or types do not reach a page."""
    assert perturbed_from({"perturbed": [{"task": "x"}, 7, None]}) == ()
    assert perturbed_from({"perturbed": "x"}) == ()
    assert perturbed_from({}) == ()


def test_contrast_sets_are_rows_of_the_users_list(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy has the list's columns, answer included; other rows are counted, and the plan keeps the list."""
    rows = [
        {"id": 3, "row": {"question": "Is 3 odd?", "key": "A"}},
        {"where": {"question": "0 + 1?"}, "row": {"question": "0 + 2?", "key": "B"}},
        {"where": {"question": "0 + 1?"}, "row": {"question": "0 + 3?", "key": "B"}},
        {"id": 400, "row": {"question": "Is 400 odd?"}},
    ]
    listed = in_folder / "contrast.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options: dict[str, Any] = {"include_path": [in_folder], "data_dir": in_folder, "store": "runs.sqlite"}
    model = FakeModel(mode="gold", accuracy=1.0)
    run = assaymark.evaluate(model, ["chores"], perturb=f"contrast_sets={listed}", **options)
    copies = {record.request.sample_index: record for record in run.samples("chores~contrast_sets")}
    drawn = Random("id0").choice([2, 3])
    assert {*copies} == {0, 3}
    assert f"0 + {drawn}?" in copies[0].request.prompt
    assert copies[3].request.prompt.endswith("Question: Is 3 odd?\nA. yes, he said 3 \nB. the 3 men\nAnswer:")
    assert [copies[at].request.target for at in (0, 3)] == ["1", "0"]  # positions
    assert all(_scores(run, "chores~contrast_sets", "acc").values())
    assert any("1 row(s) of contrast_sets' list are of no sample" in note for note in run.notes)
    listed.unlink()
    again = assaymark.evaluate(model, ["chores"], perturb=stored_perturbations(run.row.plan), **options)
    assert again.id == run.id
    listed.write_text('{"id": 3, "row": {"questoin": "Is 3 odd?"}}\n')
    with pytest.raises(PlanError, match=r"sample 3 of chores has the column 'questoin'; the task's columns: question"):
        assaymark.evaluate(model, ["chores"], perturb=f"contrast_sets={listed}", **options)
    code, printed = _command(
        capsys, "run", "--model", "fake", "--tasks", "chores", "--include_path", ".", "--perturb", "contrast_sets"
    )
    assert code == 2
    assert "add contrast_sets=FILE" in printed
