"""`evaluate` and `rank` on the demo models."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import MalformedSample, ModelUnavailable, UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.models.text.spans import fingerprint_of
from assaymark.records import canonical_json
from assaymark.runs.demo import demo_model

pytest.importorskip("torch")
SMALL = demo_model("small")


def test_a_path_is_enough() -> None:
    """A folder and a task's name give a run with estimates, samples and a table."""
    run = assaymark.evaluate(SMALL, "demo_who", limit=12)
    estimate = run.estimate("demo_who", "acc")
    assert estimate.n == 12
    assert estimate.low is not None
    assert estimate.value is not None
    assert estimate.high is not None
    assert estimate.low <= estimate.value <= estimate.high
    assert len(run.samples("demo_who")) == 12
    assert "demo_who" in str(run)
    json.dumps(run.to_json(), allow_nan=False)


def test_a_loaded_model_gives_the_same_numbers() -> None:
    """A loaded transformers model with its tokenizer gives the same results as the model given by its folder."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(SMALL, dtype="float32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(SMALL)
    loaded = assaymark.evaluate((model, tokenizer), "demo_who", limit=8)
    named = assaymark.evaluate(str(SMALL), "demo_who", limit=8, model_args="dtype=float32")
    for ours, theirs in zip(loaded.samples("demo_who"), named.samples("demo_who"), strict=True):
        for a, b in zip(ours.outputs, theirs.outputs, strict=True):
            assert a.total_nats == pytest.approx(b.total_nats, abs=1e-4)


def test_predictions_alone_are_written_without_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--predict_only` writes the samples, as lm-eval's does, and no score: not in the files nor as JSON."""
    words = ["run", "--model", "fake", "--tasks", "demo_who", "--limit", "2", "--predict_only", "--json"]
    assert main([*words, "--output_path", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"] == []
    (results,) = tmp_path.glob("out/*/results_*.json")
    (samples,) = tmp_path.glob("out/*/samples_*.jsonl")
    content = json.loads(results.read_text())
    assert (content["n-samples"]["demo_who"]["effective"], set(content["results"]["demo_who"])) == (
        2,
        {"name", "alias", "sample_len"},
    )
    assert [json.loads(line)["metrics"] for line in samples.read_text().splitlines()] == [[], []]


def test_predictions_alone_need_no_scoring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows without answers fail a task's own scoring, which lm-eval leaves out; all outputs are stored and written."""
    (tmp_path / "own.py").write_text("def share(doc, results): return {'share': results[0] == doc['gold'].strip()}\n")
    (tmp_path / "rows.jsonl").write_text('{"q": "one", "gold": null}\n{"q": "two", "gold": null}\n')
    (tmp_path / "unlabelled.yaml").write_text(
        f"task: unlabelled\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: q\ndoc_to_target: gold\n"
        "process_results: !function own.share\nmetric_list: [{metric: share}]\n"
    )
    words = ["run", "--model", "fake", "--tasks", str(tmp_path / "unlabelled.yaml")]
    assert main([*words, "--store", str(tmp_path / "other.sqlite")]) != 0
    assert "its scoring function failed: AttributeError" in capsys.readouterr().err
    assert main([*words, "--predict_only", "--output_path", str(tmp_path / "out")]) == 0
    (samples,) = tmp_path.glob("out/*/samples_*.jsonl")
    assert len(samples.read_text().splitlines()) == 2
    assert "outputs are stored" in capsys.readouterr().out


def test_plain_text_for_a_model_with_a_chat_template_is_noted(tmp_path: Path) -> None:
    """Where answers are generated and nothing was said about the template; one note for the run."""
    (tmp_path / "q.csv").write_text("question,answer\nWho?,me\n")

    def noted(tasks: str, **options: Any) -> int:
        lines: list[str] = []
        assaymark.evaluate(SMALL, tasks, limit=1, notify=lines.append, store=tmp_path / "runs.sqlite", **options)
        return sum("--apply_chat_template" in line for line in lines)

    own = str(tmp_path / "q.csv")
    assert noted(own) == 1
    assert [noted("demo_who"), noted(own, apply_chat_template=False), noted(own, apply_chat_template=True)] == [0] * 3


def test_the_same_call_sends_no_request_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The second call returns the stored run, as the same command does."""
    first = assaymark.evaluate(SMALL, "demo_who", limit=4)
    again = assaymark.evaluate(SMALL, "demo_who", limit=4)
    assert again.id == first.id
    assert again.result is not None
    assert again.result.was_stored
    assert (
        main(["run", "--model", "hf", "--model_args", f"pretrained={SMALL}", "--tasks", "demo_who", "--limit", "4"])
        == 0
    )
    assert f"run {first.id[:8]} " in "".join(capsys.readouterr())


def test_outputs_of_other_runs_are_reused() -> None:
    """A longer run reuses the shorter one's outputs from the store and requests only the rest."""
    assaymark.evaluate(SMALL, "demo_who", limit=4)
    longer = assaymark.evaluate(SMALL, "demo_who", limit=8)
    known = [output.from_cache for sample in longer.samples("demo_who") for output in sample.outputs]
    assert known == [True] * 8 + [False] * 8


def test_rank_orders_choices() -> None:
    """`rank` gives each choice's log-likelihood and the index of the best."""
    model = assaymark.load_model(SMALL)
    result = model.rank("One two three", [" four", " \u00e9\u00df\u00f8\u00e6"])
    assert result.best == 0
    assert result.total_nats[0] > result.total_nats[1]
    with pytest.raises(UsageError):
        model.rank("One", [])


def test_too_long_prompts_can_be_refused() -> None:
    """`too_long="error"` fails the request that does not fit instead of truncating it."""
    cut = assaymark.evaluate(SMALL, "demo_who", limit=2, num_fewshot=5, model_args={"max_length": 16})
    refused = assaymark.evaluate(
        SMALL, "demo_who", limit=2, num_fewshot=5, model_args={"max_length": 16}, too_long="error"
    )
    assert all(output.n_cut_tokens for sample in cut.samples("demo_who") for output in sample.outputs)
    assert {o.error_kind for sample in refused.samples("demo_who") for o in sample.outputs} == {"PromptTooLong"}
    assert refused.estimate("demo_who", "acc").value is None


def test_a_csv_is_a_task(tmp_path: Path) -> None:
    """A file of questions is a task; guesses about its columns are reported first, and stored with the run."""
    (tmp_path / "mine.csv").write_text("question,A,B,answer\nIs ice cold?,yes,no,A\nIs fire cold?,yes,no,B\n")
    order: list[str] = []
    run = assaymark.evaluate(
        FakeModel(), str(tmp_path / "mine.csv"), notify=order.append, observe=lambda progress: order.append("asked")
    )
    assert run.estimate("mine", "acc").n == 2
    assert (
        order[0]
        == run.notes[0]
        == ("mine.csv: multiple choice by letter: 'question', choices A, B, 'answer' is a letter")
    )
    assert "asked" in order[1:]


def test_lm_evals_files_are_written(tmp_path: Path) -> None:
    """Results and samples files are in a folder named after the model, with one line per sample and filter."""
    run = assaymark.evaluate(SMALL, "demo_who", limit=3)
    paths = run.write_lm_eval_files(tmp_path, log_samples=True)
    results = json.loads(next(p for p in paths if p.name.startswith("results_")).read_text())
    assert "acc,none" in results["results"]["demo_who"]
    samples = next(p for p in paths if p.name.startswith("samples_demo_who"))
    assert len(samples.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("model", "task", "error"),
    [
        ("/nowhere/at/all", "demo_who", ModelUnavailable),
        (SMALL, "demo_hwo", UnknownName),
        (3.5, "demo_who", UsageError),
    ],
)
def test_invalid_arguments_are_refused(model: object, task: str, error: type[Exception]) -> None:
    """A missing model, an unknown task and an object that is not a model raise the documented errors."""
    with pytest.raises(error):
        assaymark.evaluate(model, task)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """The error for a template with a column that the data lacks has both."""
    (tmp_path / "rows.jsonl").write_text('{"question": "Q?"}\n')
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: '{{text}}'\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
    )
    with pytest.raises(MalformedSample, match=r"text.*question"):
        assaymark.evaluate(FakeModel(), str(tmp_path / "mine.yaml"))


def test_failed_outputs_are_explained() -> None:
    """If outputs failed, the table has the error of the first one."""
    run = assaymark.evaluate(demo_model("small"), "demo_sums", limit=2, gen_kwargs={"max_gen_toks": 100_000})
    result = run.remarks()
    assert any("2 outputs failed: missing, not wrong" in line for line in result)
    assert re.search(
        r"all requests failed, so there is no result: 100000 new tokens are allowed", " ".join(str(run).split())
    )


def test_a_selected_attention_path_is_part_of_the_cache_key() -> None:
    """A run on the plain path does not reuse outputs of one on the trie path, and it reports its path."""
    auto = assaymark.evaluate(SMALL, "demo_who", limit=3)
    plain = assaymark.evaluate(SMALL, "demo_who", limit=3, model_args={"attention": "plain"})
    assert plain.id != auto.id
    assert plain.result is not None
    assert plain.result.n_answered_now == 6
    assert not any(output.from_cache for sample in plain.samples("demo_who") for output in sample.outputs)
    assert not any(line.startswith("attention") for line in auto.remarks())
    assert any(line.startswith("attention: trie path (self-check") for line in auto.remarks(details=True))
    assert "attention: plain path (requested)" in plain.remarks()


def test_the_default_attention_does_not_change_keys() -> None:
    """The attention path is in a model's identity only if it was selected, so stored runs are found again."""
    default, asked, chosen = (
        assaymark.load_model(SMALL, **arguments).model.identity
        for arguments in ({}, {"attention": "auto"}, {"attention": "trie"})
    )
    assert default == asked
    assert default.options == ()
    assert chosen.options == (("attention", "trie"),)
    assert (
        fingerprint_of(default) == canonical_json([default.content_hash, default.dtype, default.numerics, []]).encode()
    )
    assert fingerprint_of(chosen) != fingerprint_of(default)


def test_more_positions_than_a_model_has_give_a_warning() -> None:
    """`max_length` above a rotary model's positions is used, as in lm-eval, with a warning under the table."""
    n_positions = assaymark.load_model(SMALL).model.identity.max_length or 0
    asked = {"max_length": 8 * n_positions}
    options: dict[str, Any] = {"limit": 2, "system_instruction": "Read on. " * n_positions, "model_args": asked}
    run = assaymark.evaluate(SMALL, "demo_who", **options)
    outputs = [output for sample in run.samples("demo_who") for output in sample.outputs]
    assert all(output.error is None and output.n_context_tokens > n_positions for output in outputs)
    assert any(line.startswith("warning: max_length=") and "not trained" in line for line in run.remarks())
