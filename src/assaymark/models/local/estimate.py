"""Estimate the work of answering before any weights are loaded: tokens, memory, time."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from assaymark.engine.spans import SpanBatch
from assaymark.engine.trie import plan_trie
from assaymark.models.checkpoint.config_check import whole_number
from assaymark.models.text.generation_prompts import GenerationInput
from assaymark.models.text.spans import PreparedQuery, TokenSpan, span_batch
from assaymark.records import ModelIdentity, WorkEstimate

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
GEMM_SIZE = 1024
REACHED_SHARE = 0.5  # assumed share of the matrix rate that a whole forward pass reaches


def estimate_work(
    n_requests: int,
    queries: Sequence[PreparedQuery],
    texts: Sequence[GenerationInput],
    identity: ModelIdentity,
    config: Mapping[str, object],
    device: str,
) -> WorkEstimate:
    """Return the work of these queries; memory and seconds are None if they cannot be estimated.

    Units: memory_bytes for the weights, the keys and values of the longest path, and the sequences; seconds on the CPU,
        from half of this machine's measured matrix rate: a rough figure, too low if other programs run. Texts are
        counted at their maximum length, which few of them reach.
    """
    spans: dict[bytes, TokenSpan] = {span.key: span for prepared in queries for span in prepared.spans}
    plan = plan_trie(span_batch(list(spans.values())))
    n_requested = sum(span.context.size + span.scored.size - 1 for prepared in queries for span in prepared.spans)
    n_generated = _n_generated(texts)
    n_requested += sum(
        (int(text.tokens.size) + text.max_tokens) * text.settings.repeats for text in texts if not text.error
    )
    n_distinct = plan.n_distinct + n_generated
    depth = max([plan.max_depth, *(int(text.tokens.size) + text.max_tokens for text in texts)])
    size = BYTES.get(identity.dtype, 4)
    memory = None
    if identity.n_parameters is not None:
        memory = identity.n_parameters * size + _cache_bytes(config, depth, size) + n_distinct * 32
    seconds = None
    on_cpu = device == "cpu" or (device == "auto" and not Path("/dev/nvidia0").exists())
    if identity.n_parameters is not None and on_cpu and n_distinct:
        seconds = n_distinct * 2 * identity.n_parameters / (REACHED_SHARE * measured_gemm_rate())
    every: list[PreparedQuery | GenerationInput] = [*queries, *texts]
    too_long = dict.fromkeys(a.request_id for a in every if a.n_cut_tokens or a.error_kind == "PromptTooLong")
    failing = {a.request_id: a.error for a in every if a.error}
    n_queries = len(queries) + sum(text.settings.repeats for text in texts)
    return WorkEstimate(
        n_requests, n_queries, n_requested, n_distinct, memory, seconds, tuple(too_long), tuple(failing.items())
    )


def _n_generated(texts: Sequence[GenerationInput]) -> int:
    """Return the distinct tokens of generating these texts: prompts after sharing, plus the maximum of new tokens."""
    firsts = {(text.digest, text.settings.seed): text for text in texts if not text.error}
    if not firsts:
        return 0
    # No prediction is made from a span's last token, so each prompt is padded with one that is never evaluated.
    padded = [np.append(text.tokens, np.int32(0)) for text in firsts.values()]
    n_prompt = plan_trie(SpanBatch.from_lists(padded, [1] * len(padded))).n_distinct
    return n_prompt + sum(
        text.max_tokens * (text.settings.repeats if text.settings.do_sample else 1) for text in firsts.values()
    )


def _cache_bytes(config: Mapping[str, object], depth: int, element_size: int) -> int:
    """Return the size of the keys and values of a path of `depth` tokens, 0 if the configuration lacks the shape."""
    layers = whole_number(config, "num_hidden_layers", "n_layer")
    heads = whole_number(config, "num_attention_heads", "n_head") or 1
    groups = whole_number(config, "num_key_value_heads") or heads
    width = whole_number(config, "hidden_size", "n_embd")
    head_width = whole_number(config, "head_dim") or width // heads
    return 2 * layers * groups * head_width * depth * element_size


def measured_gemm_rate() -> float:
    """Return this machine's float32 matrix rate; measuring it takes a few hundredths of a second.

    Units: floating-point operations per second.
    """
    matrix = np.ones((GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - started)
    return 2 * GEMM_SIZE**3 / best
