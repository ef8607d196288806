"""Names of models as lists show them: short, and told apart."""

import re
from collections.abc import Collection, Sequence


def names_apart(names: Collection[str]) -> dict[str, str]:
    """Return each model's name as a list shows it: its last part, and as many more as tell it from the others."""
    short_names: dict[str, str] = {}
    for name in names:
        parts = name.rstrip("/").split("/")
        others = {other.rstrip("/") for other in names} - {name.rstrip("/")}
        for length in range(min(_n_named(parts), len(parts)), len(parts) + 1):
            tail = "/".join(parts[-length:])
            if "+" in name or not any(other == tail or other.endswith(f"/{tail}") for other in others):
                break
        short_names[name] = short_model_name(name) if "+" in name else tail or name
    return short_names


def labels_apart(runs: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the labels of runs; one that several share gets the precision that tells them apart, else the run's id.

    runs: label, precision (empty if unknown) and id (empty if there is none) of each.
    """
    labels = [label for label, _, _ in runs]
    precisions = {label: [precision for other, precision, _ in runs if other == label] for label in labels}
    distinct = []
    for label, precision, run_id in runs:
        alike = precisions[label]
        if len(alike) == 1 or not run_id:
            distinct.append(label)
        else:
            tells = all(alike) and len(set(alike)) == len(alike)
            distinct.append(f"{label} ({precision if tells else run_id})")
    return distinct


def short_model_name(name: str) -> str:
    """Return the last part of a model's path or hub id; of `BASE+ADAPTER` the last parts of both.

    A folder whose name says nothing of the model (`hf`, `checkpoint-500`, ...) has its parents' names before it.
    """
    parts = [part.rstrip("/").split("/") for part in name.split("+") if part.strip("/")]
    return " + ".join("/".join(part[-_n_named(part) :]) for part in parts) or name


_SAYS_NOTHING = re.compile(
    r"\.{0,2}|hf|(pre)?trained|models?|checkpoints?|final|best|last|latest|outputs?|export(ed)?|merged|weights|snapshots?"
    r"|[0-9a-f]{40}|(checkpoint|ckpt|step|epoch|iter|global_step)[-_]?\d+|\d+",
    re.IGNORECASE,
)


def _n_named(parts: Sequence[str]) -> int:
    """Return how many of the last parts of a path name a model: up to the first, from the end, that says something."""
    return next((n for n, part in enumerate(reversed(parts), 1) if not _SAYS_NOTHING.fullmatch(part)), len(parts))
