"""Parse `--model vllm --model_args`, in lm-evaluation-harness's spelling, into one record.

Some arguments define the model and its tokenisation, as for every local model; the others are passed to vLLM's engine
unchanged. Those without an effect here are accepted and ignored; those that vLLM does not know are refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import LocalArguments, local_arguments
from assaymark.records import JsonValue
from assaymark.registry import nearest

SET_ELSEWHERE = frozenset({"model", "tokenizer", "max_model_len"})  # of EngineArgs: from pretrained=, max_length=
SHARED = frozenset({
    "add_bos_token", "cache_dir", "chat_template", "chat_template_args", "dtype", "enable_thinking",
    "generation_config", "local_files_only", "max_gen_toks", "max_length", "prefix_token_id", "pretrained",
    "revision", "think_end_token", "tokenizer", "token", "too_long", "torch_dtype", "trust_remote_code",
})  # fmt: skip
# Fields of vLLM's EngineArgs, 0.8 to 0.12; other names are looked up in the installed EngineArgs.
ENGINE = frozenset({
    "additional_config", "aggregate_engine_logging", "allowed_local_media_path", "async_scheduling",
    "attention_backend", "attention_config", "block_size", "calculate_kv_scales", "code_revision",
    "compilation_config", "config_format", "convert", "cpu_offload_gb", "cudagraph_capture_sizes",
    "data_parallel_backend", "dcp_kv_cache_interleave_size", "decode_context_parallel_size",
    "disable_cascade_attention", "disable_chunked_mm_input", "disable_custom_all_reduce",
    "disable_hybrid_kv_cache_manager", "disable_log_stats", "disable_sliding_window", "distributed_executor_backend",
    "download_dir", "enable_chunked_prefill", "enable_eplb", "enable_expert_parallel", "enable_lora",
    "enable_mm_embeds", "enable_prefix_caching", "enable_prompt_embeds", "enable_sleep_mode", "enforce_eager",
    "eplb_config", "fully_sharded_loras", "gpu_memory_utilization", "guided_decoding_backend", "hf_config_path",
    "hf_overrides", "hf_token", "ignore_patterns", "interleave_mm_strings", "kv_cache_dtype", "kv_cache_memory_bytes",
    "kv_cache_metrics", "kv_events_config", "kv_offloading_backend", "kv_offloading_size", "kv_sharing_fast_prefill",
    "kv_transfer_config", "limit_mm_per_prompt", "load_format", "logits_processor_pattern", "logits_processors",
    "logprobs_mode", "long_prefill_token_threshold", "lora_dtype", "lora_extra_vocab_size", "mamba_block_size",
    "mamba_cache_dtype", "mamba_ssm_cache_dtype", "max_cpu_loras", "max_cudagraph_capture_size", "max_logprobs",
    "max_long_partial_prefills", "max_lora_rank", "max_loras", "max_num_batched_tokens", "max_num_partial_prefills",
    "max_num_seqs", "max_parallel_loading_workers", "max_seq_len_to_capture", "media_io_kwargs",
    "mm_encoder_attn_backend", "mm_encoder_tp_mode", "mm_processor_cache_gb", "mm_processor_cache_type",
    "mm_processor_kwargs", "model_impl", "model_loader_extra_config", "num_gpu_blocks_override", "num_lookahead_slots",
    "num_redundant_experts", "num_scheduler_steps", "observability_config", "optimization_level",
    "override_attention_dtype", "override_generation_config", "override_neuron_config", "override_pooler_config",
    "pipeline_parallel_size", "pooler_config", "prefill_context_parallel_size", "prefix_caching_hash_algo",
    "profiler_config", "pt_load_map_location", "quantization", "ray_workers_use_nsight", "reasoning_parser",
    "rope_scaling", "rope_theta", "runner", "safetensors_load_strategy", "scheduler_cls", "scheduling_policy", "seed",
    "skip_mm_profiling", "speculative_config", "structured_outputs_config", "task", "tensor_parallel_size",
    "tokenizer_mode", "tokenizer_pool_size", "use_tqdm_on_load", "use_v2_block_manager", "video_pruning_rate",
    "worker_cls", "worker_extension_cls",
})  # fmt: skip
# Those that change outputs only by rounding: where, how fast and with how much memory they are computed.
PLACEMENT = ENGINE - {
    "additional_config", "attention_config", "calculate_kv_scales", "code_revision", "config_format", "convert",
    "disable_sliding_window",
    "guided_decoding_backend", "hf_config_path", "hf_overrides", "kv_cache_dtype", "load_format", "logits_processors",
    "logprobs_mode", "lora_dtype", "mamba_cache_dtype", "mamba_ssm_cache_dtype", "model_impl",
    "override_attention_dtype", "override_generation_config", "override_neuron_config", "quantization",
    "rope_scaling", "rope_theta", "runner", "speculative_config", "task", "worker_cls", "worker_extension_cls",
}  # fmt: skip
# Accepted for compatibility with existing command lines. As in lm-eval, CUDA_VISIBLE_DEVICES selects devices.
WITHOUT_EFFECT = frozenset({"batch_size", "device", "max_batch_size", "swap_space", "tokenizer_revision"})


@dataclass(frozen=True, slots=True)
class VllmArguments:
    """The arguments of a model run by vLLM. `engine` is passed to `vllm.LLM` unchanged."""

    local: LocalArguments
    engine: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an output and are not part of the model's identity otherwise."""
        own = {name: value for name, value in self.engine.items() if name not in PLACEMENT}
        return tuple(sorted({**dict(self.local.options), **own}.items()))


def vllm_arguments(model_args: Mapping[str, object]) -> VllmArguments:
    """Parse the arguments of a vLLM model.

    Raises: UsageError for an invalid value; UnknownName for an unknown argument.
    """
    values: dict[str, JsonValue] = {name: value for name, value in model_args.items() if value is not None}
    _refuse(values)
    if "max_model_len" in values:
        values["max_length"] = values.pop("max_model_len")
    adapter = values.pop("lora_local_path", None)
    values = {name: value for name, value in values.items() if name not in WITHOUT_EFFECT}
    unlisted = values.keys() - SHARED - ENGINE
    installed = _installed_names() if unlisted else frozenset()
    for name in sorted(unlisted - installed):
        known = SHARED | ENGINE | WITHOUT_EFFECT | installed
        known |= {"data_parallel_size", "lora_local_path", "max_model_len", "torch_dtype"}
        raise UnknownName("argument of vllm", name, nearest(name, known), "vLLM's EngineArgs are passed on to it")
    engine = {name: values.pop(name) for name in sorted(values.keys() - SHARED)}
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        n_gpus = engine.get(name, 1)
        if not isinstance(n_gpus, int) or n_gpus < 1:
            raise UsageError(f"{name}={n_gpus!r}; expected a whole number of GPUs, from 1")
    share = engine.get("gpu_memory_utilization", 0.9)
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise UsageError(f"gpu_memory_utilization={share!r}; expected a share of the memory, above 0 and up to 1")
    return VllmArguments(local_arguments({**values, "peft": adapter}), engine)


def _installed_names() -> frozenset[str]:
    """Return the arguments of the installed vLLM; none if it is not installed or has no EngineArgs."""
    try:
        from vllm import EngineArgs
    except ImportError:
        return frozenset()
    return frozenset(each.name for each in fields(EngineArgs)) - SET_ELSEWHERE


def _refuse(values: dict[str, object]) -> None:
    """Remove arguments that only state the default, and refuse those that are not supported.

    Raises: UsageError.
    """
    if "max_length" in values and "max_model_len" in values:
        raise UsageError("max_length and max_model_len are two names of one setting; give one of them")
    if values.pop("data_parallel_size", 1) != 1:
        raise UsageError(
            "data_parallel_size above 1 is not supported: use tensor_parallel_size to spread one model over GPUs, "
            "or run --model hf --workers N, which keeps a copy of the model on each GPU"
        )
    if values.pop("workers", 1) != 1 or values.pop("cluster", None) is not None:
        raise UsageError(
            "vLLM distributes a model itself: set tensor_parallel_size in --model_args, not --workers or --cluster"
        )
    if values.pop("numerics", "float32") != "float32":
        raise UsageError("numerics other than float32 need --model hf: vLLM's log-probabilities are float32")
    if values.pop("truncation_side", "left") != "left":
        raise UsageError("truncation_side: only left is supported; the question is at the end of a prompt")
