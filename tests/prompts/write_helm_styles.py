# mypy: ignore-errors
"""Write helm_styles.json: what HELM's own adapters and metrics make of multiple-choice questions.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    PYTHONPATH=helm/src:. python tests/prompts/write_helm_styles.py > tests/prompts/helm_styles.json

It needs HELM's dependencies, and no network. Prompts are those of HELM's adapters, fitted by its window service with
its Hugging Face tokenizer; the scores are those of its metrics, for log-probabilities drawn here.
"""

import json
import random
import sys
import tempfile
from dataclasses import replace
from typing import Any

from helm.benchmark.adaptation.adapters.adapter_factory import AdapterFactory
from helm.benchmark.adaptation.common_adapter_specs import get_multiple_choice_adapter_spec
from helm.benchmark.metrics import basic_metrics
from helm.benchmark.scenarios.scenario import CORRECT_TAG, Input, Instance, Output, Reference, with_instance_ids
from helm.benchmark.window_services import window_service_factory
from helm.benchmark.window_services.default_window_service import DefaultWindowService
from helm.common.cache import BlackHoleCacheConfig
from helm.common.request import GeneratedOutput, RequestResult, Token
from helm.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer

from tests.prompts.helm_style_rows import INSTRUCTIONS, LENGTHS, METHODS, byte_tokenizer, rows


def instances() -> list[Any]:
    """Return the rows as HELM's instances: shots, then questions."""
    shots, questions = rows()
    made = []
    for split, some in (("train", shots), ("test", questions)):
        for row in some:
            right = row["options"][row["gold"]]
            references = [
                Reference(Output(text=text), tags=[CORRECT_TAG] if text == right else []) for text in row["options"]
            ]
            made.append(Instance(Input(text=row["question"]), references, split=split))
    return with_instance_ids(made)


def states(method: str, length: int | None, tokenizer: Any) -> tuple[Any, list[Any]]:
    """Return HELM's requests of one method where the model has `length` positions; None: all prompts fit."""
    window = DefaultWindowService(tokenizer, "bytes", max_sequence_length=length or 10**6)
    window_service_factory.WindowServiceFactory.get_window_service = staticmethod(lambda *_: window)
    spec = get_multiple_choice_adapter_spec(
        method, INSTRUCTIONS, "Question", "Answer", max_train_instances=5, max_tokens=1
    )
    spec = replace(spec, model="simple/model1", model_deployment="simple/model1")
    return spec, AdapterFactory.get_adapter(spec, None).adapt(instances(), 1)


def answered(state: Any, draw: random.Random, tokenizer: Any) -> Any:
    """Return a request state with drawn log-probabilities for the tokens of its prompt."""
    window = DefaultWindowService(tokenizer, "bytes", max_sequence_length=10**6)
    level = draw.choice([-0.5, -1.0])  # the same for all tokens of a prompt, so that options tie
    tokens = [Token(text, level) for text in window.tokenize(state.request.prompt)]
    completion = GeneratedOutput(state.request.prompt, sum(token.logprob for token in tokens), tokens)
    return replace(state, result=RequestResult(True, None, [completion], False, request_time=0.0, request_datetime=0))


def scores(method: str, tokenizer: Any) -> list[dict[str, Any]]:
    """Return log-probabilities of each option's tokens, and HELM's score of each question."""
    spec, made = states(method, None, tokenizer)
    draw = random.Random(7)
    basic_metrics.compute_request_state_metrics = lambda *_: []
    by_instance = {}
    for state in made:
        by_instance.setdefault(state.instance.id, []).append(answered(state, draw, tokenizer))
    window = DefaultWindowService(tokenizer, "bytes", max_sequence_length=10**6)
    written = []
    for some in by_instance.values():
        stats = basic_metrics.BasicReferenceMetric().evaluate_references(spec, some, None, "")
        nats = []
        for state in some:
            n = len(window.tokenize(f" {state.instance.references[state.reference_index].output.text}"))
            nats.append([state.request_mode, n, sum(t.logprob for t in state.result.completions[0].tokens[-n:])])
        (score,) = [stat.sum for stat in stats if stat.name.name == "exact_match"]
        written.append({"outputs": nats, "score": score})
    return written


def main() -> None:
    """Print prompts and scores."""
    folder = tempfile.mkdtemp()
    byte_tokenizer().save_pretrained(folder)
    tokenizer = HuggingFaceTokenizer(BlackHoleCacheConfig(), "bytes", pretrained_model_name_or_path=folder)
    made = {"prompts": {}, "scores": {}}
    for method in METHODS.values():
        for length in (None, *LENGTHS):
            _, some = states(method, length, tokenizer)
            made["prompts"][f"{method} {length}"] = [each.request.prompt for each in some]
        if method != "multiple_choice_joint":
            made["scores"][method] = scores(method, tokenizer)
    sys.stdout.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
