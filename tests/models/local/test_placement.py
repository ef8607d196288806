"""Models that are placed or quantised while they are loaded: by device_map, accelerate's offloading, bitsandbytes."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable, UsageError
from assaymark.models.language_model import load_model
from tests.models.checkpoint import trainers_files as write
from tests.models.checkpoint.test_trainers import DEMO, scores

PARTS = ("model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.norm", "lm_head")


@pytest.mark.parametrize("given", [{"device_map": "auto"}, {"parallelize": True}, {"device_map": {"": "cpu"}}])
def test_device_map_changes_no_score(given: dict[str, Any]) -> None:
    """Where the weights are does not matter."""
    assert scores(DEMO, **given) == pytest.approx(scores(DEMO), abs=1e-5)


@pytest.mark.parametrize("trained", [False, True])
def test_a_model_larger_than_memory_is_read_from_disk_as_it_runs(tmp_path: Path, trained: bool) -> None:
    """One layer stays on the disk; accelerate's hooks bring it in. A trainer's checkpoint can be placed as well.

    In float32: in half precision the model whole in memory may have other products than accelerate's modules.
    """
    folder = write.write_torchtune(DEMO, tmp_path / "tuned") if trained else DEMO
    places = {**dict.fromkeys(PARTS, "cpu"), "model.layers.1": "disk"}
    with load_model(
        str(folder), device_map=places, offload_folder=str(tmp_path / "offloaded"), dtype="float32"
    ) as loaded:
        result = loaded.rank("The lamp", [" had gone dark", " sang"]).total_nats
    with load_model(str(DEMO), dtype="float32") as loaded:
        assert result == pytest.approx(loaded.rank("The lamp", [" had gone dark", " sang"]).total_nats, abs=1e-4)
    if trained:  # safetensors are read where they are
        assert list((tmp_path / "offloaded").iterdir())


@pytest.mark.parametrize(
    ("package", "settings"),
    [
        ("bitsandbytes", None),
        ("optimum", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        ("compressed-tensors", {"quant_method": "compressed-tensors", "config_groups": {}}),
        ("gptqmodel", {"quant_method": "awq", "bits": 4}),
    ],
)
def test_a_quantised_model_names_the_package_it_needs(package: str, settings: Any, tmp_path: Path) -> None:
    """One line with the command that installs it."""
    if find_spec(package.replace("-", "_")) is not None:
        pytest.skip(f"{package} is installed here")
    folder, inputs = DEMO, {"load_in_4bit": True}
    if settings is not None:
        folder, inputs = tmp_path / "model", {}
        shutil.copytree(DEMO, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    with pytest.raises(ModelUnavailable, match=rf"needs the package {package}.*pip install '{package}") as caught:
        scores(folder, **inputs)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["load_in_8bit", "load_in_4bit"])
def test_quantised_weights_score_as_transformers_computes_them(name: str) -> None:
    """Our engine around a model that bitsandbytes has quantised gives transformers' own log-probabilities."""
    pytest.importorskip("bitsandbytes")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    with load_model(str(DEMO), **{name: True}) as loaded:
        ours = loaded.rank("The lamp had", [" gone dark"]).total_nats[0]
        assert loaded.model.identity.options == load_model(str(DEMO), **{name: True}).model.identity.options
    model: Any = AutoModelForCausalLM.from_pretrained(DEMO, quantization_config=BitsAndBytesConfig(**{name: True}))
    tokenizer: Any = AutoTokenizer.from_pretrained(DEMO)
    context, whole = (tokenizer.encode(text) for text in ("The lamp had", "The lamp had gone dark"))
    with torch.no_grad():
        logprobs = model(torch.tensor([whole])).logits.float().log_softmax(-1)[0]
    theirs = sum(float(logprobs[at - 1, whole[at]]) for at in range(len(context), len(whole)))
    # eight bits quantise the activations too, by what is in a pass together
    assert ours == pytest.approx(theirs, abs=0.05 if "4" in name else 0.5)
    assert abs(ours - scores(DEMO)[0]) > 0


def test_tensor_parallel_plans_are_refused_with_what_to_use() -> None:
    """They need processes that compute in step, which torchrun's are not here."""
    with pytest.raises(UsageError, match=r"tp_plan=auto is not supported: .*device_map=auto, or --model vllm"):
        load_model(str(DEMO), tp_plan="auto")
