"""What people write after `--model vllm --model_args`, in lm-evaluation-harness's spelling, made into one record.

Part of it says which model this is and how text becomes tokens, as for every local model; the rest goes to vLLM's
engine as it is. What changes nothing here is accepted and left out; anything else is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalstone.errors import UnknownName, UsageError
from evalstone.models.arguments import LocalArguments, local_arguments
from evalstone.records import JsonValue
from evalstone.registry import nearest

__all__ = ["VllmArguments", "vllm_arguments"]

SHARED = frozenset(
    {
        "add_bos_token",
        "chat_template",
        "chat_template_args",
        "dtype",
        "enable_thinking",
        "generation_config",
        "max_gen_toks",
        "max_length",
        "prefix_token_id",
        "pretrained",
        "revision",
        "think_end_token",
        "tokenizer",
        "too_long",
        "trust_remote_code",
    }
)
ENGINE = frozenset(
    {
        "block_size",
        "compilation_config",
        "cpu_offload_gb",
        "disable_custom_all_reduce",
        "distributed_executor_backend",
        "enable_chunked_prefill",
        "enable_expert_parallel",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "hf_overrides",
        "kv_cache_dtype",
        "load_format",
        "max_lora_rank",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "quantization",
        "seed",
        "tensor_parallel_size",
        "tokenizer_mode",
    }
)
CHANGES_ANSWERS = ("hf_overrides", "kv_cache_dtype", "load_format", "quantization")
# Accepted for the sake of old command lines. As in lm-eval, CUDA_VISIBLE_DEVICES chooses devices.
WITHOUT_EFFECT = frozenset({"batch_size", "device", "max_batch_size", "swap_space", "tokenizer_revision"})


@dataclass(frozen=True, slots=True)
class VllmArguments:
    """A model that vLLM runs, as it was asked for. `engine` goes to `vllm.LLM` as it is."""

    local: LocalArguments
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an answer and have no place of their own in the model's identity."""
        own = {name: self.engine[name] for name in CHANGES_ANSWERS if name in self.engine}
        return tuple(sorted({**dict(self.local.options), **own}.items()))


def vllm_arguments(given: Mapping[str, Any]) -> VllmArguments:
    """Return the record of a vLLM model's arguments.

    Raises: UsageError for a value that cannot be; UnknownName for an argument nobody knows.
    """
    values = {name: value for name, value in given.items() if value is not None}
    _refuse(values)
    if "max_model_len" in values:
        values["max_length"] = values.pop("max_model_len")
    adapter = values.pop("lora_local_path", None)
    engine = {name: values.pop(name) for name in sorted(values.keys() & ENGINE)}
    values = {name: value for name, value in values.items() if name not in WITHOUT_EFFECT}
    for name in sorted(values.keys() - SHARED):
        known = SHARED | ENGINE | WITHOUT_EFFECT | {"data_parallel_size", "lora_local_path", "max_model_len"}
        raise UnknownName("argument of vllm", name, nearest(name, known))
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if name in engine and (not isinstance(engine[name], int) or engine[name] < 1):
            raise UsageError(f"{name}={engine[name]!r}; expected a whole number of GPUs, from 1")
    share = engine.get("gpu_memory_utilization", 0.9)
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise UsageError(f"gpu_memory_utilization={share!r}; expected a share of the memory, above 0 and up to 1")
    return VllmArguments(local_arguments({**values, "peft": adapter}), engine)


def _refuse(values: dict[str, Any]) -> None:
    """Remove what says the usual, and refuse what cannot be done here.

    Raises: UsageError.
    """
    if "max_length" in values and "max_model_len" in values:
        raise UsageError("max_length and max_model_len are two names of one thing; name one of them")
    if values.pop("data_parallel_size", 1) != 1:
        raise UsageError(
            "data_parallel_size above 1 is not supported: use tensor_parallel_size to spread one model over GPUs, "
            "or run --model hf --workers N, which keeps a copy of the model on each GPU"
        )
    if values.pop("workers", 1) != 1 or values.pop("cluster", None) is not None:
        raise UsageError(
            "vLLM spreads a model itself: name tensor_parallel_size in --model_args, not --workers or --cluster"
        )
    if values.pop("numerics", "float32") != "float32":
        raise UsageError("numerics other than float32 need --model hf: vLLM's log-probabilities are float32")
    if values.pop("truncation_side", "left") != "left":
        raise UsageError("truncation_side: only left is supported; what stands last in a prompt is what is asked")
