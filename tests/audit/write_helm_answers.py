# mypy: ignore-errors
"""Write helm_answers.json: HELM's own metrics of generated answers with the log-probabilities of their tokens.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    PYTHONPATH=helm/src python tests/audit/write_helm_answers.py > tests/audit/helm_answers.json

It needs HELM's dependencies, among them uncertainty-calibration, and no network. Answers and log-probabilities are
made up.
"""

import json
import sys

import numpy as np
from helm.benchmark.adaptation.adapter_spec import AdapterSpec
from helm.benchmark.adaptation.request_state import RequestState
from helm.benchmark.metrics.basic_metrics import compute_calibration_metrics, compute_language_modeling_metrics
from helm.benchmark.metrics.evaluate_reference_metrics import compute_reference_metrics
from helm.benchmark.scenarios.scenario import CORRECT_TAG, Input, Instance, Output, Reference
from helm.common.request import GeneratedOutput, Request, RequestResult, Token

WORDS = ("seven", "eleven", "Paris", "the north", "no")


def main() -> None:
    """Write cases of 60 answers each: texts, references, log-probabilities of tokens, and HELM's statistics."""
    cases = []
    for seed in range(6):
        draw = np.random.default_rng(20261127 + seed)
        answers, per_instance = [], {}
        for number in range(60):
            gold = WORDS[draw.integers(len(WORDS))]
            is_right = draw.random() < (0.0 if seed == 5 else 0.6)
            text = gold if is_right else WORDS[draw.integers(len(WORDS))] + "!"
            text = "" if number == 1 else [text, f" {text}", f"{text}\n"][draw.integers(3)]
            logprobs = (-draw.exponential(0.4, draw.integers(1, 5)) * (1 if is_right else 2)).tolist() if text else []
            instance = Instance(
                Input(text=f"question {number}"), [Reference(Output(text=gold), [CORRECT_TAG])], split="test",
                id=f"id{number}",
            )  # fmt: skip
            tokens = [Token(text if at == 0 else "", value) for at, value in enumerate(logprobs)]
            result = RequestResult(True, [], [GeneratedOutput(text, sum(logprobs), tokens)], False, 0.1, 0)
            state = RequestState(instance, None, None, 0, None, Request(model="m/m", model_deployment="m/m"), result, 0,
                                 False)  # fmt: skip
            stats = compute_reference_metrics(["exact_match"], AdapterSpec(), state, None)
            stats += compute_language_modeling_metrics(AdapterSpec(), state, None)
            per_instance[instance] = stats
            means = {stat.name.name: stat.mean for stat in stats}
            answers.append({"text": text, "gold": gold, "logprobs": logprobs, "max_prob": float(means["max_prob"]),
                            "exact_match": means["exact_match"]})  # fmt: skip
        derived = {stat.name.name: float(stat.mean) for stat in compute_calibration_metrics(per_instance)}
        cases.append({"answers": answers, "metrics": derived})
    json.dump({"origin": "stanford-crfm/helm@63754d05, Apache-2.0", "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
