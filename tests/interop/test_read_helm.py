"""HELM's run folders with perturbed copies, trials and options scored one by one (logs/helm_perturbed)."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.interop.helm_files import read_folder
from assaymark.interop.read_helm import read_helm
from assaymark.interop.read_imported import read_imported
from assaymark.records.json_values import list_at, object_at, object_of, objects_at
from assaymark.results.evidence.perturbations import perturbed_from
from assaymark.runs.comparison import compare_runs, stored_runs
from assaymark.runs.exporting import import_run
from tests.tasks.folders import task_spec, write_rows, write_task

LOGS = Path(__file__).parent / "logs" / "helm_perturbed"
TASK = "chores:method=joint"
COPIES = {"mild_mix", "mild_mix-seed1", "typos:0.05", "typos:0.05-seed1", "gender", "gender-seed1"}


def _stats(name: str) -> list[dict[str, Any]]:
    stats: list[dict[str, Any]] = json.loads((LOGS / name / "stats.json").read_text())
    return stats


def _described(stat: dict[str, Any]) -> tuple[str, str]:
    """Return our label of a statistic's perturbation, and what it is computed on."""
    by = stat["name"].get("perturbation")
    if by is None:
        return "", "original"
    strength = f":{by['prob']:g}" if by["name"] == "typos" else ""
    return by["name"] + strength + (f"-seed{by['seed']}" if "seed" in by else ""), by["computed_on"]


def test_values_of_copies_and_worst_cases_are_helms(tmp_path: Path) -> None:
    """Each mean of the copies, and the worst case over two trials, equals what HELM's own runner wrote."""
    imported = import_run(str(tmp_path / "store.sqlite"), LOGS / "joint")
    assert imported.notes == ()
    run = imported.run
    worst = {each.by: each for each in perturbed_from(run.row.extra) if each.is_worst and each.metric == "exact_match"}
    compared = set()
    for stat in _stats("joint"):
        if stat["name"]["name"] != "exact_match":
            continue
        label, computed_on = _described(stat)
        if computed_on == "worst" and label in {"robustness", "fairness"}:
            assert worst[label].value == pytest.approx(stat["mean"])
            compared.add(label)
        elif computed_on == "perturbed" or not label:
            value = run.estimate(f"{TASK}~{label}" if label else TASK, "exact_match").value
            assert value == pytest.approx(stat["mean"])
            compared.add(label)
    assert compared == {"", "robustness", "fairness", *COPIES}
    assert {task.perturbed["by"] for task in run.row.plan.tasks if task.perturbed} == COPIES
    assert run.verify() == []


@pytest.mark.slow
def test_copies_have_their_originals_hash_and_all_trials_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy is shown beside its original, with the changed words marked; each trial's answer and score is stored."""
    store = str(tmp_path / "store.sqlite")
    run = import_run(store, LOGS / "joint").run
    originals = {record.request.sample_index: record for record in run.samples(TASK)}
    copies = list(run.samples(f"{TASK}~gender"))
    assert len(copies) == 4
    for copy in copies:
        original = originals[copy.request.sample_index]
        assert copy.request.sample_sha256 == original.request.sample_sha256
        assert copy.request.prompt != original.request.prompt
        assert len(copy.outputs) == 2
    details = [score.detail for score in originals[0].scores if score.metric == "exact_match"]
    assert len(list_at(object_of(details[0], "detail"), "trials")) == 2
    assert main(["show", run.short_id, "--samples", TASK, "--broken", "--store", store]) == 0
    assert "unperturbed" in capsys.readouterr().out


def test_options_scored_one_by_one_are_chosen_as_helm_chooses() -> None:
    """The calibrated log-likelihoods, taken from the tokens, have their highest value where HELM predicts."""
    stats = json.loads((LOGS / "calibrated" / "per_instance_stats.json").read_text())
    predicted = [
        stat["mean"] for entry in stats for stat in entry["stats"] if stat["name"]["name"] == "predicted_index"
    ]
    nats = [[choice.nats for choice in sample.choices] for sample in read_helm(LOGS / "calibrated").samples]
    assert [each.index(max(each)) for each in nats] == predicted
    assert len(set(predicted)) > 1


def test_what_helm_publishes_is_enough(tmp_path: Path) -> None:
    """Without scenario_state.json the files of HELM's pages give the same values, prompts and answers."""
    shutil.copytree(LOGS / "joint", tmp_path / "joint")
    (tmp_path / "joint" / "scenario_state.json").unlink()
    whole, published = read_imported(LOGS / "joint"), read_imported(tmp_path / "joint")
    assert published.notes == ()
    values = [{(each.task, each.metric): each.value for each in run.estimates} for run in (whole, published)]
    assert values[0] == values[1]
    assert [each.prompt for each in whole.requests] == [each.prompt for each in published.requests]
    assert [each.text for each in whole.outputs] == [each.text for each in published.outputs]
    (tmp_path / "joint" / "per_instance_stats.json").unlink()  # the means that HELM's pages show are left
    assert read_imported(tmp_path / "joint").estimates[0].value == whole.estimates[0].value


@pytest.mark.slow
def test_a_run_of_ours_is_compared_copy_by_copy(tmp_path: Path) -> None:
    """Our run of the same questions is paired with HELM's, copies only where their texts are the same."""
    helm = read_helm(LOGS / "joint")
    rows: list[Any] = [{"question": "Q", "choices": ["a", "b", "c"], "answer": 0}] * 4  # HELM's ids begin with shots
    rows += [
        {
            "question": object_at(sample.row, "input")["text"],
            "choices": [reference["text"] for reference in objects_at(sample.row, "references")],
            "answer": sample.gold,
        }
        for sample in helm.samples
        if sample.task == TASK
    ]
    write_rows(tmp_path, rows, rows)
    ours = assaymark.evaluate(
        "fake", str(write_task(tmp_path, task_spec("ours"))), store=str(tmp_path / "store.sqlite"),
        perturb="mild_mix,gender,typos:0.05",
    )  # fmt: skip
    theirs = import_run(str(tmp_path / "store.sqlite"), LOGS / "joint").run
    (pair,) = compare_runs(stored_runs(str(tmp_path / "store.sqlite"), [ours.id, theirs.id])).pairs
    n_paired = {line.name: line.n for line in pair.tasks}
    assert n_paired["ours"] == 6
    assert n_paired["ours~mild_mix"] == 6  # the generator is that of the id, which is the same here
    assert n_paired["ours~gender"] == 4


NOT_READ = {  # statistics that a folder has and a run of ours does not, with the reason
    "training_co2_cost": "HELM knows no model's cost: it has no value",
    "training_energy_cost": "HELM knows no model's cost: it has no value",
}


@pytest.mark.parametrize("folder", ["helm_perturbed/joint", "helm_perturbed/calibrated", "helm/simple_mcqa"])
def test_every_statistic_is_read(tmp_path: Path, folder: str) -> None:
    """Each name in the folder's files is a metric of the run, one of its numbers with HELM's mean, or has no value."""
    path = LOGS.parent / folder
    run = import_run(str(tmp_path / "store.sqlite"), path).run
    content = run.to_json()
    read = {task: object_of(numbers, task) for task, numbers in object_at(content, "statistics").items()}
    scores = {(each["task"], each["metric"]) for each in objects_at(content, "estimates")}
    stats = json.loads((path / "stats.json").read_text())
    n_compared = 0
    for stat in stats:
        label, computed_on = _described(stat)
        if (label and computed_on != "perturbed") or stat["name"].get("split") != "test" or "sub_split" in stat["name"]:
            continue  # worst cases, originals of copies, and parts: computed from the samples here
        name = stat["name"]["name"]
        task = next(task for task in read if task.partition("~")[2] == label)
        if name in NOT_READ:
            assert stat.get("mean") is None
        elif (task, name) not in scores:
            assert read[task][name] == pytest.approx(stat["mean"])
            n_compared += 1
    assert n_compared > 15
    by_instance = json.loads((path / "per_instance_stats.json").read_text())
    names = {stat["name"]["name"] for entry in by_instance for stat in entry["stats"]}
    known = {name for _, name in scores} | {name for numbers in read.values() for name in numbers}
    assert names - known <= set(NOT_READ)
    if folder.endswith("joint"):
        assert {
            "num_references",
            "num_train_trials",
            "num_prompt_tokens",
            "finish_reason_unknown",
            "prompt_truncated",
        } <= {*read[TASK]}


def test_answers_have_helms_tokens_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens of prompt and answer and how it ended are those of the outputs, of each trial; the means are printed."""
    shutil.copytree(LOGS / "joint", tmp_path / "joint")

    def ended(entries: list[Any]) -> None:
        ends = ("length", "stop", "endoftext", "unknown")
        for at, entry in enumerate(entries):
            for stat in entry["stats"]:
                reason = stat["name"]["name"].removeprefix("finish_reason_")
                if reason in ends:
                    stat.update(sum=float(ends[at % 4] == reason), mean=float(ends[at % 4] == reason))

    _edited(tmp_path / "joint" / "per_instance_stats.json", ended)
    run = import_run(str(tmp_path / "store.sqlite"), tmp_path / "joint").run
    stats = json.loads((tmp_path / "joint" / "per_instance_stats.json").read_text())
    expected: dict[tuple[str, int], dict[str, float]] = {
        (entry["instance_id"], entry["train_trial_index"]): {
            stat["name"]["name"]: stat.get("mean") for stat in entry["stats"]
        }
        for entry in stats
        if "perturbation" not in entry
    }
    places = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in expected))}
    records = {record.request.sample_index: record for record in run.samples(TASK)}
    ends = set()
    for (instance, trial), known in expected.items():
        output = records[places[instance]].outputs[trial]
        assert (output.n_context_tokens, output.n_tokens) == (known["num_prompt_tokens"], known["num_output_tokens"])
        theirs = next(name for name, value in known.items() if name.startswith("finish_reason_") and value == 1.0)
        assert (
            output.finish_reason
            == {"length": "length", "stop": "stop", "endoftext": "eos", "unknown": None}[
                theirs.removeprefix("finish_reason_")
            ]
        )
        ends.add(output.finish_reason)
    assert ends == {"length", "stop", "eos", None}
    assert main(["show", run.short_id, "--details", "--store", str(tmp_path / "store.sqlite")]) == 0
    assert f"{TASK}, as the log counts: num_references 3" in capsys.readouterr().out


def _without_text(folder: Path) -> None:
    _edited(folder / "scenario_state.json", lambda state: state["request_states"][0]["instance"].pop("id"))


def _number_as_text(folder: Path) -> None:
    _edited(folder / "stats.json", lambda stats: stats[0].update(mean="high"))


def _linked(folder: Path) -> None:
    (folder / "stats.json").unlink()
    (folder / "stats.json").symlink_to("/etc/hostname")


def _pipe(folder: Path) -> None:
    (folder / "stats.json").unlink()
    os.mkfifo(folder / "stats.json")


def _no_list(folder: Path) -> None:
    (folder / "per_instance_stats.json").write_text('{"a": 1}')


def _edited(file: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without_text, r"scenario_state.json request_states \[0\] instance: id is missing; expected a text"),
        (_number_as_text, r"stats.json \[0\]: mean is 'high'; expected a number"),
        (_linked, "stats.json is a link that leaves its folder"),
        (_pipe, "stats.json is not a regular file"),
        (_no_list, "per_instance_stats.json contains a dict; expected a list"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    """What is not HELM's is named with its file and place, and neither links nor pipes are followed."""
    shutil.copytree(LOGS / "joint", tmp_path / "joint")
    damage(tmp_path / "joint")
    with pytest.raises(DataError, match=message):
        read_folder(tmp_path / "joint")
