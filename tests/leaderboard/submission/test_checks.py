"""What may be chosen, and all checks at once, on folders of models."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.leaderboard.board_files import board_of_suite, library_suites
from assaymark.leaderboard.submission import checks
from assaymark.leaderboard.submission.checks import CheckOutcome, Policy, check_submission
from assaymark.leaderboard.submission.choices import PRECISIONS, is_model_name, read_choices
from assaymark.leaderboard.submission.sources import FolderModels, ModelMissing

MODELS = Path(assaymark.__file__).parent / "library" / "demo_models"
BOARDS = {"gpt4all": board_of_suite(library_suites()["gpt4all"])}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a folder with two models."""
    for name in ("small", "large"):
        shutil.copytree(MODELS / name, tmp_path / "models" / "demo" / name)
    return tmp_path / "models"


@pytest.fixture
def check(models: Path) -> Callable[..., CheckOutcome]:
    """Return a function that runs all checks."""

    def checked(policy: Policy | None = None, **given: str) -> CheckOutcome:
        chosen, problems = read_choices(lambda name: given.get(name, ""), BOARDS)
        return check_submission(chosen, problems, [FolderModels([models])], policy or Policy(), "ada")

    return checked


def change(file: Path, **values: Any) -> None:
    """Change keys of a JSON file."""
    content: Mapping[str, Any] = json.loads(file.read_text())
    file.write_text(json.dumps({**content, **values}))


def fields(found: CheckOutcome) -> set[str]:
    """Return the fields that have problems."""
    return {problem.field for problem in found.problems}


def test_a_good_model_passes_with_its_facts(check: Callable[..., CheckOutcome]) -> None:
    """Revision and content are pinned; licence, size and architecture are read from the files."""
    result = check(model="demo/small", kind="pretrained")
    assert result.problems == ()
    assert result.new is not None
    assert result.new.revision.startswith("sha256:")
    assert result.new.facts["licence"] == "apache-2.0"
    assert result.new.facts["architecture"] == "LlamaForCausalLM"
    assert result.new.facts["chat_template"] is True
    assert check(model="demo/small", revision=result.new.revision.removeprefix("sha256:")).new == result.new.__class__(
        **{**{name: getattr(result.new, name) for name in result.new.__slots__}, "kind": "unknown"}
    )


@pytest.mark.parametrize(
    "name",
    ["x,trust_remote_code=True", "../small", "/etc/passwd", "demo/../../x", "demo/small/extra", "a..b/c", "a\nb",
     "~root", "demo\\small", "http://host/x",
     "", "-x/y", ".hidden", "small'--", "x" * 300, "demo/small ", "dеmo/small"],
)  # fmt: skip
def test_no_name_carries_a_path_or_an_argument(check: Callable[..., CheckOutcome], name: str) -> None:
    """Whatever is not a plain name is refused before anything is looked up."""
    assert "model" in fields(check(model=name))
    assert not is_model_name(name)


def test_every_problem_is_reported_at_once(check: Callable[..., CheckOutcome]) -> None:
    """One answer has all problems, each with a remedy."""
    result = check(model="a,b", precision="int1", preset="lama-3", weights="delta", kind="?", board="none", base="/x")
    assert fields(result) == {"model", "precision", "preset", "weights", "kind", "board", "base"}
    assert all(problem.remedy for problem in result.problems)
    assert "nearest: llama-3" in next(each.remedy for each in result.problems if each.field == "preset")


def test_links_do_not_lead_out_of_the_folder(models: Path, check: Callable[..., CheckOutcome], tmp_path: Path) -> None:
    """A link in an allowed folder to another one gives no model."""
    shutil.copytree(MODELS / "small", tmp_path / "private")
    (models / "demo" / "link").symlink_to(tmp_path / "private")
    assert fields(check(model="demo/link")) == {"model"}


def test_files_that_are_links_lead_nowhere_else(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """A template or a card that is a link to a file of the host is not read; no message says where the folder is."""
    for name in ("chat_template.jinja", "README.md"):
        (models / "demo" / "small" / name).unlink(missing_ok=True)
        (models / "demo" / "small" / name).symlink_to("/etc/passwd")
        (problem,) = check(model="demo/small").problems
        assert "link out of the folders of this host" in problem.remedy
        (models / "demo" / "small" / name).unlink()
    (models / "demo" / "small" / "config.json").write_text('{"a":' * 1000)
    (problem,) = check(model="demo/small").problems
    assert "nested deeper" in problem.remedy
    assert str(models) not in problem.remedy


def test_pickles_code_and_large_models_are_refused(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """Weights only as pickle; an architecture that needs its author's code; more than the host takes."""
    folder = models / "demo" / "small"
    change(folder / "config.json", model_type="mine", auto_map={"AutoModel": "mine.Mine"})
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    result = check(Policy(most_bytes=10), model="demo/small")
    whats = " ".join(problem.what for problem in result.problems)
    assert "no weights as safetensors" in whats
    assert "needs trust_remote_code" in whats
    assert "GB of weights" in whats


def test_a_template_is_needed_only_where_it_is_used(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """A model without a chat template may be evaluated with named presets, not with its own template."""
    folder = models / "demo" / "small"
    (folder / "chat_template.jinja").unlink()
    assert fields(check(model="demo/small", preset="chat-template")) == {"preset"}
    assert check(model="demo/small", preset="chatml").problems == ()
    assert check(model="demo/large", preset="chat-template").problems == ()


def test_an_adapter_needs_its_base(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """An adapter is checked with its base, which must be the one it was trained on."""
    folder = models / "demo" / "tuned"
    folder.mkdir()
    shutil.copy(MODELS / "small" / "model.safetensors", folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "demo/small"}))
    assert fields(check(model="demo/tuned")) == {"model"}
    assert fields(check(model="demo/tuned", weights="adapter")) == {"base"}
    assert fields(check(model="demo/tuned", weights="adapter", base="demo/large")) == {"base"}
    result = check(model="demo/tuned", weights="adapter", base="demo/small")
    assert result.problems == ()
    assert result.new is not None
    assert (result.new.base or "").startswith("demo/small")


def test_a_copy_has_the_same_content(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """Weights under another name, and in another file name, are the same content."""
    shutil.copytree(models / "demo" / "small", models / "eve" / "own")
    first, other = check(model="demo/small").new, check(model="eve/own").new
    assert first is not None
    assert other is not None
    assert first.content_hash == other.content_hash
    change(models / "eve" / "own" / "config.json", rope_theta=1.0)
    broken = check(model="eve/own").new
    assert broken is not None
    assert broken.content_hash != first.content_hash, (
        "a broken copy does not keep the model itself from being submitted"
    )


def test_truncated_weights_are_found_before_loading(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """A download that was cut off is a problem of the check, and not of an evaluation hours later."""
    weights = models / "demo" / "small" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (problem,) = check(model="demo/small").problems
    assert "it is truncated" in problem.what


def test_a_changed_folder_is_another_revision(models: Path) -> None:
    """A folder at a revision that it no longer has is missing."""
    source = FolderModels([models])
    before = source.find("demo/small", "").revision
    change(models / "demo" / "small" / "config.json", rope_theta=1.0)
    with pytest.raises(ModelMissing, match="it was changed"):
        source.find("demo/small", before)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden_size", -5, "hidden_size is -5; expected a whole number"),
        ("num_hidden_layers", 10**9, "num_hidden_layers is 1000000000, but the weights beside it have"),
        ("vocab_size", 10**12, "no tensor with more than"),
        ("num_attention_heads", "4", "num_attention_heads is '4'"),
    ],
)
def test_sizes_that_do_not_fit_the_weights_are_refused(
    models: Path, check: Callable[..., CheckOutcome], key: str, value: Any, said: str
) -> None:
    """The submitter learns it at once, and no folder of the host."""
    change(models / "demo" / "small" / "config.json", **{key: value})
    result = check(model="demo/small")
    assert fields(result) == {"model"}
    assert said in result.problems[0].what
    assert str(models) not in result.problems[0].what


def test_files_that_are_no_weights_are_refused(models: Path, check: Callable[..., CheckOutcome]) -> None:
    """A damaged header is named; a named pipe is not waited for; a file over the limit is not read."""
    weights = models / "demo" / "small" / "model.safetensors"
    weights.write_bytes(b"\xff" * 16)
    assert "model.safetensors is not a readable safetensors file" in check(model="demo/small").problems[0].what
    weights.unlink()
    os.mkfifo(weights)
    assert "has no weights as safetensors" in check(model="demo/small").problems[0].what
    weights.unlink()
    with weights.open("wb") as file:
        file.truncate(10**13)  # takes no space on the disk
    assert "10,000 GB of weights" in check(model="demo/small").problems[0].remedy


@pytest.mark.parametrize("shard", ["../small/model.safetensors", "/etc/passwd", "absent.safetensors", 7, ["x"], None])
def test_an_index_names_only_files_beside_it(models: Path, check: Callable[..., CheckOutcome], shard: Any) -> None:
    """A good one passes; one that leads out of the folder is refused, and a changed one is another revision."""
    folder = models / "demo" / "large"
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    assert check(board="gpt4all", model="demo/large").problems == ()
    before = FolderModels([models]).find("demo/large", "").revision
    index.write_text(json.dumps({"weight_map": {} if shard is None else {"a": shard}}))
    (problem,) = check(board="gpt4all", model="demo/large").problems
    assert "index.json" in problem.what
    assert str(models) not in str(problem)
    with pytest.raises(ModelMissing, match="it was changed"):
        FolderModels([models]).fetch("demo/large", before, models.parent / "job")


def test_a_fetched_model_is_a_copy_of_what_was_checked(models: Path, tmp_path: Path) -> None:
    """Its files are those of the revision and no others; weights that changed since are refused."""
    source = FolderModels([models])
    folder = models / "demo" / "small"
    (folder / "nested").mkdir()
    (folder / "nested" / "model.safetensors").write_bytes(b"x")
    (folder / "notes.txt").write_text("not checked")
    before = source.find("demo/small", "").revision
    copy = source.fetch("demo/small", before, tmp_path / "job")
    weights = folder / "model.safetensors"
    assert (copy / "model.safetensors").read_bytes() == weights.read_bytes()
    assert not (copy / "nested").exists()
    assert not (copy / "notes.txt").exists()
    with weights.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    with pytest.raises(ModelMissing, match="it was changed"):
        source.fetch("demo/small", before, tmp_path / "job")
    assert not copy.exists()


def test_files_beside_the_weights_are_counted(
    check: Callable[..., CheckOutcome], models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tokenizer above the limit is refused with its size."""
    monkeypatch.setattr(checks, "MOST_OTHER", 100 << 20)  # of 1 GiB, which takes seconds to hash
    with (models / "demo" / "small" / "vocab.txt").open("wb") as file:
        file.truncate((100 << 20) + 1)  # takes no space on the disk
    (problem,) = check(model="demo/small").problems
    assert "0.1 GB of files beside its weights" in problem.what


def quantise(models: Path, **own: object) -> None:
    """State a quantisation in the small model's config.json."""
    change(models / "demo" / "small" / "config.json", quantization_config=own)


@pytest.mark.parametrize(
    ("own", "precision", "expected"),
    [
        ({}, "GPTQ", "is GPTQ, which the model's config.json does not state"),
        (
            {"quant_method": "gptq", "bits": 4},
            "float16",
            "is float16, and the weights are quantised (GPTQ); choose GPTQ",
        ),
        ({"quant_method": "awq", "bits": 4}, "GPTQ", "is GPTQ, and the weights are quantised (AWQ); choose AWQ"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "8bit", "quantised (4bit); choose 4bit"),
        ({"quant_method": "fp8"}, "float16", "is quantised by fp8, which is not evaluated here"),
        ({"quant_method": ["x"]}, "float16", "is quantised by ['x'], which is not evaluated here"),
    ],
)
def test_a_precision_that_the_weights_do_not_have_is_refused(
    models: Path, check: Callable[..., CheckOutcome], own: dict[str, object], precision: str, expected: str
) -> None:
    """The checkpoint's own quantisation and the chosen precision have to agree, before anything is queued."""
    if own:
        quantise(models, **own)
    outcome = check(Policy(precisions=PRECISIONS), model="demo/small", precision=precision)
    assert outcome.new is None
    assert any(expected in str(problem) for problem in outcome.problems), [str(each) for each in outcome.problems]


@pytest.mark.parametrize("precision", ["8bit", "4bit", "GPTQ", "AWQ"])
def test_quantised_submissions_are_taken_where_they_can_be_loaded(
    models: Path, check: Callable[..., CheckOutcome], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the packages a submission is queued with its precision; without them it is refused by their names."""
    if precision in {"GPTQ", "AWQ"}:
        quantise(models, quant_method=precision.lower(), bits=4)
    monkeypatch.setattr("assaymark.models.checkpoint.quantisation.find_spec", lambda name: name)
    outcome = check(model="demo/small", precision=precision)
    assert outcome.problems == ()
    assert outcome.new is not None
    assert (outcome.new.precision, outcome.new.facts["precision"]) == (precision, precision)
    monkeypatch.setattr("assaymark.models.checkpoint.quantisation.find_spec", lambda _: None)
    (problem,) = check(model="demo/small", precision=precision).problems
    assert (problem.field, "lacks" in problem.what) == ("precision", True)
    assert ("bitsandbytes" in problem.what) == (precision in {"8bit", "4bit"})
    (problem,) = check(Policy(precisions=("float32",)), model="demo/small", precision=precision).problems
    assert "do not load" in problem.what
    assert "choose one of float32" in problem.remedy


def test_the_worker_loads_what_was_chosen() -> None:
    """Arguments of transformers' quantisers: only weights that are not quantised yet are quantised while loading."""
    from assaymark.models.checkpoint.arguments import local_arguments
    from assaymark.models.checkpoint.quantisation import loading_arguments

    assert loading_arguments("bfloat16") == {"dtype": "bfloat16"}
    assert loading_arguments("GPTQ", is_quantised=True) == loading_arguments("8bit", is_quantised=True)
    for precision, name in (("8bit", "load_in_8bit"), ("4bit", "load_in_4bit")):
        arguments = local_arguments({"pretrained": str(MODELS / "small"), **loading_arguments(precision)})
        own = dict(arguments.options)["quantization_config"]
        assert isinstance(own, dict)
        assert own["quant_method"] == "bitsandbytes"
        assert own[name] is True
