"""Reproduction of a stored run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.results.comparison.pairing import set_up_differences
from assaymark.results.evidence.from_store import label_of, run_evidence
from assaymark.runs.attempt import SCORING_HASH
from assaymark.runs.demo import demo_model
from assaymark.runs.reproduce import compare_with_copy, reproduce
from assaymark.runs.run import Run
from tests.tasks.folders import task_spec, write_task

TASKS = ["demo_who", "demo_truth"]


def made(tmp_path: Path, name: str = "store", **options: object) -> Run:
    """Return a small finished run of the fake model."""
    return assaymark.evaluate("fake", TASKS, limit=5, store=str(tmp_path / f"{name}.sqlite"), **options)  # type: ignore[arg-type]


def test_a_deterministic_run_is_reproduced(tmp_path: Path) -> None:
    """The same plan on the same machine gives identical samples, and the store is unchanged."""
    run = made(tmp_path)
    attempts = run.attempts()
    result = reproduce(run)
    assert result.is_reproduced
    assert (result.n_samples, result.plan, result.environment) == (10, (), ())
    assert "all 10 samples are identical" in result.verdict
    assert run.attempts() == attempts


def test_the_models_arguments_are_part_of_the_plan(tmp_path: Path) -> None:
    """A run of a fake model that knows half of the answers is repeated with one that does."""
    result = assaymark.reproduce(made(tmp_path, model_args={"accuracy": 0.5, "seed": 3}))
    assert result.is_reproduced, result.plan


def test_failures_are_not_reproduced(tmp_path: Path) -> None:
    """A sample that fails before and now is no evidence, and where all do nothing was reproduced."""
    partly = reproduce(made(tmp_path, model_args={"fail": 0.2}))
    assert partly.is_reproduced
    n = 10 - partly.n_failed
    assert partly.verdict == f"reproduced: all {n} samples are identical; {10 - n} were not answered, before or now"
    assert 0 < n < 10
    result = reproduce(made(tmp_path, "none", model_args={"fail": 1.0}))
    assert (result.is_reproduced, result.n_failed) == (False, 10)
    assert result.verdict == "not reproduced: no sample was answered before and now (10 failed)"


def test_different_outputs_are_counted(tmp_path: Path) -> None:
    """Another seed of the fake model changes the plan, the outputs and the verdict."""
    result = compare_with_copy(made(tmp_path), made(tmp_path, "other", model_args={"seed": 1}))
    assert not result.is_reproduced
    assert result.n_answers > 0
    assert result.n_prompts == 0
    assert any("content_hash" in line for line in result.plan)
    assert result.verdict.startswith("not reproduced")


@pytest.mark.slow
def test_noise_is_distinguished_from_differences(tmp_path: Path) -> None:
    """A difference of 5e-5 nats is noise, one of 1e-2 is not, and both are reported."""
    run = made(tmp_path)
    for apart, within in ((5e-5, True), (1e-2, False)):
        other = made(tmp_path, f"other-{apart}")
        (record, *_) = other.samples("demo_who")
        first = record.outputs[0]
        assert first.total_nats is not None
        opened = other.store.open_run(other.row.plan, facts={})
        shifted = replace(first, total_nats=first.total_nats + apart)
        other.store.add(other.id, opened.attempt_id, [shifted])
        other.store.add_scores(other.id, record.scores, SCORING_HASH)
        other.store.close_run(other.id, opened.attempt_id, "finished")
        result = compare_with_copy(run, other)
        assert result.largest_nats == pytest.approx(apart, rel=1e-6)
        assert (result.n_within_noise, result.n_answers) == ((1, 0) if within else (0, 1))
        assert result.is_reproduced is within


def test_different_prompts_are_counted(tmp_path: Path) -> None:
    """A run with another system instruction differs in every prompt, and in its plan."""
    plain = made(tmp_path, apply_chat_template=True)
    other = made(tmp_path, "other", apply_chat_template=True, system_instruction="Be brief.")
    result = compare_with_copy(plain, other)
    assert result.n_prompts == 10
    assert "system_instruction: None before, Be brief. now" in result.plan


@pytest.mark.slow
def test_a_chat_run_with_shots_is_reproduced(tmp_path: Path) -> None:
    """Shots, template, turns, instruction and limit lead to the same plan again."""
    run = made(tmp_path, apply_chat_template=True, system_instruction="Be brief.", num_fewshot=2, seed=7)
    result = reproduce(run)
    assert result.plan == ()
    assert result.is_reproduced


@pytest.mark.slow
def test_tasks_from_files_are_found_again(tmp_path: Path) -> None:
    """A run on a CSV and a YAML file is reproduced from them; once they are moved, the error asks for their paths."""
    csv = tmp_path / "q.csv"
    csv.write_text("question,A,B,answer\nOne?,a,b,A\nTwo?,a,b,B\n")
    store = str(tmp_path / "files.sqlite")
    yaml = write_task(tmp_path / "own", task_spec("mine"))
    run = assaymark.evaluate("fake", [str(csv), str(yaml)], store=store)
    result = reproduce(run)
    assert result.is_reproduced
    assert (result.plan, result.environment) == ((), ())
    csv.rename(tmp_path / "elsewhere.csv")
    with pytest.raises(
        UsageError, match=r"task 'q' was read from a file .*q\.csv, which does not exist; give it with --tasks"
    ):
        reproduce(run)
    (tmp_path / "new").mkdir()
    (tmp_path / "elsewhere.csv").rename(tmp_path / "new" / "q.csv")
    words = ["reproduce", "last", "--store", store, "--tasks", str(tmp_path / "new" / "q.csv"), "--tasks", str(yaml)]
    assert main(words) == 0


def test_an_imported_run_is_refused(tmp_path: Path) -> None:
    """A run whose model is not known here cannot be reproduced."""
    from assaymark.runs.exporting import export_run, import_run

    made(tmp_path)
    export_run(str(tmp_path / "store.sqlite"), "last", tmp_path / "folder")
    imported = import_run(str(tmp_path / "other.sqlite"), tmp_path / "folder").run
    with pytest.raises(UsageError, match="was imported"):
        reproduce(imported)


@pytest.mark.slow
def test_a_real_model_is_reproduced(shared_dir: Path, tmp_path: Path) -> None:
    """A local model's run is reproduced within numerical noise, as text and as JSON."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assaymark.evaluate(
        "hf", ["demo_who"], limit=4, store=str(tmp_path / "store.sqlite"),
        model_args={"pretrained": str(shared_dir / "models" / "stories260K"), "dtype": "float32"},
    )  # fmt: skip
    out = tmp_path / "out.json"
    result = json.loads(_printed(["reproduce", "last", "--json", "--store", str(tmp_path / "store.sqlite")], out))
    assert result["is_reproduced"]
    assert result["plan"] == []
    assert result["n_samples"] == 4


def _printed(words: list[str], out: Path) -> str:
    from contextlib import redirect_stdout

    with out.open("w") as file, redirect_stdout(file):
        assert main(words) == 0
    return out.read_text()


@pytest.mark.slow
def test_an_adapters_run_is_reproduced_and_named_after_both(tmp_path: Path) -> None:
    """A LoRA adapter on a base is loaded again from the stored name, and tables show base + adapter."""
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(str(demo_model("small")))
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(base, settings).save_pretrained(str(tmp_path / "my_adapter"))
    arguments = {"peft": str(tmp_path / "my_adapter")}
    options: dict[str, Any] = {"limit": 3, "store": str(tmp_path / "store.sqlite"), "model_args": arguments}
    run = assaymark.evaluate(demo_model("small"), "demo_who", **options)
    assert label_of(run.row) == "small + my_adapter"
    assert reproduce(run).is_reproduced


def test_a_model_of_another_tokenizer_in_a_subfolder_is_found_again(shared_dir: Path, tmp_path: Path) -> None:
    """What was named besides the model's folder is part of the plan, and no setting in which two runs differ."""
    shutil.copytree(demo_model("small"), tmp_path / "all" / "small", copy_function=shutil.copyfile)
    options: dict[str, Any] = {"limit": 3, "store": str(tmp_path / "store.sqlite")}
    other = str(shared_dir / "models" / "stories260K")
    place = {"pretrained": str(tmp_path / "all"), "subfolder": "small", "tokenizer": other}
    run = assaymark.evaluate("hf", "demo_facts", model_args=place, **options)
    assert reproduce(run).plan == ()
    plain = assaymark.evaluate("hf", "demo_facts", model_args={"pretrained": str(demo_model("small"))}, **options)
    first, second = (run_evidence(each.store, each.id) for each in (run, plain))
    assert set_up_differences(first, second, ["demo_facts"]) == []


def test_scores_of_noisy_outputs_are_compared_with_their_noise(tmp_path: Path) -> None:
    """A Brier score that changed no more than its outputs is the same score; one that changed more is not."""
    run = made(tmp_path)
    for moved, is_same in ((1e-4, True), (1e-2, False)):
        other = made(tmp_path, f"other-{moved}")
        (record, *_) = other.samples("demo_who")
        first = record.outputs[0]
        assert first.total_nats is not None
        opened = other.store.open_run(other.row.plan, facts={})
        other.store.add(other.id, opened.attempt_id, [replace(first, total_nats=first.total_nats + 5e-5)])
        shifted = [
            replace(score, value=score.value + moved) if score.metric == "brier" and score.value is not None else score
            for score in record.scores
        ]
        other.store.add_scores(other.id, shifted, SCORING_HASH)
        other.store.close_run(other.id, opened.attempt_id, "finished")
        result = compare_with_copy(run, other)
        assert result.is_reproduced is is_same
        assert result.n_scores == (0 if is_same else 1)
