# mypy: ignore-errors
"""Write logs/helm_perturbed: run folders made by HELM's own runner.

One has perturbed copies and two trials, in the other each option is scored by a request of its own.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    PYTHONPATH=helm/src python tests/interop/write_helm_runs.py tests/interop/logs/helm_perturbed

It needs HELM's dependencies, and no network: shots, copies, prompts, metrics, worst cases and files are HELM's, the
questions are made up, and a result is drawn from a hash of its prompt in place of a model.
"""

import json
import shutil
import sys
import tempfile
import types
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from helm.benchmark import runner
from helm.benchmark.adaptation.common_adapter_specs import (
    get_multiple_choice_joint_adapter_spec,
    get_multiple_choice_separate_adapter_spec,
)
from helm.benchmark.augmentations.data_augmenter import DataAugmenterSpec
from helm.benchmark.augmentations.perturbation import PerturbationSpec
from helm.benchmark.config_registry import register_builtin_configs_from_helm_package
from helm.benchmark.executor import ExecutionSpec
from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs
from helm.benchmark.presentation.run_display import write_run_display_json
from helm.benchmark.presentation.schema import read_schema
from helm.benchmark.run_spec import RunSpec
from helm.benchmark.scenarios.scenario import CORRECT_TAG, Input, Instance, Output, Reference, Scenario, ScenarioSpec
from helm.common.authentication import Authentication
from helm.common.request import GeneratedOutput, RequestResult, Token

QUESTIONS = [
    ("He is not sure which of his two dogs, Rex or Max, is older.", "Rex", "Max", "Bob"),
    ("What colour does his father's house have, if it is not red?", "Red", "Blue", "Grey"),
    ("Is it certain that she will receive her letter tomorrow?", "Yes", "No", "Perhaps"),
    ("12 + 7 = 19?", "Yes", "No", "Perhaps"),
    ("Where did he believe that the committee would meet?", "At home", "In Rome", "In his office"),
    ("Which word is not necessary: he, they, we?", "he", "they", "we"),
]


class Chores(Scenario):
    """Made-up questions: four for shots, the others for the test."""

    name = "chores"
    description = "Made-up questions"
    tags = ()

    def get_instances(self, output_path: str) -> list[Instance]:
        """Return the instances."""
        rows = [*(("train", f"Is {n} less than {n + 2}?", "Yes", "No", "Perhaps", 0) for n in range(4)),
                *(("test", *question, at % 3) for at, question in enumerate(QUESTIONS))]  # fmt: skip
        return [
            Instance(
                Input(text=text),
                [Reference(Output(text=o), [CORRECT_TAG] if at == gold else []) for at, o in enumerate(options)],
                split=split,
            )
            for split, text, *options, gold in rows
        ]


def _draw(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")


def _result(request) -> RequestResult:  # type: ignore[no-untyped-def]  # noqa: ANN001
    prompt = request.prompt
    if request.echo_prompt:
        words = [word if not at else " " + word for at, word in enumerate(prompt.split(" "))]
        tokens = [Token(word, -(_draw(prompt[: at * 7] + word) % 1000) / 250) for at, word in enumerate(words)]
    else:
        letter = " " + "ABC"[_draw(prompt) % 3]
        tokens = [Token(letter, -(_draw(prompt) % 997) / 500)]
    text = "".join(token.text for token in tokens)
    return RequestResult(
        True, [], [GeneratedOutput(text, sum(t.logprob for t in tokens), tokens)], False, 0.25, 1795285606
    )


class _Executor(runner.Executor):
    def execute(self, state):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Return the state with a drawn result for each request."""
        return replace(state, request_states=[replace(s, result=_result(s.request)) for s in state.request_states])


class _Tokens:
    """Words as tokens, in place of a model's tokenizer."""

    def __init__(self, *_: object) -> None:
        pass

    max_sequence_length = max_request_length = max_sequence_and_generated_tokens_length = 10_000
    prefix_token = end_of_text_token = ""

    def fits_within_context_window(self, *_: object, **__: object) -> bool:
        return True

    def truncate_from_right(self, text: str, *_: object) -> str:
        return text

    def get_num_tokens(self, text: str) -> int:
        return len(text.split())

    def tokenize(self, text: str) -> list[str]:
        return text.split()


def _augmented() -> DataAugmenterSpec:
    place = "helm.benchmark.augmentations"
    return DataAugmenterSpec(
        perturbation_specs=[
            PerturbationSpec(f"{place}.mild_mix_perturbation.MildMixPerturbation", {}),
            PerturbationSpec(f"{place}.typos_perturbation.TyposPerturbation", {"prob": 0.05}),
            PerturbationSpec(
                f"{place}.gender_perturbation.GenderPerturbation",
                {"mode": "pronouns", "prob": 1.0, "source_class": "male", "target_class": "female"},
            ),
        ],
        should_augment_eval_instances=True,
        should_include_original_eval=True,
        should_skip_unchanged_eval=True,
        seeds_per_instance=2,
    )


def main() -> None:
    """Run HELM's runner on both, and write what it writes and what its pages read."""
    target = Path(sys.argv[1])
    module = types.ModuleType("chores_scenario")
    module.Chores = Chores  # type: ignore[attr-defined]
    sys.modules["chores_scenario"] = module
    register_builtin_configs_from_helm_package()
    from helm.benchmark.window_services import window_service_factory

    window_service_factory.WindowServiceFactory.get_window_service = staticmethod(lambda *_: _Tokens())
    runner.Executor = _Executor
    joint = get_multiple_choice_joint_adapter_spec(
        "Answer the questions.", "Question", "Answer", max_train_instances=2, num_outputs=1
    )
    separate = get_multiple_choice_separate_adapter_spec("multiple_choice_separate_calibrated", empty_input=False)
    spec = ScenarioSpec("chores_scenario.Chores", {})
    model = {"model": "simple/model1", "model_deployment": "simple/model1", "max_eval_instances": 100}
    runs = [
        RunSpec(
            "chores:method=joint,model=simple_model1", spec, replace(joint, num_train_trials=2, **model),
            get_exact_match_metric_specs(), _augmented(), ["mmlu"],
        ),
        RunSpec(
            "chores:method=calibrated,model=simple_model1", spec, replace(separate, **model),
            get_exact_match_metric_specs(), DataAugmenterSpec(), ["mmlu"],
        ),
    ]  # fmt: skip
    schema = read_schema(str(Path(runner.__file__).parent / "static" / "schema_classic.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        execution = ExecutionSpec(Authentication(""), None, folder, 1)
        made = runner.Runner(execution, folder, "suite", False, False, False, False, True)
        made.run_all(runs)
        for run in runs:
            source = Path(folder) / "runs" / "suite" / run.name
            write_run_display_json(str(source), run, schema, skip_completed=False)
            kept = target / run.name.split("=")[1].split(",")[0]
            kept.mkdir(parents=True, exist_ok=True)
            for file in source.glob("*.json"):
                (kept / file.name).write_text(json.dumps(json.loads(file.read_text())) + "\n")
            shutil.rmtree(source)


if __name__ == "__main__":
    main()
