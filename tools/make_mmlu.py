"""Write MMLU's 57 subject files and its five groups into the library: `python tools/make_mmlu.py`.

The subjects differ only in name, so their files are made; what they share is in `_subject.yaml`, written by hand.
Run it after a change here and commit what it wrote: `tests/library/test_library.py` fails when the two differ.
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library" / "tasks" / "mmlu"

# Hendrycks et al. 2021, table of subjects, in four groups
SUBJECTS: dict[str, tuple[str, ...]] = {
    "stem": (
        "abstract_algebra",
        "anatomy",
        "astronomy",
        "college_biology",
        "college_chemistry",
        "college_computer_science",
        "college_mathematics",
        "college_physics",
        "computer_security",
        "conceptual_physics",
        "electrical_engineering",
        "elementary_mathematics",
        "high_school_biology",
        "high_school_chemistry",
        "high_school_computer_science",
        "high_school_mathematics",
        "high_school_physics",
        "high_school_statistics",
        "machine_learning",
    ),
    "other": (
        "business_ethics",
        "clinical_knowledge",
        "college_medicine",
        "global_facts",
        "human_aging",
        "management",
        "marketing",
        "medical_genetics",
        "miscellaneous",
        "nutrition",
        "professional_accounting",
        "professional_medicine",
        "virology",
    ),
    "social_sciences": (
        "econometrics",
        "high_school_geography",
        "high_school_government_and_politics",
        "high_school_macroeconomics",
        "high_school_microeconomics",
        "high_school_psychology",
        "human_sexuality",
        "professional_psychology",
        "public_relations",
        "security_studies",
        "sociology",
        "us_foreign_policy",
    ),
    "humanities": (
        "formal_logic",
        "high_school_european_history",
        "high_school_us_history",
        "high_school_world_history",
        "international_law",
        "jurisprudence",
        "logical_fallacies",
        "moral_disputes",
        "moral_scenarios",
        "philosophy",
        "prehistory",
        "professional_law",
        "world_religions",
    ),
}


def subject_file(subject: str, group: str) -> str:
    """Return one subject's task file."""
    words = subject.replace("_", " ")
    return (
        "include: ../_subject.yaml\n"
        f"task: mmlu_{subject}\n"
        f"task_alias: {subject}\n"
        f"tag: mmlu_{group}_tasks\n"
        f"dataset_name: {subject}\n"
        f'description: "The following are multiple choice questions (with answers) about {words}.\\n\\n"\n'
    )


def group_file(name: str, alias: str | None, members: list[str], version: str = "2") -> str:
    """Return a group's file: accuracy over all questions, so that large subjects weigh more."""
    lines = [f"group: {name}"]
    lines += [f"group_alias: {alias}"] if alias else []
    lines += ["task:", *(f"  - {member}" for member in members)]
    lines += ["aggregate_metric_list:", "  - {metric: acc, aggregation: mean, weight_by_size: true}"]
    lines += [f"metadata: {{version: {version}}}"]
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """Return every file of the folder that is made, by name."""
    made = {"mmlu.yaml": group_file("mmlu", None, [f"mmlu_{group}" for group in SUBJECTS])}
    for group, subjects in SUBJECTS.items():
        made[f"mmlu_{group}.yaml"] = group_file(f"mmlu_{group}", group.replace("_", " "), [f"mmlu_{group}_tasks"])
        made |= {f"subjects/mmlu_{subject}.yaml": subject_file(subject, group) for subject in subjects}
    return made


def main() -> None:
    """Write them."""
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
