"""RACE, one request per passage: all its questions but the last are given with their answers, the last is asked.

A row's `problems` is the text of a Python list of dicts with `question`, `answer` (a letter) and `options` (four
texts).
"""

import ast

LETTERS = "ABCD"
GAP_AT_THE_END = "  _  ."


def problems(row: dict) -> list[dict]:
    """Return the questions on one passage."""
    return ast.literal_eval(row["problems"])


def answered(problem: dict) -> str:
    """Return a question with its answer: a gap at the end of a sentence is filled in, other questions are answered."""
    question, answer = problem["question"], problem["options"][LETTERS.index(problem["answer"])]
    if question.endswith(GAP_AT_THE_END):
        # one space, the underscore and the full stop go; the other space stays, so two words stay apart
        return question[: 1 - len(GAP_AT_THE_END)] + answer + "\n"
    return f"Question: {question}\nAnswer: {answer}\n"


def article_with_earlier_answers(row: dict) -> str:
    """Return the prompt: the article, the earlier questions with answers, the last question bare."""
    *earlier, last = problems(row)
    return f"Article: {row['article']}\n\n" + "".join(map(answered, earlier)) + last["question"]


def options_of_the_last(row: dict) -> list[str]:
    """Return the four options of the question that is asked."""
    return problems(row)[-1]["options"][:4]


def answer_to_the_last(row: dict) -> int:
    """Return the index of the right option."""
    return LETTERS.index(problems(row)[-1]["answer"])
