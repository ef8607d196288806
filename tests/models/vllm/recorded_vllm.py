"""vLLM's interface over what a real vLLM answered to the same calls: `tests/applications/oracles/run_vllm.py`.

A call that it has not been asked yet, with the calls before it, is put to the real one, which needs its environment.
"""

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.applications.oracles.locked import oracle
from tests.models.vllm.fake_vllm import put_in_place
from tests.recorded import sha256

Row = dict[int, SimpleNamespace]
WITHOUT_EFFECT = (
    "model",
    "tokenizer",
    "trust_remote_code",
    "use_tqdm_on_load",
)  # on answers, of the arguments of `LLM`


class SamplingParams:
    """The settings that were given; vLLM's own class checks them."""

    __struct_fields__ = ("skip_reading_prefix_cache", "logprob_token_ids")

    def __init__(self, **given: Any) -> None:
        self.given = given


class LLM:
    """A model of a real vLLM; `calls` are its calls, `made` every instance."""

    def __init__(self, **arguments: Any) -> None:
        self.folder = Path(arguments["model"])
        self.arguments = {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}
        self.calls: list[list[tuple[list[int], dict[str, Any]]]] = []
        block = arguments.get("block_size", 128)
        cache = SimpleNamespace(block_size=block, enable_prefix_caching=arguments.get("enable_prefix_caching", True))
        self.llm_engine = SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache))
        MADE.append(self)

    def generate(
        self,
        prompts: Sequence[Mapping[str, list[int]]],
        sampling_params: Sequence[SamplingParams],
        *,
        use_tqdm: bool = True,
    ) -> list[SimpleNamespace]:
        """Return the real one's outputs."""
        del use_tqdm
        pairs = zip(prompts, sampling_params, strict=True)
        self.calls.append([(prompt["prompt_token_ids"], settings.given) for prompt, settings in pairs])
        return [as_output(each) for each in self._answers()]

    def _answers(self) -> list[Any]:
        """Return what the real one answers to the last call, after those before it."""
        model = {file.name: sha256(file) for file in sorted(self.folder.iterdir())}
        given = {"model": model, "engine": self.arguments, "calls": self.calls}
        places = {"site": sysconfig.get_paths()["purelib"], "folder": str(self.folder)}
        return list(oracle("vllm", given, places=places))


MADE: list[LLM] = []


def as_output(answer: Mapping[str, Any]) -> SimpleNamespace:
    """Return an answer in the form of vLLM's `RequestOutput`."""
    rows = answer["prompt_logprobs"]
    logprobs = answer["logprobs"] and [_row(row) for row in answer["logprobs"]]
    text = SimpleNamespace(**{name: answer[name] for name in ("token_ids", "text", "finish_reason", "stop_reason")})
    text.logprobs = logprobs
    return SimpleNamespace(
        num_cached_tokens=answer["num_cached_tokens"],
        prompt_logprobs=rows and [row and _row(row) for row in rows],
        outputs=[text],
    )


def _row(pairs: Sequence[tuple[int, float]]) -> Row:
    return {token: SimpleNamespace(logprob=nats) for token, nats in pairs}


def install(patch: pytest.MonkeyPatch) -> list[LLM]:
    """Put it in vLLM's place for one test; return the list of models that it creates."""
    put_in_place(patch, LLM, SamplingParams, "0.32.0")
    MADE.clear()
    return MADE
