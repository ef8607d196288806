"""The settings of an engine, and the record of how it actually ran.

`EngineSettings` is what the caller requests; `EngineInfo` is the outcome, in a form that is stored with the results.
Neither needs torch, so plans and commands that load nothing can use them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from assaymark.engine.checkpoints.record import TrainerCheckpoint
from assaymark.errors import UsageError

DTypeName = Literal["auto", "float32", "bfloat16", "float16"]
Numerics = Literal["float32", "model-dtype"]
AttentionPath = Literal["auto", "trie", "plain"]
FROM_PRETRAINED = frozenset({  # arguments of transformers' `from_pretrained`; others are settings of the configuration
    "adapter_kwargs", "adapter_name", "allow_all_kernels", "attn_implementation", "device_map", "device_mesh",
    "disable_mmap", "distributed_config", "experts_implementation", "force_download", "fusion_config",
    "generation_config", "gguf_file", "ignore_mismatched_sizes", "kernel_config", "key_mapping", "max_memory",
    "offload_buffers", "offload_folder", "offload_state_dict", "proxies", "quantization_config", "state_dict",
    "tp_plan", "tp_size", "use_kernels", "use_safetensors", "variant", "weights_only",
})  # fmt: skip
ROPE_SETTINGS = ("rope_scaling", "rope_theta")  # transformers 5 has both in `rope_parameters`


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings that the caller requests.

    dtype: of the weights and activations; "auto" uses the checkpoint's own.
    device: "auto", "cpu", "cuda", "cuda:1", ...
    numerics: "float32" scores in float32 whatever the dtype; "model-dtype" rounds as lm-evaluation-harness does.
    window_tokens: trie nodes per forward pass, a power of two; None chooses it from memory and the model's shape.
    attention: "auto" checks the trie path against the plain one at load and falls back; "trie" and "plain" require it.
    peft: folder or Hub id of an adapter to apply to the model.
    n_token_ids: of the tokenizer, to which embeddings are resized before an adapter is applied; None leaves them.
    n_slots: sequences generated at once; None chooses it from memory, lengths and the model's shape.
    n_threads: CPU threads; None keeps torch's own choice.
    max_length: positions to use although the configuration has fewer; None uses the configuration's.
    model_kwargs: arguments of `from_pretrained`; any other name replaces a value of the configuration.
    backend: "causal" for decoder-only models, "seq2seq" for those with an encoder and a decoder, "image-text" for those
        that also read images.
    checkpoint: a trainer's checkpoint to load the weights from; None for a folder that transformers loads itself.
    content: the content hash of the model with its adapter, under which a passed check is remembered; None: not known,
        so that each load checks.
    """

    dtype: DTypeName = "auto"
    device: str = "auto"
    numerics: Numerics = "float32"
    revision: str | None = None
    trust_remote_code: bool = False
    window_tokens: int | None = None
    attention: AttentionPath = "auto"
    peft: str | None = None
    n_token_ids: int | None = None
    n_slots: int | None = None
    n_threads: int | None = None
    max_length: int | None = None
    model_kwargs: Mapping[str, object] = field(default_factory=dict)
    backend: Literal["causal", "seq2seq", "image-text"] = "causal"
    checkpoint: TrainerCheckpoint | None = None
    content: str | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises: UsageError.
        """
        choices = {
            "dtype": (self.dtype, ("auto", "float32", "bfloat16", "float16")),
            "numerics": (self.numerics, ("float32", "model-dtype")),
            "attention": (self.attention, ("auto", "trie", "plain")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                raise UsageError(f"{name}={value!r} is unknown; expected one of {', '.join(allowed)}")
        window = self.window_tokens
        if window is not None and (window < 1 or window & (window - 1)):
            raise UsageError(f"window_tokens={window} is not a power of two; expected e.g. 1024")


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The configuration of an engine, as recorded with each attempt of a run.

    max_length: positions of the model; None if it has no limit (recurrent models).
    attention: the path in use, with the reason `why`. note: other information for the user.
    versions: of the libraries that affect the numbers.
    """

    device: str
    dtype: str
    numerics: str
    n_parameters: int
    max_length: int | None
    vocab_size: int
    attention: str
    why: str
    window_tokens: int
    n_threads: int
    versions: Mapping[str, str]
    note: str | None = None
