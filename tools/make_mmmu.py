"""Write MMMU's 30 subject files and its seven groups into the library: `python tools/make_mmmu.py`.

The subjects differ only in name, so their files are made; what they share is in `_subject.yaml`, written by hand.
Run it after a change here and commit what it wrote: `tests/library/test_written_by_programs.py` fails when the two
differ. Groups weigh questions equally, as its authors fold subjects and disciplines.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.make_mmlu import group_file

FOLDER = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library" / "tasks" / "mmmu"

# Yue et al. 2024, table 1: subjects (as the Hub spells its configurations) in six disciplines
SUBJECTS: dict[str, tuple[str, ...]] = {
    "Art and Design": ("Art", "Art_Theory", "Design", "Music"),
    "Business": ("Accounting", "Economics", "Finance", "Manage", "Marketing"),
    "Science": ("Biology", "Chemistry", "Geography", "Math", "Physics"),
    "Health and Medicine": (
        "Basic_Medical_Science",
        "Clinical_Medicine",
        "Diagnostics_and_Laboratory_Medicine",
        "Pharmacy",
        "Public_Health",
    ),
    "Humanities and Social Science": ("History", "Literature", "Sociology", "Psychology"),
    "Tech and Engineering": (
        "Agriculture",
        "Architecture_and_Engineering",
        "Computer_Science",
        "Electronics",
        "Energy_and_Power",
        "Materials",
        "Mechanical_Engineering",
    ),
}


def name_of(title: str) -> str:
    """Return the name of a subject's task or of a discipline's group; those of lm-eval."""
    return f"mmmu_val_{title.lower().replace(' ', '_')}"


def subject_file(subject: str) -> str:
    """Return one subject's task file."""
    return (
        "include: ../_subject.yaml\n"
        f"task: {name_of(subject)}\n"
        f"task_alias: {subject.replace('_', ' ')}\n"
        f"dataset_name: {subject}\n"
    )


def files() -> dict[str, str]:
    """Return every file of the folder that is made, by name."""
    made = {"mmmu_val.yaml": group_file("mmmu_val", None, [name_of(discipline) for discipline in SUBJECTS], "1.0")}
    for discipline, subjects in SUBJECTS.items():
        members = [name_of(subject) for subject in subjects]
        made[f"{name_of(discipline)}.yaml"] = group_file(name_of(discipline), discipline, members, "1.0")
        made |= {f"subjects/{name_of(subject)}.yaml": subject_file(subject) for subject in subjects}
    return made


def main() -> None:
    """Write them."""
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
