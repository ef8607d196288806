# mypy: ignore-errors
"""Write goldens/helm.json: hashes of the prompts that HELM's own adapters make of benchmark rows.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    PYTHONPATH=helm/src:. python tests/library/write_helm_prompts.py ROWS > tests/library/goldens/helm.json

ROWS has the rows as <dataset>/<config>/<split>.parquet. It needs HELM's dependencies, and no network. Run specs,
instances, their ids, the draw of shots, the perturbations and the prompts are HELM's; a tokenizer that finds all
prompts short enough takes the place of a model's, and the lists of words and names of tests/perturbations that of
HELM's.
"""

import csv
import json
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from helm.benchmark.adaptation.adapters.adapter_factory import AdapterFactory
from helm.benchmark.augmentations.data_augmenter import DataAugmenter
from helm.benchmark.augmentations.dialect_perturbation import DialectPerturbation
from helm.benchmark.augmentations.gender_perturbation import GenderPerturbation
from helm.benchmark.augmentations.mild_mix_perturbation import MildMixPerturbation
from helm.benchmark.augmentations.person_name_perturbation import PersonNamePerturbation
from helm.benchmark.run_specs import capabilities_run_specs, lite_run_specs
from helm.benchmark.scenarios import gsm_scenario, ifeval_scenario
from helm.benchmark.scenarios.commonsense_scenario import OpenBookQA
from helm.benchmark.scenarios.gsm_scenario import GSM8KScenario
from helm.benchmark.scenarios.mmlu_pro_scenario import MMLUProScenario
from helm.benchmark.scenarios.mmlu_scenario import MMLUScenario
from helm.benchmark.scenarios.scenario import with_instance_ids
from helm.benchmark.window_services import window_service_factory

from tests.perturbations.write_helm_texts import DIALECT, NAMES

N = 40  # questions of each task
SUBJECTS = ("abstract_algebra", "college_chemistry", "computer_security", "econometrics", "us_foreign_policy")
ROWS = Path(sys.argv[1])
WORK = Path("/tmp/helm_prompts")


class _Tokens:
    def fits_within_context_window(self, *_: object, **__: object) -> bool:
        return True

    def truncate_from_right(self, text: str, *_: object) -> str:
        return text


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a split."""
    return pq.read_table(ROWS / f"{name}.parquet").to_pylist()


def openbookqa() -> list[Any]:
    """Return HELM's instances."""
    made = []
    for split in ("train", "test"):
        for row in rows(f"allenai/openbookqa/main/{split}"):
            pairs = zip(row["choices"]["text"], row["choices"]["label"], strict=True)
            options = [{"text": text, "label": label} for text, label in pairs]
            item = {"question": {"stem": row["question_stem"], "choices": options}, "answerKey": row["answerKey"]}
            made.append(OpenBookQA.json_to_instance(item, split))
    return made


def mmlu(subject: str) -> list[Any]:
    """Return HELM's instances."""
    made = []
    for split, tag in (("dev", "train"), ("validation", "valid"), ("test", "test")):
        file = WORK / f"{subject}_{split}.csv"
        with file.open("w", newline="") as stream:
            for row in rows(f"cais/mmlu/{subject}/{split}"):
                csv.writer(stream).writerow([row["question"], *row["choices"], "ABCD"[row["answer"]]])
        made += MMLUScenario(subject).process_csv(str(file), tag)
    return made


def gsm() -> list[Any]:
    """Return HELM's instances."""
    for split in ("train", "test"):
        lines = [json.dumps(row) for row in rows(f"openai/gsm8k/main/{split}")]
        (WORK / f"gsm_data_{split}").write_text("\n".join(lines) + "\n")
    gsm_scenario.ensure_file_downloaded = lambda **_: None
    return GSM8KScenario().get_instances(str(WORK))


def mmlu_pro() -> list[Any]:
    """Return HELM's instances."""
    return MMLUProScenario("all").process_dataset(
        rows("TIGER-Lab/MMLU-Pro/default/test"), "test"
    )  # ids are the rows' own


def ifeval() -> list[Any]:
    """Return HELM's instances."""
    import datasets

    known = datasets.Dataset.from_list([{**row, "kwargs": json.dumps(row["kwargs"])}
                                        for row in rows("google/IFEval/default/train")])  # fmt: skip
    ifeval_scenario.datasets.load_dataset = lambda *_, **__: known
    return ifeval_scenario.IFEvalScenario().get_instances(str(WORK))


def perturbations() -> dict[str, Any]:
    """Return HELM's canonical perturbations."""
    (WORK / "dialect.json").write_text(json.dumps(DIALECT))
    (WORK / "names.txt").write_text("\n".join(NAMES).lower() + "\n")
    races = {"source_class": {"race": "white_american"}, "target_class": {"race": "black_american"}}
    return {
        "mild_mix": MildMixPerturbation(),
        "dialect": DialectPerturbation(1.0, "SAE", "AAVE", str(WORK / "dialect.json")),
        "gender": GenderPerturbation("pronouns", 1.0, "male", "female"),
        "person_name": PersonNamePerturbation(1.0, **races, name_file_path=str(WORK / "names.txt")),
    }


def prompts(spec: Any, instances: list[Any], perturbation: Any = None) -> dict[int, Any]:
    """Return the first requests of a run, or those of the perturbed copies, by the position of their instance."""
    adapter_spec = replace(spec.adapter_spec, model="simple/model1", model_deployment="simple/model1")
    made = with_instance_ids(instances) if any(each.id is None for each in instances) else instances
    train = [each for each in made if each.split == "train"]
    test = [each for each in made if each.split == "test"][:N]
    positions = {each.id: at for at, each in enumerate(test)}
    if perturbation is not None:
        test = DataAugmenter([perturbation]).generate(test, include_original=False, skip_unchanged=True)
    states = AdapterFactory.get_adapter(adapter_spec, None).adapt(train + test, 1)
    return {positions[state.instance.id]: state.request for state in states}


def main() -> None:
    """Print the hashes."""
    window_service_factory.WindowServiceFactory.get_window_service = staticmethod(lambda *_: _Tokens())
    WORK.mkdir(exist_ok=True)
    joint = "multiple_choice_joint"
    made = {
        "helm_openbookqa": (lite_run_specs.get_commonsense_spec("openbookqa", joint), openbookqa()),
        **{f"helm_mmlu_{name}": (lite_run_specs.get_mmlu_spec(name, joint), mmlu(name)) for name in SUBJECTS},
        "helm_gsm": (lite_run_specs.get_gsm_spec(), gsm()),
        "helm_mmlu_pro": (capabilities_run_specs.get_mmlu_pro_spec(), mmlu_pro()),
        "helm_ifeval": (capabilities_run_specs.get_ifeval_spec(), ifeval()),
    }
    written = {}
    for name, (spec, instances) in made.items():
        requests = prompts(spec, instances)
        copies = {label: prompts(spec, instances, each) for label, each in perturbations().items()}
        written[name] = {
            "max_tokens": requests[0].max_tokens,
            "stop": list(requests[0].stop_sequences),
            "prompts": [sha256(each.prompt.encode()).hexdigest() for each in requests.values()],
            "perturbed": {
                label: {at: sha256(each.prompt.encode()).hexdigest()[:16] for at, each in own.items()}
                for label, own in copies.items()
            },
        }
        Path(WORK / f"{name}.txt").write_text(requests[0].prompt)
    sys.stdout.write(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
