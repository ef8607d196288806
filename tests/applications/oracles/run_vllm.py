"""Run in the environment of `vllm.txt`: what vLLM itself returns to calls of `LLM.generate`, on a CPU.

Reads {"site": folder of torch, "folder": of the model, "engine": arguments of `LLM`, "calls": lists of [token ids,
settings]}; writes the outputs of the last call. Log-probabilities are [token, nats] pairs; those of prompt tokens that
came from the cache, which mean nothing, are left out.
"""

import json
import os
import sys
from typing import Any

os.environ.update(
    VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1",
    VLLM_CPU_OMP_THREADS_BIND="0", OMP_NUM_THREADS="1",
)  # fmt: skip


def described(output: Any) -> dict[str, Any]:
    """Return an output as JSON."""
    (text,) = output.outputs
    rows = output.prompt_logprobs
    if rows is not None:
        rows = [pairs(row) if at > output.num_cached_tokens else None for at, row in enumerate(rows)]
    return {
        "num_cached_tokens": output.num_cached_tokens, "prompt_logprobs": rows, "token_ids": list(text.token_ids),
        "logprobs": text.logprobs and [pairs(row) for row in text.logprobs], "text": text.text,
        "finish_reason": text.finish_reason, "stop_reason": text.stop_reason,
    }  # fmt: skip


def pairs(row: Any) -> list[tuple[int, float]]:
    """Return a token's log-probability and those beside it."""
    return [(token, each.logprob) for token, each in row.items()]


def main() -> None:
    """Make all calls, one after another, since each leaves something in the cache."""
    given = json.load(sys.stdin)
    sys.path.append(given["site"])
    own_output, sys.stdout = sys.stdout, sys.stderr
    from vllm import LLM, SamplingParams

    llm = LLM(**given["engine"], model=given["folder"], tokenizer=given["folder"])
    for call in given["calls"]:
        prompts = [{"prompt_token_ids": tokens} for tokens, _ in call]
        outputs = llm.generate(prompts, [SamplingParams(**settings) for _, settings in call], use_tqdm=False)
    own_output.write(json.dumps([described(each) for each in outputs]) + "\n")


if __name__ == "__main__":
    main()
