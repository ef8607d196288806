"""Model arguments that transformers knows and we do not: passed on, part of a run's identity, and never ignored."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assaymark.engine.options import EngineSettings
from assaymark.errors import ModelUnavailable, UnknownName, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.models.create import arguments_of, create_model
from assaymark.models.local.loaded import loaded_arguments
from assaymark.models.local.local_model import LocalModel
from assaymark.records import Output
from tests.models.local.test_generation import folder
from tests.models.local.test_local_model import answers, real_requests

pytest.importorskip("torch")

SCALING = {"rope_type": "linear", "factor": 4.0}


def made(folder: str, **options: Any) -> LocalModel:
    """Return a model of real weights."""
    model = create_model("hf", {"pretrained": folder, "dtype": "float32", "device": "cpu", **options})
    assert isinstance(model, LocalModel)
    return model


def with_config(target: Path, **changes: Any) -> str:
    """Copy the small model with other values in its config.json."""
    shutil.copytree(folder("stories260K"), target)
    file = target / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return str(target)


def nats(outputs: dict[Any, Output]) -> list[float | None]:
    """Return the log-likelihoods of answers."""
    return [output.total_nats for _, output in sorted(outputs.items())]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": SCALING},
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 500.0},
        {"num_hidden_layers": 3},
        {"max_position_embeddings": 100},
    ],
)
def test_a_setting_has_the_same_effect_as_in_the_configuration(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A model with a setting as an argument scores like one whose config.json has it, and not as without it."""
    requests = real_requests()
    by_argument = made(folder("stories260K"), **changes)
    by_file = made(with_config(tmp_path / "copy", **changes))
    assert by_argument.max_length == by_file.max_length
    result = nats(answers(by_argument, requests))
    assert result == pytest.approx(nats(answers(by_file, requests)), abs=1e-5)
    assert result != pytest.approx(nats(answers(made(folder("stories260K")), requests)), abs=1e-2)


def test_settings_that_change_outputs_are_part_of_the_key(tmp_path: Path) -> None:
    """rope_scaling gives another identity, from which the same arguments are restored; the cache's folder does not."""
    plain, scaled = made(folder("stories260K")).identity, made(folder("stories260K"), rope_scaling=SCALING).identity
    assert plain.options != scaled.options
    assert arguments_of(scaled)["rope_scaling"] == SCALING
    elsewhere = made(folder("stories260K"), cache_dir=str(tmp_path), token="hf_secret", local_files_only=True)
    assert elsewhere.identity == plain
    assert "hf_secret" not in repr(elsewhere.arguments)


@pytest.mark.parametrize(
    ("extra", "nearest"),
    [
        ({"rope_scalling": SCALING}, "rope_scaling"),
        ({"num_hiden_layer": 3}, "num_hidden_layers"),
        ({"atention": "plain"}, "attention"),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_nearest_name(extra: dict[str, Any], nearest: str) -> None:
    """A name unknown to us, transformers and the model's configuration is refused before weights are read."""
    with pytest.raises(UnknownName) as refused:
        made(folder("stories260K"), **extra).identity  # noqa: B018 - asking is what refuses
    assert nearest in refused.value.nearest


@pytest.mark.parametrize("name", ["max_new_tokens", "temperature_scale", "to_json_string"])
def test_a_setting_that_no_configuration_has_is_refused(name: str) -> None:
    """A setting that the model's configuration lacks would be ignored, so it is refused; so is a method's name."""
    with pytest.raises(UnknownName, match="neither an argument of transformers"):
        made(folder("stories260K"), **{name: 1}).identity  # noqa: B018


def test_rope_scaling_must_be_an_object() -> None:
    """Text instead of the settings is refused with an example."""
    with pytest.raises(UsageError, match=r"rope_scaling='linear' is not an object; expected e.g. rope_scaling="):
        made(folder("stories260K"), rope_scaling="linear").identity  # noqa: B018


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"torch_dtype": "bfloat16"}, "bfloat16"), ({"torch_dtype": "torch.float16", "dtype": None}, "float16"),
     ({"torch_dtype": None, "dtype": "float32"}, "float32"), ({"torch_dtype": "auto"}, "auto")],
)  # fmt: skip
def test_torch_dtype_is_dtype(given: dict[str, Any], expected: str) -> None:
    """Transformers' old name of dtype means dtype."""
    assert local_arguments({"pretrained": "x", **given}).dtype == expected


def test_two_dtypes_that_differ_are_refused() -> None:
    """If both dtype and torch_dtype are given they must agree."""
    with pytest.raises(UsageError, match="two names of one setting"):
        local_arguments({"pretrained": "x", "dtype": "float32", "torch_dtype": "float16"})


def hub_cache(cache: Path, name: str) -> Path:
    """Lay a model out like the Hub's cache."""
    snapshot = cache / f"models--{name.replace('/', '--')}" / "snapshots" / ("0" * 40)
    shutil.copytree(folder("stories260K"), snapshot)
    reference = snapshot.parent.parent / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("0" * 40)
    return snapshot


def test_a_model_is_found_in_the_given_cache(tmp_path: Path) -> None:
    """With cache_dir and local_files_only a Hub id is found in that cache, without a network, and in no other."""
    snapshot = hub_cache(tmp_path / "cache", "someone/some-model")
    arguments = {"cache_dir": str(tmp_path / "cache"), "local_files_only": True}
    assert made("someone/some-model", **arguments).identity.content_hash == made(str(snapshot)).identity.content_hash
    with pytest.raises(ModelUnavailable, match="not in the Hub's local cache"):
        made("someone/some-model", cache_dir=str(tmp_path / "other"), local_files_only=True).identity  # noqa: B018


def test_the_token_goes_to_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's client is called with token=, for the model, its tokenizer and its adapter."""
    import huggingface_hub

    seen: list[tuple[str, Any]] = []

    def fetched(name: str, **options: Any) -> str:
        seen.append((name, options["token"]))
        return str(hub_cache(tmp_path / name.replace("/", "-"), name))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    hub = files.HubOptions(token="hf_secret")
    for name in ("a/model", "b/tokenizer"):
        files.folder_of(name, "1" * 40, hub=hub)
    assert seen == [("a/model", "hf_secret"), ("b/tokenizer", "hf_secret")]


def test_a_loaded_model_accepts_no_setting_of_its_configuration() -> None:
    """For a model that is already loaded rope_scaling would be ignored, so it is refused by name, as is a token."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder("stories260K"))
    with pytest.raises(UnknownName, match="option of a loaded model 'rope_scaling'"):
        loaded_arguments(model, {"rope_scaling": SCALING})
    with pytest.raises(UsageError, match="token cannot be changed on a model that is already loaded"):
        loaded_arguments(model, {"token": "hf_secret"})


def test_rope_settings_of_each_kind_of_layer_are_not_guessed(tmp_path: Path) -> None:
    """If a model has rope settings for each kind of layer, rope_scaling is refused; other settings still work."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    from assaymark.engine.weights import load_model

    config = Gemma3TextConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    Gemma3ForCausalLM(config).save_pretrained(tmp_path)
    settings = EngineSettings(device="cpu", model_kwargs={"rope_scaling": SCALING})
    with pytest.raises(UsageError, match="rope settings for each kind of layer"):
        load_model(str(tmp_path), settings)
    loaded = load_model(str(tmp_path), EngineSettings(device="cpu", model_kwargs={"sliding_window": 7}))
    assert loaded.inner.config.sliding_window == 7
