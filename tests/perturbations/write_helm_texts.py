"""Write helm_texts.jsonl: what HELM's own code makes of many questions. Run it with a checkout of HELM.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    python tests/perturbations/write_helm_texts.py helm > tests/perturbations/helm_texts.jsonl

The perturbations are imported from the checkout. What they import of the rest of HELM (records, a logger, downloads)
is replaced by the few names that they use, so that none of HELM's dependencies is needed.
"""

import ast
import importlib
import json
import sys
import tempfile
import types
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

COMMIT = "63754d05db6f874e41a395880fb573890a13e791"
SEEDS = (None, 1, 2)
N_IN_FULL = 8
DIALECT = {"going to": ["gonna", "finna"], "with": ["wit", "wid"], "this": ["dis"], "isn't": ["ain't"]}
NAMES = [
    "Adam,first_name,race,white_american,gender,male",
    "Alice,first_name,race,white_american,gender,female",
    "Harry,first_name,race,white_american,gender,male",
    "Robin,first_name,race,white_american",
    "Aiesha,first_name,race,black_american,gender,female",
    "Darnell,first_name,race,black_american,gender,male",
    "Latisha,first_name,race,black_american,gender,female",
    "Li,last_name,race,chinese",
]

STARTS = [
    "He said that", "She isn't sure whether", "I am certain that", "Adam and Alice think", "We're told",
    "(He) didn't know if", "WHAT IS the reason", "it is not clear, although it's old, that", "", "They do not believe",
    "  Harry's mother", "Robin told Alice:", "You can't've seen how",
]  # fmt: skip
MIDDLES = [
    "the government accommodates about a million  believers", "his brother is going to the committee with him",
    "this  man, the king, will not abandon his sons", "water boils at 100°C (212°F)", "a lot of people were absent",
    "people who have beautiful handwriting achieve success", "Adam should have been with his father, the waiter",
    "that is, the CHILDREN of male nurses don't differ", "f(x) = x^2 + 3x - 7 isn't even",
    "the ſiſter's naïve café crèche",
    "it would occur on Wednesday in February", "she would've, had he not", "well-known heroes-with-him of this age",
]  # fmt: skip
ENDS = [
    "?",
    ".",
    " as far as I am concerned",
    ", he",
    " before him. Who is right?\nHe is not. ",
    "\n\nWhich of these is true?",
    "",
]


def questions() -> list[tuple[str, str, list[str]]]:
    """Return id, question and options of each instance."""
    draw = Random(20261125)
    made = []
    for number in range(160):
        sentences = [
            f"{draw.choice(STARTS)} {draw.choice(MIDDLES)}{draw.choice(ENDS)}" for _ in range(draw.randint(1, 3))
        ]
        options = [draw.choice(MIDDLES) for _ in range(draw.randint(0, 3))]
        made.append((f"id{number}", " ".join(sentences), options))
    return made


def import_helm(checkout: Path) -> dict[str, Any]:
    """Return HELM's perturbations by our labels."""
    for package in (
        "helm",
        "helm.common",
        "helm.benchmark",
        "helm.benchmark.augmentations",
        "helm.benchmark.scenarios",
    ):
        _module(package, __path__=[str(checkout / "src" / package.replace(".", "/"))])
    tree = ast.parse((checkout / "src/helm/common/general.py").read_text(encoding="utf-8"))
    own: dict[str, Any] = {}
    wanted: list[ast.stmt] = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "match_case"
    ]
    exec(compile(ast.Module(wanted, []), "general.py", "exec"), own)
    _module(
        "helm.common.general", match_case=own["match_case"], ensure_file_downloaded=None, ensure_directory_exists=None
    )
    _module("helm.benchmark.runner", get_benchmark_output_path=tempfile.mkdtemp)
    _module("helm.common.object_spec", ObjectSpec=object, create_object=None)

    @dataclass(frozen=True)
    class Input:
        text: str = ""
        multimedia_content: Any = None

    @dataclass(frozen=True)
    class Reference:
        output: Input
        tags: list[str] = field(default_factory=list)

    @dataclass(frozen=True)
    class Instance:
        input: Input
        references: list[Reference]
        id: str
        perturbation: Any = None
        contrast_inputs: Any = None
        contrast_references: Any = None

    _module("helm.benchmark.scenarios.scenario", Input=Input, Output=Input, Reference=Reference, Instance=Instance)
    folder = Path(tempfile.mkdtemp())
    (folder / "dialect.json").write_text(json.dumps(DIALECT), encoding="utf-8")
    (folder / "names.txt").write_text("\n".join(NAMES).lower() + "\n", encoding="utf-8")
    pairs, gender = _load("contraction_expansion"), _load("gender").GenderPerturbation
    names = _load("person_name").PersonNamePerturbation
    fillers, misspell = _load("filler_words").FillerWordsPerturbation, _load("misspelling").MisspellingPerturbation
    races = {"source_class": {"race": "white_american"}, "target_class": {"race": "black_american"}}
    return {
        "mild_mix": _load("mild_mix").MildMixPerturbation(),
        "contraction": pairs.ContractionPerturbation(),
        "expansion": pairs.ExpansionPerturbation(),
        "filler_words": fillers(insert_prob=0.1, speaker_ph=False),
        "lowercase": _load("lowercase").LowerCasePerturbation(),
        "misspellings": misspell(prob=0.1),
        "misspellings:0.5": misspell(prob=0.5),
        "space": _load("space").SpacePerturbation(max_spaces=3),
        "typos": _load("typos").TyposPerturbation(prob=0.01),
        "typos:0.3": _load("typos").TyposPerturbation(prob=0.3),
        "dialect": _load("dialect").DialectPerturbation(1.0, "SAE", "AAVE", str(folder / "dialect.json")),
        "dialect:0.5": _load("dialect").DialectPerturbation(0.5, "SAE", "AAVE", str(folder / "dialect.json")),
        "gender": gender("pronouns", 1.0, "male", "female"),
        "gender_terms": gender("terms", 1.0, "male", "female"),
        "gender_terms:0.5": gender("terms", 0.5, "male", "female"),
        "person_name": names(1.0, **races, name_file_path=str(folder / "names.txt")),
        "person_name:0.5": names(0.5, **races, name_file_path=str(folder / "names.txt")),
        "contrast_sets": _load("contrast_sets").ContrastSetsPerturbation(),
        "": (Instance, Input, Reference),
    }


def contrasts(at: int, text: str, options: list[str]) -> list[tuple[str, list[str]]]:
    """Return the contrast inputs of a question with their references; none for some questions."""
    return [(f"{text} ({number})", [f"{option} {number}" for option in options]) for number in range(at % 6)]


def hash_of(texts: object) -> str:
    """Return a short hash of a perturbed question and its options."""
    return sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _module(name: str, **names: Any) -> None:
    """Put a module with these names in the place of one of HELM's."""
    made = types.ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made


def _load(name: str) -> Any:
    return importlib.import_module(f"helm.benchmark.augmentations.{name}_perturbation")


def main() -> None:
    """Write a line with the questions, and one per perturbation and seed: the first texts, and hashes of all."""
    helm = import_helm(Path(sys.argv[1]))
    instance_of, text_of, reference_of = helm.pop("")
    own = questions()
    head = {
        "origin": f"stanford-crfm/helm@{COMMIT}, Apache-2.0, by tests/perturbations/write_helm_texts.py",
        "dialect": DIALECT,
        "names": NAMES,
        "questions": [list(each) for each in own],
    }
    sys.stdout.write(json.dumps(head, ensure_ascii=False) + "\n")
    for label, perturbation in helm.items():
        for seed in SEEDS:
            texts = []
            for at, (sample_id, text, options) in enumerate(own):
                instance = instance_of(text_of(text), [reference_of(text_of(each)) for each in options], sample_id)
                if label == "contrast_sets" and (pairs := contrasts(at, text, options)):
                    instance = replace(
                        instance,
                        contrast_inputs=[text_of(each) for each, _ in pairs],
                        contrast_references=[[reference_of(text_of(each)) for each in made] for _, made in pairs],
                    )
                made = perturbation.apply(instance, seed)
                texts.append([made.input.text, [each.output.text for each in made.references]])
            in_full = texts[:N_IN_FULL] if seed is None else []
            row = {"label": label, "seed": seed, "texts": in_full, "hashes": [hash_of(each) for each in texts]}
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
