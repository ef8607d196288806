"""HELM's prompts and scores of the benchmarks of HELM Lite and HELM Capabilities, and its draw of shots.

Shots are drawn once for all questions: labels (texts of right answers) by how often they occur, ties shuffled, one
row of each label in turn. Source: stanford-crfm/helm 63754d05, benchmark/adaptation/adapters, benchmark/metrics.
"""

import random
import re
from collections import defaultdict
from functools import partial
from itertools import cycle

LETTERS = "ABCDEFGHIJ"
FINAL_NUMBER = re.compile(r"-?[\d,]+(?:.\d+)?")
NAMED = (  # HELM's ways to find the letter that an answer names, tried in this order
    re.compile(r"answer is \(?([A-J])\)?"),
    re.compile(r"\.*\[aA\]nswer:\s*\(?([A-J])\)?"),
    re.compile(r"correct answer is [^A-Za-z]*([A-J])"),
    re.compile(r"correct answer is [^A-Z]*([A-J])"),
)
REASON = (
    "Let’s think step by step. Based on your reasoning, what is the single, most likely answer choice? Format your "
    'response as follows: "The correct answer is (insert answer here)".'
)


def options_of(row: dict) -> tuple[list[str], int]:
    """Return a row's options and the place of the right one: the first with the right text, as HELM counts."""
    if "question_stem" in row:  # OpenBookQA
        options, gold = list(row["choices"]["text"]), LETTERS.index(row["answerKey"].strip())
    elif "options" in row:  # MMLU-Pro
        options, gold = list(row["options"]), LETTERS.index(row["answer"])
    else:  # MMLU
        options, gold = list(row["choices"]), int(row["answer"])
    return options, options.index(options[gold])


def listed(row: dict) -> str:
    """Return the options, a line each."""
    return "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, options_of(row)[0], strict=False))


def joint(row: dict) -> str:
    """Return a question with its options, as HELM's multiple_choice_joint asks it."""
    return f"Question: {row.get('question_stem', row.get('question'))}\n{listed(row)}Answer:"


def reasoned(row: dict) -> str:
    """Return a question with its options and the request to reason, as HELM Capabilities asks MMLU-Pro."""
    return f"What is the correct answer to this question: {row['question']}\nChoices:\n{listed(row)}{REASON}"


def letter(row: dict) -> str:
    """Return the right answer's letter."""
    return LETTERS[options_of(row)[1]]


def worked(row: dict) -> str:
    """Return GSM8K's worked answer as HELM writes it: on one line, ending "The answer is X."."""
    return row["answer"].replace("####", "The answer is").replace("\n", " ") + "."


def stripped_prompt(row: dict) -> str:
    """Return IFEval's prompt without space around it, and the end of line that HELM adds."""
    return row["prompt"].strip() + "\n"


def matches(row: dict, results: list) -> dict[str, float]:
    """Return whether the answer is right: its letter's option, or a text that is an option's, without space around."""
    options, gold = options_of(row)
    said = results[0].strip()
    said = options[LETTERS.index(said)] if len(said) == 1 and said in LETTERS[: len(options)] else said
    return {"exact_match": float(bool(said) and said.strip() == options[gold].strip())}


def names_letter(row: dict, results: list) -> dict[str, float]:
    """Return whether the letter that the reasoning ends with is right; an answer without one is wrong."""
    match = next((match for pattern in NAMED if (match := pattern.search(results[0]))), None)
    return {"exact_match": float(match is not None and match.group(1) == letter(row))}


def final_number(row: dict, results: list) -> dict[str, float]:
    """Return whether the last number of the answer is that of the worked answer."""
    gold, said = (_last_number(text) for text in (worked(row), results[0]))
    return {"exact_match": float(bool(said) and gold == said)}


def _last_number(text: str) -> str:
    numbers = FINAL_NUMBER.findall(text)
    return numbers[-1].replace(",", "") if numbers else ""


def right_option(row: dict) -> str:
    """Return the text of the right option."""
    options, gold = options_of(row)
    return options[gold]


class ByLabel:
    """HELM's draw of shots, with the methods of lm-evaluation-harness's samplers; `label`: the right answer's text."""

    def __init__(self, docs: list, label, rnd=None) -> None:  # noqa: ARG002 - the interface
        self._docs, self._label, self._seed = docs, label, 0

    def set_rnd(self, rnd) -> None:
        """Ignore the run's seed: HELM's first trial has seed 0."""

    def sample(self, n: int, eval_doc=None, df=None) -> list:  # noqa: ARG002 - the interface
        """Return the shots, the same for all questions."""
        generator = random.Random(self._seed)  # noqa: S311 - HELM's generator, no secret
        by_label = defaultdict(list)
        for doc in self._docs:
            by_label[self._label(doc)].append(doc)
        by_count = defaultdict(list)
        for label, docs in sorted(by_label.items()):
            by_count[len(docs)].append(label)
        order = []
        for count in sorted(by_count, reverse=True):
            generator.shuffle(by_count[count])
            order.extend(by_count[count])
        shots = []
        labels = cycle(order)
        while len(shots) < min(n, len(self._docs)):
            docs = by_label[next(labels)]
            if docs:
                shots.append(docs.pop(generator.randrange(len(docs))))
        return shots


ByOption = partial(ByLabel, label=right_option)
ByWorkedAnswer = partial(ByLabel, label=worked)
