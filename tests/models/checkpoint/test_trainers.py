"""Trainers' checkpoints: the same weights give the same scores in whatever way they were written."""

import io
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from assaymark.engine.checkpoints.stored import INDEX, _IndexUnpickler
from assaymark.errors import AssaymarkError, ModelUnavailable, UsageError
from assaymark.models.checkpoint.trainers import is_trained
from assaymark.models.language_model import load_model
from tests.models.checkpoint import trainers_files as write

DEMO = Path(__file__).parents[3] / "src" / "assaymark" / "library" / "demo_models" / "small"
PROMPT, CHOICES = "Question: which of these is a colour?\nAnswer:", [" red", " a table", " seven of them"]


def scores(model: Any, **arguments: Any) -> tuple[float, ...]:
    """Return the log-probabilities of three continuations."""
    with load_model(str(model), **arguments) as loaded:
        return loaded.rank(PROMPT, CHOICES).total_nats


@pytest.fixture(scope="module")
def expected() -> tuple[float, ...]:
    """Return the scores of the Hugging Face folder."""
    return scores(DEMO)


def hf_shards(target: Path) -> Path:
    """Write torchtune's files in Hugging Face's names: two shards, no safetensors."""
    write.copy_beside(DEMO, target, "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    state, _ = write.weights_of(DEMO)
    names = sorted(state)
    for number, part in enumerate((names[::2], names[1::2]), 1):
        torch.save({name: state[name] for name in part}, target / f"hf_model_000{number}_0.pt")
    return target


def fsdp_folder(target: Path) -> Path:
    """Write what accelerate writes with FSDP's sharded state dict: a checkpoint's folder with one for the weights."""
    write.copy_beside(DEMO, target, "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    write.write_distributed(write.weights_of(DEMO)[0], target / "pytorch_model_fsdp_0", "model.")
    (target / "optimizer_0").mkdir()
    shutil.copy(target / "pytorch_model_fsdp_0" / INDEX, target / "optimizer_0")
    return target


def titan_folder(target: Path) -> Path:
    """Write a distributed checkpoint under Meta's names, as torchtitan does, with params.json beside."""
    state, config = write.weights_of(DEMO)
    write.write_distributed(write.renamed(state, config, write.META), target)
    (target / "params.json").write_text(json.dumps(write.meta_params(config)))
    return write.copy_beside(DEMO, target, "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def compiled(target: Path) -> Path:
    """Write a state dict of a compiled model under DDP."""
    write.copy_beside(DEMO, target, "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    state, _ = write.weights_of(DEMO)
    torch.save({f"module._orig_mod.{name}": tensor for name, tensor in state.items()}, target / "ft-model-00001.pt")
    return target


WAYS: dict[str, Callable[[Path], Path]] = {
    "meta": lambda target: write.write_meta(DEMO, target),
    "meta for two GPUs": lambda target: write.write_meta(DEMO, target, n_files=2),
    "torchtune": lambda target: write.write_torchtune(DEMO, target, optimizer={"state": {"step": torch.ones(1)}}),
    "torchtune in shards": hf_shards,
    "litgpt": lambda target: write.write_litgpt(DEMO, target),
    "litgpt before 0.5": lambda target: write.write_litgpt(DEMO, target, before_05=True),
    "FSDP by accelerate": fsdp_folder,
    "torchtitan": titan_folder,
    "compiled": compiled,
}


@pytest.mark.parametrize("way", list(WAYS))
def test_scores_do_not_depend_on_how_weights_were_written(
    way: str, tmp_path: Path, expected: tuple[float, ...]
) -> None:
    """Each way gives exactly the scores of the Hugging Face folder."""
    assert scores(WAYS[way](tmp_path / "model")) == expected


@pytest.mark.parametrize("way", ["torchtune", "FSDP by accelerate"])
def test_a_checkpoint_is_the_model_that_its_files_are(way: str, tmp_path: Path) -> None:
    """The identity has the real dtype, length and size; it stays under another name and changes with the weights."""
    folder = WAYS[way](tmp_path / "model")
    identity = load_model(str(folder)).model.identity
    assert (identity.dtype, identity.max_length) == ("float16", 1024)
    assert identity.n_parameters == load_model(str(DEMO)).model.identity.n_parameters
    moved = folder.rename(tmp_path / "moved")
    assert load_model(str(moved)).model.identity.content_hash == identity.content_hash
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    assert load_model(str(moved)).model.identity.content_hash != identity.content_hash


def test_one_file_with_a_base_for_its_shape_and_tokenizer(tmp_path: Path, expected: tuple[float, ...]) -> None:
    """A state dict alone takes configuration and tokenizer from base=; safetensors too, and a pattern names shards."""
    state, config = write.weights_of(DEMO)
    save_file(write.renamed(state, config, write.TORCHTUNE), tmp_path / "mine.safetensors")
    assert scores(tmp_path / "mine.safetensors", base=str(DEMO)) == expected
    shards = hf_shards(tmp_path / "shards")
    assert scores(f"{shards}/hf_model_*_0.pt") == expected


def test_a_lora_checkpoint_is_added_to_its_base(tmp_path: Path) -> None:
    """An adapter of torchtune gives the scores of the merged weights, whatever its base was written as."""
    state, config = write.weights_of(DEMO)
    folder = write.copy_beside(DEMO, tmp_path / "merged", *(p.name for p in DEMO.iterdir()))
    save_file(write.merged(state, alpha=16.0), folder / "model.safetensors", metadata={"format": "pt"})
    expected = scores(folder, dtype="float32")
    adapter = tmp_path / "adapter_0.pt"
    torch.save(write.torchtune_lora(state, config), adapter)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 16, "peft_type": "LORA"}))
    others = [write.write_meta(DEMO, tmp_path / "meta"), write.write_litgpt(DEMO, tmp_path / "litgpt")]
    for base in (DEMO, *others):
        result = scores(adapter, base=str(base), dtype="float32")
        assert result == pytest.approx(expected, abs=1e-4)
    assert abs(expected[0] - scores(DEMO, dtype="float32")[0]) > 0.01  # the update matters


def test_lora_weights_beside_the_base_weights_need_their_scale(tmp_path: Path) -> None:
    """The first recipes of torchtune saved both in one file and no scale; lora_alpha= supplies it."""
    state, config = write.weights_of(DEMO)
    both = {**write.renamed(state, config, write.TORCHTUNE), **write.torchtune_lora(state, config)}
    path = tmp_path / "lora.pt"
    torch.save({"model": both}, path)
    with pytest.raises(ModelUnavailable, match=r"LoRA weights of rank 4.*lora_alpha="):
        scores(path, base=str(DEMO))
    folder = write.copy_beside(DEMO, tmp_path / "merged", *(p.name for p in DEMO.iterdir()))
    save_file(write.merged(state, alpha=8.0), folder / "model.safetensors", metadata={"format": "pt"})
    result = scores(path, base=str(DEMO), lora_alpha=8, dtype="float32")
    assert result == pytest.approx(scores(folder, dtype="float32"), abs=1e-4)


@pytest.mark.parametrize("before_05", [False, True])
def test_gpt_neox_of_litgpt(tmp_path: Path, before_05: bool) -> None:
    """A Pythia that litgpt has trained: other names, biases, and queries, keys and values joined in two orders."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=1536, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=256, hidden_act="gelu",
    )  # fmt: skip
    model = GPTNeoXForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    plain = write.copy_beside(DEMO, tmp_path / "hf", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    model.save_pretrained(plain)
    table = {
        "gpt_neox.embed_in": "transformer.wte", "gpt_neox.final_layer_norm": "transformer.ln_f",
        "gpt_neox.layers": "transformer.h", "input_layernorm": "norm_1", "post_attention_layernorm": "norm_2",
        "attention.dense": "attn.proj", "mlp.dense_h_to_4h": "mlp.fc", "mlp.dense_4h_to_h": "mlp.proj",
        "embed_out": "lm_head", "attention.query_key_value": "attn.attn" if before_05 else "attn.qkv",
    }  # fmt: skip
    own = {}
    for name, tensor in model.state_dict().items():
        new = name
        for theirs, ours in table.items():
            new = new.replace(theirs, ours)
        if "query_key_value" in name and not before_05:
            tensor = tensor.reshape(4, 3, 12, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape)  # noqa: PLW2901
        own[new] = tensor
    target = write.copy_beside(DEMO, tmp_path / "lit", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    torch.save(own, target / "lit_model.pth")
    settings = {
        "n_embd": 48, "n_layer": 2, "n_head": 4, "intermediate_size": 96, "padded_vocab_size": 1536, "block_size": 256,
        "norm_class_name": "LayerNorm", "mlp_class_name": "GptNeoxMLP", "norm_eps": 1e-5, "rotary_percentage": 0.25,
        "parallel_residual": True, "rope_base": 10000, "bias": True, "shared_attention_norm": False,
    }  # fmt: skip
    (target / "model_config.yaml").write_text(json.dumps(settings))
    assert scores(target, dtype="float32") == scores(plain, dtype="float32")


# ------------------------------------------------------------------------------------------------ bad input


def _edit(folder: Path, name: str) -> None:
    """Write the tensors again with one thing wrong."""
    path = folder / "torchtune_model_0.pt"
    state = torch.load(path, weights_only=True)["model"]
    if name == "missing":
        del state["layers.1.mlp.w3.weight"]
    elif name == "unexpected":
        state["layers.2.attn.q_proj.weight"] = state["layers.1.attn.q_proj.weight"]
    elif name == "shape":
        state["layers.0.mlp.w1.weight"] = state["layers.0.mlp.w1.weight"][:-1]
    elif name == "one factor":
        state["layers.0.attn.q_proj.lora_a.weight"] = torch.ones(4, 96)
    elif name == "two models":
        state = {f"{which}.{key}": tensor for which in ("ema", "raw") for key, tensor in state.items()}
    torch.save(state, path)


def damaged(name: str, folder: Path) -> None:
    """Damage a checkpoint of torchtune in one way."""
    path = folder / "torchtune_model_0.pt"
    changes: dict[str, Callable[[], Any]] = {
        "truncated": lambda: path.write_bytes(path.read_bytes()[:2000]),
        "no tensors": lambda: torch.save({"epoch": 3}, path),
        "code": lambda: path.write_bytes(pickle.dumps(Path)),
        "epochs": lambda: shutil.copy(path, folder / "torchtune_model_1.pt"),
        "no tokenizer": (folder / "tokenizer.json").unlink,
        "no config": (folder / "config.json").unlink,
    }
    changes.get(name, lambda: _edit(folder, name))()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"lacks layers\.1\.mlp\.w3\.weight, which has the shape \[256, 96\]"),
        ("unexpected", r"layers\.2\.attn\.q_proj\.weight has no place in a LlamaForCausalLM"),
        ("shape", r"layers\.0\.mlp\.w1\.weight has the shape \[255, 96\], expected \[256, 96\]"),
        ("one factor", r"lacks layers\.0\.attn\.q_proj\.lora_b\.weight"),
        ("two models", r"contains several models, named 'ema\.', 'raw\.'"),
        ("truncated", r"is not a readable file of torch\.save"),
        ("no tensors", r"contains no tensors"),
        ("code", r"contains more than tensors|is not a readable file"),
        ("epochs", r"checkpoints of 2 epochs \(0, 1\); name one"),
        ("no tokenizer", r"no tokenizer\.json or tokenizer\.model beside it; set tokenizer="),
        ("no config", r"has no config\.json, params\.json, model_config\.yaml beside it.*base="),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name: str, message: str, tmp_path: Path) -> None:
    """Each kind of bad checkpoint is one clear line that names the tensor or the file."""
    folder = write.write_torchtune(DEMO, tmp_path / "model")
    damaged(name, folder)
    with pytest.raises(AssaymarkError, match=message) as caught:
        scores(folder)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_with_more_tokens_than_the_embedding_is_refused(tmp_path: Path) -> None:
    """Its tokens would have no embedding; the line says how many of each there are."""
    folder = write.write_torchtune(DEMO, tmp_path / "model")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer["added_tokens"].append({"id": 1536, "content": "<|more|>", **added})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelUnavailable, match=r"has 1537 tokens.*embeds 1536"):
        scores(folder)


def test_an_index_that_would_run_code_is_refused(tmp_path: Path) -> None:
    """The index of a distributed checkpoint is a pickle; one that names another class is not loaded."""
    folder = titan_folder(tmp_path / "model")
    (folder / INDEX).write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(ModelUnavailable, match=r"it names os\.system"):
        scores(folder)
    assert not Path("pwned").exists()


def test_members_of_enums_are_read_as_python_before_3_11_4_wrote_them(tmp_path: Path) -> None:
    """By `getattr`, which gives nothing else: no method of a class, and no name that is no member."""
    layout, name = "torch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING", "TORCH_CONTIGUOUS_FORMAT"

    def pickled(kind: str, attribute: str) -> bytes:
        return f"cbuiltins\ngetattr\n(c{kind}\nS'{attribute}'\ntR.".encode()

    member = _IndexUnpickler(io.BytesIO(pickled(layout, name))).load()
    assert member.name == name
    folder = titan_folder(tmp_path / "model")
    for kind, attribute in ((layout, "__class__"), ("torch\nSize", "numel")):
        (folder / INDEX).write_bytes(pickled(kind, attribute))
        with pytest.raises(ModelUnavailable, match="it reads an attribute of"):
            scores(folder)


def test_a_lost_shard_is_named(tmp_path: Path) -> None:
    """A distributed checkpoint whose index is there and whose shards are not."""
    folder = titan_folder(tmp_path / "model")
    for path in folder.glob("*.distcp"):
        path.unlink()
    with pytest.raises(ModelUnavailable, match=r"cannot be read from its shards.*distcp"):
        scores(folder)


def test_base_is_refused_for_a_folder_that_transformers_loads() -> None:
    """It would have no effect there."""
    with pytest.raises(UsageError, match=r"base= is for trainers' checkpoints"):
        scores(DEMO, base=str(DEMO))


def test_a_name_of_torchtune_is_the_shape(tmp_path: Path) -> None:
    """base=llama2_7b supplies the configuration, so a checkpoint of another size does not fit; unknown names fail."""
    state, config = write.weights_of(DEMO)
    torch.save(write.renamed(state, config, write.TORCHTUNE), tmp_path / "tiny.pt")
    with pytest.raises(ModelUnavailable, match=r"tok_embeddings\.weight has the shape \[1536, 96\], expected \[32000,"):
        scores(tmp_path / "tiny.pt", base="llama2_7b", tokenizer=str(DEMO))
    with pytest.raises(UsageError, match=r"base=llama9_7b is neither a folder nor.*llama2_7b"):
        scores(tmp_path / "tiny.pt", base="llama9_7b", tokenizer=str(DEMO))


# ------------------------------------------------------------------------------------------ SentencePiece, FSDP


@pytest.fixture(scope="module")
def stories(shared_dir: Path) -> Path:
    """Return a real small Llama with a SentencePiece vocabulary."""
    return shared_dir / "models" / "stories260K"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["meta", "meta for two GPUs", "torchtune", "litgpt"])
def test_a_real_model_with_its_sentencepiece_tokenizer(way: str, stories: Path, tmp_path: Path) -> None:
    """stories260K with tokenizer.model alone scores as its Hugging Face folder.

    Weights that lie elsewhere in memory are multiplied by other instructions on some processors: equal up to rounding.
    """
    pytest.importorskip("sentencepiece")
    writers: dict[str, Callable[[Path], Path]] = {
        "meta": lambda target: write.write_meta(stories, target),
        "meta for two GPUs": lambda target: write.write_meta(stories, target, n_files=2),
        "torchtune": lambda target: write.write_torchtune(stories, target),
        "litgpt": lambda target: write.write_litgpt(stories, target),
    }
    folder = writers[way](tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    write.write_sentencepiece(stories, folder / "tokenizer.model")
    expected = pytest.approx(scores(stories), abs=1e-5)
    assert scores(folder) == expected
    apart = (folder / "tokenizer.model").rename(tmp_path / "apart.model")
    assert scores(folder, tokenizer=str(apart)) == expected


def test_a_tokenizer_file_of_another_kind_is_refused(stories: Path, tmp_path: Path) -> None:
    """A list of tiktoken's, or no tokenizer at all, is one line."""
    folder = write.write_meta(stories, tmp_path / "model")
    path = tmp_path / "tokenizer.model"
    path.write_text("IQ== 0\nIg== 1\n")
    with pytest.raises(ModelUnavailable, match=r"not a SentencePiece model but a list of tiktoken's \(Llama 3\)"):
        scores(folder, tokenizer=str(path))
    path.write_bytes(b"\x00" * 100)
    with pytest.raises(ModelUnavailable, match=r"not a SentencePiece model; set tokenizer=FOLDER"):
        scores(folder, tokenizer=str(path))


SHARDED = """
import sys, torch
from torch.distributed import init_process_group, destroy_process_group
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

init_process_group("gloo")
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float16)
mesh = init_device_mesh("cpu", (2,))
for layer in model.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
save({"app": {"model": model.state_dict()}}, checkpoint_id=sys.argv[2])
destroy_process_group()
"""


@pytest.mark.slow
def test_shards_that_two_processes_have_written_with_fsdp(tmp_path: Path, expected: tuple[float, ...]) -> None:
    """Two processes shard a model with FSDP and save it; each tensor is put together from both files."""
    script, folder = tmp_path / "save.py", tmp_path / "checkpoint"
    script.write_text(SHARDED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*command, str(script), str(DEMO), str(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(folder.glob("*.distcp"))) == 2
    assert scores(folder, base=str(DEMO)) == expected


def test_an_adapter_beside_whole_weights_is_merged_or_refused(tmp_path: Path, expected: tuple[float, ...]) -> None:
    """Weights that contain the adapter beside them are used as they are; where it is unknown, it is refused."""
    folder = write.copy_beside(DEMO, tmp_path / "epoch_0", "config.json", "tokenizer.json", "tokenizer_config.json")
    shutil.copy(DEMO / "model.safetensors", folder / "model-00001-of-00001.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8}))
    torch.save({}, folder / "adapter_model.safetensors")
    with pytest.raises(
        ModelUnavailable, match="does not say whether the weights contain it; if they do, move adapter_"
    ):
        is_trained(str(folder))
    torch.save({}, folder / "adapter_model.pt")
    assert scores(folder) == pytest.approx(expected, abs=1e-4)
