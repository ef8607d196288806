"""The functions of MATH's task files: rows, both leaderboards' scores, and normal forms compared with lm-eval's."""

import importlib.metadata
from pathlib import Path

import pytest

from assaymark.scoring.mathematics import normalise_minerva, normalise_published
from assaymark.scoring.mathematics_rows import process_docs, process_docs_hard, process_results, process_results_hard

ROW = {"problem": "Half?", "level": "Level 5", "type": "Algebra", "solution": r"It is $\boxed{\frac12}$."}


def announced(answer: str) -> str:
    """Return an answer in the sentence that Minerva's prompt requests."""
    return f"So: Final Answer: The final answer is {answer}. I hope it is correct."


def test_rows_get_their_answers() -> None:
    """Minerva's rows have the answer in normal form; the leaderboard's, only level 5, have it unchanged."""
    easy = ROW | {"level": "Level 1"}
    assert [row["answer"] for row in process_docs([ROW, easy])] == [r"\frac{1}{2}"] * 2
    assert process_docs_hard([ROW, easy]) == [{**ROW, "answer": r"\frac12"}]
    (unboxed,) = process_docs_hard([ROW | {"solution": "one half"}])
    assert unboxed["answer"] == "[invalidanswer]"


@pytest.mark.parametrize(
    ("answer", "minerva", "board"),
    [
        (announced(r"$\frac{1}{2}$"), (1.0, 1.0), (1.0, 1.0)),
        (announced("$0.5$"), (1.0, 1.0), (1.0, 1.0)),
        (announced("$2$"), (0.0, 0.0), (0.0, 0.0)),
        (r"Thus \boxed{\frac{1}{2}}", (0.0, 1.0), (1.0, 0.0)),
        ("I do not know.", (0.0, 0.0), (0.0, 0.0)),
        ("", (0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_each_leaderboard_scores_by_its_rules(
    answer: str, minerva: tuple[float, float], board: tuple[float, float]
) -> None:
    """An answer in the sentence is compared by normal form and by value; a boxed one only in the whole text."""
    pytest.importorskip("math_verify")
    (row,) = process_docs([ROW])
    result = process_results(row, [answer])
    assert (result["exact_match"], result["math_verify"]) == minerva
    (hard,) = process_docs_hard([ROW])
    by_value = process_results_hard(hard, [answer])
    assert (by_value["exact_match"], by_value["exact_match_original"]) == board


@pytest.mark.filterwarnings("ignore")
def test_normal_forms_are_lm_evals(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both normal forms of all 500 answers of MATH-500 equal lm-eval's."""
    for needed in ("lm_eval", "math_verify", "antlr4"):
        pytest.importorskip(needed)
    parquet = pytest.importorskip("pyarrow.parquet")
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "4.11" if name.startswith("antlr4") else version(name)
    )
    from lm_eval.tasks.leaderboard.math import utils as board
    from lm_eval.tasks.minerva_math import utils as minerva

    (file,) = (shared_dir / "data" / "HuggingFaceH4" / "MATH-500" / "default").glob("*.parquet")
    rows = [row | {"level": "Level 5"} for row in parquet.read_table(file).to_pylist()]
    assert len(rows) == 500
    for row, ours in zip(rows, process_docs_hard(rows), strict=True):
        gold = board.remove_boxed(board.last_boxed_only_string(row["solution"]))
        assert ours["answer"] == gold
        assert normalise_published(gold) == board.normalize_final_answer(gold)
        assert normalise_minerva(gold) == minerva.normalize_final_answer(gold)
