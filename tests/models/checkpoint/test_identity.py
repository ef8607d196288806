"""Identity: a model is identified by its content, from files alone, and hashed once."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.models.checkpoint.identity import count_parameters, find_folders, identify
from assaymark.records import ModelIdentity
from assaymark.settings import cache_folder
from tests.models.local.test_local_model import MODELS, folder


def identity(path: str | Path, **extra: Any) -> ModelIdentity:
    """Return the identity of the model in a folder."""
    arguments = local_arguments({"pretrained": str(path), **extra})
    return identify(arguments, find_folders(arguments))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a writable copy of a small real model."""
    target = tmp_path / "model"
    shutil.copytree(folder("stories260K"), target)
    for path in [target, *target.iterdir()]:
        path.chmod(0o755)
    return target


def test_a_renamed_folder_is_the_same_model(copied: Path) -> None:
    """The name does not matter: content, dtype and positions are equal under another path."""
    first, other = identity(folder("stories260K")), identity(copied)
    assert first.content_hash == other.content_hash
    assert (first.dtype, first.max_length, first.n_parameters) == ("float16", 512, 260032)


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors"]
)
def test_every_relevant_file_changes_the_content(copied: Path, name: str) -> None:
    """One byte more in the configuration or the tokenizer, or another one in the weights, gives another model."""
    before = identity(copied).content_hash
    content = (copied / name).read_bytes()
    weights = content[:-1] + bytes([content[-1] ^ 1])
    (copied / name).write_bytes(weights if name == "model.safetensors" else content + b" ")
    assert identity(copied).content_hash != before


@pytest.mark.parametrize("shard", ["../model.safetensors", "../../../etc/passwd", "other.safetensors"])
def test_an_index_names_only_files_beside_it(copied: Path, shard: str) -> None:
    """A run follows no index of weights out of the model's folder; with a file of all weights it reads none."""
    index = copied / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"lm_head.weight": shard}}))
    assert identity(copied).n_parameters == 260032
    (copied / "model.safetensors").rename(copied / "model-1.safetensors")
    with pytest.raises(ModelUnavailable, match=r"index\.json names the file '.*', which is not beside it"):
        identity(copied)


def test_an_irrelevant_file_changes_nothing(copied: Path) -> None:
    """A readme is not part of the model; code only if it is trusted."""
    before = identity(copied).content_hash
    (copied / "README.md").write_text("hello")
    (copied / "modeling.py").write_text("x = 1")
    assert identity(copied).content_hash == before
    assert identity(copied, trust_remote_code=True).content_hash != before


def test_what_else_decides_outputs_is_another_model(copied: Path, tmp_path: Path) -> None:
    """Pickled weights beside others, a kind that the configuration does not name, and the code of a tokenizer."""
    before = identity(copied)
    (copied / "pytorch_model.bin").write_bytes(b"other weights")
    assert identity(copied) == before
    pickled = identity(copied, use_safetensors=False).content_hash
    (copied / "pytorch_model.bin").write_bytes(b"others again")
    assert identity(copied, use_safetensors=False).content_hash not in {before.content_hash, pickled}
    assert identity(copied, backend="causal") == before
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "is_encoder_decoder": True}))
    assert identity(copied, backend="causal").options == (("backend", "causal"),)
    assert identity(copied, backend="seq2seq").options == identity(copied).options == ()
    other = tmp_path / "tokenizer"
    shutil.copytree(folder("stories260K"), other, copy_function=shutil.copyfile)
    own = {"tokenizer": str(other), "trust_remote_code": True}
    without = identity(copied, **own).content_hash
    (other / "tokenization.py").write_text("x = 1")
    assert identity(copied, **own).content_hash != without


def test_code_of_another_folder_or_repository_is_part_of_the_model(copied: Path, tmp_path: Path) -> None:
    """Where `auto_map` names a class elsewhere, its code decides outputs too, and the positions of its default."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = elsewhere / "configuration_own.py"
    code.write_text("from transformers import LlamaConfig\nclass Own(LlamaConfig):\n    n_positions = 300\n")
    config = json.loads((copied / "config.json").read_text())
    del config["max_position_embeddings"]
    config |= {"model_type": "own", "auto_map": {"AutoConfig": f"{elsewhere}--configuration_own.Own"}}
    (copied / "config.json").write_text(json.dumps(config))
    before = identity(copied, trust_remote_code=True)
    code.write_text(code.read_text().replace("300", "200"))
    now = identity(copied, trust_remote_code=True)
    assert (before.max_length, now.max_length) == (300, 200)
    assert now.content_hash != before.content_hash
    code.unlink()
    elsewhere.rmdir()
    with pytest.raises(ModelUnavailable, match="elsewhere does not exist"):
        identity(copied, trust_remote_code=True)


def test_a_chat_template_changes_the_template_hash(copied: Path) -> None:
    """The template is part of the identity, in either of its possible files."""
    bare = identity(copied)
    assert bare.template_hash is None
    (copied / "chat_template.jinja").write_text("{{ messages }}")
    with_file = identity(copied)
    assert with_file.template_hash is not None
    assert with_file.content_hash != bare.content_hash
    assert identity(folder("craftgpt-5m")).template_hash is not None


def test_weights_are_hashed_once(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second identity hashes no weights; a copy over them with the size and time that they had is noticed."""
    before = identity(copied).content_hash
    weights = copied / "model.safetensors"
    state = weights.stat()
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", lambda *_: pytest.fail("a file is hashed again"))
        assert identity(copied).content_hash == before
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    with weights.open("r+b") as file:
        file.write(content)
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert identity(copied).content_hash != before


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*MODELS, "babyllama-tok361"])
def test_positions_and_dtype_equal_lm_evals(name: str) -> None:
    """max_length and dtype follow lm-eval's rule, also if the class has the length under another name."""
    models = pytest.importorskip("lm_eval.models.utils")
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(folder(name))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder(name))
    ours = identity(folder(name))
    assert ours.max_length == models.resolve_max_length(config, tokenizer)
    assert ours.dtype == str(config.dtype).removeprefix("torch.")
    assert identity(folder(name), max_length=33, dtype="bf16").max_length == 33


@pytest.mark.parametrize(
    ("config", "tokenizer", "expected"),
    [
        ({"model_type": "gpt2"}, {}, 1024),  # the class's default
        ({"model_type": "gpt2", "n_positions": 77}, {}, 77),
        ({"model_type": "gemma3", "text_config": {"max_position_embeddings": 99}}, {}, 99),
        ({"model_type": "bloom"}, {"model_max_length": 1234}, 1234),
        ({"model_type": "bloom"}, {"model_max_length": int(1e30)}, 2048),
        ({"model_type": "bloom"}, {}, 2048),
    ],
)
def test_positions_are_found_if_the_file_has_none(
    tmp_path: Path, config: dict[str, Any], tokenizer: dict[str, Any], expected: int
) -> None:
    """They come from the configuration, its class, the tokenizer, or 2048, in this order."""
    pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.numpy")
    import numpy as np

    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    safetensors.save_file({"a": np.zeros((2, 3), np.float16)}, str(tmp_path / "model.safetensors"))
    result = identity(tmp_path)
    assert (result.max_length, result.dtype, result.n_parameters) == (expected, "float16", 6)
    assert identity(tmp_path) == result  # from the cached result


@pytest.mark.parametrize("left", ['{"a": ', "[1]", '{"KEY": "many"}'])
def test_positions_are_found_again_where_the_cache_is_damaged(copied: Path, left: str) -> None:
    """What a run that was killed, or another program, left in the cache is no error of the model."""
    (copied / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    note = cache_folder() / "config_lengths.json"
    note.unlink(missing_ok=True)
    assert identity(copied).max_length == 1024
    (key,) = json.loads(note.read_text(encoding="utf-8"))
    note.write_text(left.replace("KEY", key), encoding="utf-8")
    assert identity(copied).max_length == 1024
    assert json.loads(note.read_text(encoding="utf-8"))[key] == 1024


def test_an_adapter_is_part_of_the_content(copied: Path, tmp_path: Path) -> None:
    """The same base with another adapter is another model."""
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.safetensors").write_bytes(b"one")
    item = identity(copied, peft=str(adapter))
    (adapter / "adapter_model.safetensors").write_bytes(b"other")
    assert (
        len({identity(copied).content_hash, item.content_hash, identity(copied, peft=str(adapter)).content_hash}) == 3
    )


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (shutil.rmtree, "does not exist"),
        (lambda path: (path / "config.json").unlink(), "no config.json"),
        (lambda path: (path / "model.safetensors").unlink(), "no weights"),
        (lambda path: (path / "config.json").write_text("{"), "cannot be read as JSON"),
        (lambda path: (path / "model.safetensors").write_bytes(b"12"), "not a readable safetensors"),
    ],
)
def test_a_broken_folder_is_one_clear_line(copied: Path, break_it: Any, message: str) -> None:
    """A missing or damaged file is reported with its path, in one line."""
    break_it(copied)
    with pytest.raises(ModelUnavailable, match=message) as caught:
        identity(copied)
    assert str(copied) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_id_comes_from_the_local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, a downloaded repository is found at its revision; another is refused with a remedy."""
    constants = pytest.importorskip("huggingface_hub.constants")
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / ("a" * 40)
    shutil.copytree(folder("stories260K"), snapshot)
    (tmp_path / "models--org--tiny" / "refs").mkdir()
    (tmp_path / "models--org--tiny" / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert files.folder_of("org/tiny") == snapshot
    for revision in (None, "main", "a" * 40):
        result = identity("org/tiny", revision=revision)
        assert result.content_hash == identity(folder("stories260K")).content_hash
        assert result.revision == "a" * 40
    with pytest.raises(ModelUnavailable, match=r"org/other.*cannot be reached.*") as caught:
        files.folder_of("org/other")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelUnavailable, match="not a Hub id"):
        files.folder_of("no good name!")


def test_parameters_are_counted_from_headers() -> None:
    """The number of parameters comes from the stored shapes."""
    assert count_parameters(Path(folder("craftgpt-5m"))) == 5_103_360
