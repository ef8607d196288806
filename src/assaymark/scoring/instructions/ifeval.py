"""IFEval's four numbers: per prompt and per instruction, strict and loose.

Loose forgives what surrounds an answer: it is followed if any of eight versions follows it, without the first line,
the last line or both, each with and without asterisks.
"""

from collections.abc import Mapping, Sequence

from assaymark.errors import MalformedSample, UnknownName
from assaymark.records import Row
from assaymark.registry import nearest
from assaymark.scoring.instructions.checks import CHECKS
from assaymark.scoring.metric import ScoreValue


def loose_versions(answer: str) -> tuple[str, ...]:
    """Return the answer's eight versions, the answer itself first."""
    lines = answer.split("\n")
    cut = [answer, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return (*cut, *(text.replace("*", "") for text in cut))


def follows(instruction: str, arguments: Mapping[str, object], answers: Sequence[str]) -> bool:
    """Return whether any of the answers that is not blank follows the instruction.

    Raises: UnknownName for an instruction that is none of the 25; MalformedSample for a missing argument.
    """
    check = CHECKS.get(instruction)
    if check is None:
        raise UnknownName("instruction", instruction, nearest(instruction, CHECKS))
    return any(check(answer, arguments) for answer in answers if answer.strip())


def score_ifeval(row: Row, answer: str) -> dict[str, ScoreValue]:
    """Score one answer to one row of google/IFEval (`instruction_id_list`, `kwargs`).

    The per-instruction metrics have one True or False per instruction as parts; lm-eval averages them over all
    instructions of all prompts.

    Source: Zhou et al. 2023 (arXiv 2311.07911), section 3; lm-evaluation-harness task ifeval, version 4.
    """
    instructions, arguments = row["instruction_id_list"], row["kwargs"]
    if len(instructions) != len(arguments):
        raise MalformedSample(
            f"{len(instructions)} instructions and {len(arguments)} sets of arguments; expected equal"
        )
    pairs = list(zip(instructions, arguments, strict=True))
    result: dict[str, ScoreValue] = {}
    for kind, versions in (("strict", (answer,)), ("loose", loose_versions(answer))):
        followed = tuple(follows(name, options, versions) for name, options in pairs)
        detail = dict(zip(instructions, followed, strict=True))
        result[f"prompt_level_{kind}_acc"] = ScoreValue(float(all(followed)), detail=detail)
        result[f"inst_level_{kind}_acc"] = ScoreValue(sum(followed) / len(followed), parts=followed)
    return result


def process_results(doc: Mapping[str, object], results: Sequence[str]) -> dict[str, object]:
    """Return the four numbers as task files' functions do: True or False, and a list of them per instruction."""
    scores = score_ifeval(doc, results[0])
    return {name: list(score.parts) if score.parts is not None else bool(score.value) for name, score in scores.items()}


def agg_inst_level_acc(items: Sequence[Sequence[bool]]) -> float:
    """Return the share of instructions that were followed, over all prompts: prompts with more count for more."""
    followed = [one for per_prompt in items for one in per_prompt]
    return sum(followed) / len(followed)
