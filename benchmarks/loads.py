"""What is timed: real benchmarks at the shots people use, with as many samples as the budget allows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """One benchmark as it is asked. `samples` is per task; lm-eval's share of the time decides it."""

    name: str
    tasks: tuple[str, ...]
    num_fewshot: int
    samples: dict[str, int | None]  # shape -> samples of each task; None: whole
    quick: dict[str, int]
    wanted: dict[str, float]  # shape -> ratio to lm-eval that is aimed at


def _load(
    name: str,
    tasks: str,
    shots: int,
    samples: tuple[int | None, int | None],
    quick: tuple[int, int],
    wanted: tuple[float, float],
) -> Load:
    shapes = ("m25", "m135")
    return Load(
        name,
        tuple(tasks.split()),
        shots,
        dict(zip(shapes, samples, strict=True)),
        dict(zip(shapes, quick, strict=True)),
        dict(zip(shapes, wanted, strict=True)),
    )


LOADS: tuple[Load, ...] = (
    _load("mmlu", "mmlu_high_school_psychology mmlu_anatomy mmlu_virology", 5, (200, 60), (20, 8), (12, 5)),
    _load("truthfulqa", "truthfulqa_mc1 truthfulqa_mc2", 0, (60, 25), (8, 3), (21, 16)),
    _load("arc_challenge", "arc_challenge", 25, (40, 15), (5, 2), (7.8, 5)),
    _load("hellaswag", "hellaswag", 10, (60, 20), (6, 3), (7.3, 5)),
    _load(
        "bbh_letters",
        "leaderboard_bbh_geometric_shapes leaderboard_bbh_movie_recommendation leaderboard_bbh_ruin_names",
        3,
        (40, 15),
        (5, 2),
        (55, 30),
    ),
    _load("winogrande", "winogrande", 5, (150, 50), (20, 8), (3.2, 2.3)),
    _load("piqa", "piqa", 0, (250, 80), (40, 12), (1.9, 1.9)),
    _load("agieval_lsat", "agieval_lsat_ar agieval_lsat_rc", 0, (60, 20), (6, 3), (3, 3)),
    _load("lambada", "lambada_openai", 0, (250, 80), (40, 12), (1, 1)),
    _load("wikitext", "wikitext", 0, (8, 3), (1, 1), (1, 1)),
)
