"""The library's files by themselves: complete, consistent, and their functions right on rows made by hand."""

import importlib
import importlib.util
import math
import random
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from assaymark.tasks.lm_eval_names import known_names
from tests.conftest import ROOT
from tests.fixtures import make_rows

LIBRARY = ROOT / "src" / "assaymark" / "library"
TASKS = LIBRARY / "tasks"
CARD_KEYS = {
    *("title", "measures", "domain", "dataset", "split", "n_samples", "chance", "human", "licence"),
    *("hidden_shots", "known_faults", "citation"),
}
PROMISED = """
arc_easy arc_challenge hellaswag mmlu mmlu_stem mmlu_other mmlu_humanities mmlu_social_sciences truthfulqa_mc1
truthfulqa_mc2 winogrande boolq piqa social_iqa openbookqa sciq commonsense_qa lambada_openai wikitext agieval
agieval_en agieval_cn agieval_nous race logiqa leaderboard_musr gpqa_main_zeroshot gpqa_extended_zeroshot
gpqa_diamond_zeroshot gpqa_main_n_shot gpqa_extended_n_shot gpqa_diamond_n_shot leaderboard_gpqa leaderboard_bbh
leaderboard_mmlu_pro gsm8k gsm8k_cot bbh mmlu_pro humaneval humaneval_instruct mbpp ifeval leaderboard_ifeval
minerva_math leaderboard_math_hard
"""


class Plain(yaml.SafeLoader):
    """Reads task files without importing what they name."""


def function_name(_: yaml.SafeLoader, node: yaml.Node) -> tuple[str, Any]:
    """Return what a !function names."""
    return "function", node.value


Plain.add_constructor("!function", function_name)


def content(path: Path) -> dict[str, Any]:
    """Return a YAML file's content."""
    read: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Plain)
    return read


def module(path: str) -> ModuleType:
    """Return a task file's Python module."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), TASKS / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def task_files() -> dict[str, Path]:
    """Return the file of every task and group, by name."""
    found: dict[str, Path] = {}
    for path in sorted(TASKS.rglob("*.yaml")):
        if path.name.startswith("_") or path.name.endswith(".card.yaml"):
            continue
        read = content(path)
        name = read["group"] if "group" in read else read["task"]
        assert name not in found, f"{name} is defined twice: {path}, {found[name]}"
        found[name] = path
    return found


def cards() -> list[Path]:
    """Return every card."""
    return sorted(TASKS.rglob("*.card.yaml"))


FILES = task_files()


def test_a_file_is_named_after_its_task() -> None:
    """Whoever looks for a task finds it by file name."""
    assert [name for name, path in FILES.items() if path.stem != name] == []


def test_the_tasks_that_were_promised_are_there() -> None:
    """Every task and group of the classic boards has a file."""
    assert set(PROMISED.split()) <= FILES.keys()
    assert sum(path.parent.name == "subjects" for path in FILES.values()) == 57 + 30  # of MMLU and MMMU
    assert sum(name.startswith("agieval_") for name in FILES) == 21 + 3


@pytest.mark.parametrize("path", cards(), ids=lambda path: path.name)
def test_a_card_says_what_cards_say(path: Path) -> None:
    """A card has all keys, of the right kinds, and stands for at least one task."""
    card = content(path)
    assert card.keys() - {"serves", "members", "gated", "published", "sample_prompt"} == CARD_KEYS
    assert card.get("gated", True) is True
    assert ("(gated)" in card["dataset"]) == ("gated" in card)
    assert card["chance"] is None or card["chance"] in ("1/choices", "gold/choices") or 0 < card["chance"] < 1
    assert card["human"] is None or card["human"].keys() == {"value", "source"}
    assert isinstance(card["n_samples"], int)
    assert all(isinstance(fault, str) for fault in card["known_faults"])
    patterns = [path.name.removesuffix(".card.yaml"), *card.get("serves", [])]
    assert all(any(fnmatch(name, pattern) for name in FILES) for pattern in patterns if "*" in pattern)
    assert card.get("members", {}).keys() <= FILES.keys()


def test_every_task_has_a_card() -> None:
    """No task or group is without a card: its own, or one in its family's folder that serves it."""

    @cache
    def patterns(folder: Path) -> list[str]:
        cards = list(folder.glob("*.card.yaml"))
        return [
            name for card in cards for name in (card.name.removesuffix(".card.yaml"), *content(card).get("serves", []))
        ]

    def has_card(name: str, path: Path) -> bool:
        return any(fnmatch(name, each) for folder in (path.parent, path.parent.parent) for each in patterns(folder))

    assert [name for name, path in FILES.items() if not has_card(name, path)] == []


def test_every_function_named_is_there() -> None:
    """What a task file names with !function exists beside it."""

    def functions(value: Any) -> list[str]:
        if isinstance(value, tuple):
            return [value[1]]
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [name for child in children for name in functions(child)]

    for path in TASKS.rglob("*.yaml"):
        for name in functions(content(path)):
            file, function = name.rsplit(".", 1)
            if file.startswith("assaymark."):  # ours, by dotted path
                assert callable(getattr(importlib.import_module(file), function)), f"{path}: {name}"
                continue
            assert callable(getattr(module(str((path.parent / file).relative_to(TASKS))), function)), f"{path}: {name}"


def test_aliases_lead_to_tasks() -> None:
    """Every old name leads to names that the library or lm-eval has."""
    theirs = known_names()
    for old, new in content(LIBRARY / "aliases.yaml").items():
        assert old not in FILES, f"{old} is a task: it needs no alias"
        for name in [new] if isinstance(new, str) else new:
            assert name in theirs or any(fnmatch(known, name) for known in FILES), f"{old}: nothing is called {name}"


def test_benchmarks_elsewhere_are_not_here() -> None:
    """A name that is said to be elsewhere is no task here or in lm-eval, and what it needs is stated."""
    elsewhere = content(LIBRARY / "elsewhere.yaml")
    assert not elsewhere.keys() & (FILES.keys() | known_names().keys())
    assert all(isinstance(why, str) and len(why) > 20 for why in elsewhere.values())


@pytest.mark.parametrize("path", sorted((LIBRARY / "suites").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_suite_is_complete(path: Path) -> None:
    """A suite has every key, names tasks that exist, or why one does not, and refuses a missing one."""
    suite, elsewhere = content(path), content(LIBRARY / "elsewhere.yaml")
    assert suite["name"] == path.stem
    assert {
        "version",
        "title",
        "profile",
        "members",
        "normalise",
        "clip",
        "aggregate",
        "reproduced",
        "note",
    } <= suite.keys()
    assert suite["missing"] == "refuse"
    for member in suite["members"]:
        assert {"task", "shots", "metric", "chance", "column"} <= member.keys()
        assert member["task"] in FILES or (member["task"] in elsewhere and not suite["reproduced"]), member["task"]


def test_the_boards_have_their_members() -> None:
    """Open LLM Leaderboard v1 has six columns, v2 six with 24 BBH tasks, Nous four with 8, 7, 1 and 18 tasks."""

    def columns(name: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for member in content(LIBRARY / "suites" / f"{name}.yaml")["members"]:
            counts[member["column"]] = counts.get(member["column"], 0) + 1
        return counts

    assert list(columns("open-llm-v1").values()) == [1] * 6
    assert columns("open-llm-v2") == {"IFEval": 1, "BBH": 24, "MATH Lvl 5": 1, "GPQA": 1, "MuSR": 3, "MMLU-PRO": 1}
    assert columns("nous") == {"AGIEval": 8, "GPT4All": 7, "TruthfulQA": 1, "Bigbench": 18}


# ------------------------------------------------------------------------------------------------- functions


def test_hellaswag_loses_its_markup() -> None:
    """A title mark becomes a full stop, other marks go, double spaces are halved once."""
    row: dict[str, Any] = {
        "activity_label": "Baking",
        "ctx_a": " [header] How to bake [title] Mix.",
        "ctx_b": "then [step]  wait",
        "label": "2",
    }
    row |= {"endings": [" [substeps] Stir. ", "Eat", "Go", "Sit"]}
    made = module("hellaswag/rows").process_docs([row])[0]
    assert made["query"] == "Baking:  How to bake. Mix. Then  wait"
    assert made["choices"] == [" Stir.", "Eat", "Go", "Sit"]
    assert made["gold"] == 2
    assert made["label"] == "2"


def test_winogrande_is_cut_at_its_blank() -> None:
    """The options end two contexts; what follows the blank is scored after each."""
    halves = module("winogrande/halves")
    row = {
        "sentence": "The cup fell off the shelf because the _ was wet.",
        "option1": "cup",
        "option2": "shelf",
        "answer": "2",
    }
    assert halves.contexts(row) == [
        "The cup fell off the shelf because the cup",
        "The cup fell off the shelf because the shelf",
    ]
    assert halves.ending(row) == "was wet."
    assert halves.right_context(row) == 1


def test_mc2_is_the_share_of_probability_on_true_answers() -> None:
    """Probabilities .5, .25 and .25 with the first and third true give .75, however small; .5 by the rule of 2023."""
    truth = module("truthfulqa/truth")
    row = {"mc2_targets": {"labels": [1, 0, 1]}}
    for shift in (0.0, -2000.0):
        results = [(math.log(p) + shift, False) for p in (0.5, 0.25, 0.25)]
        assert truth.process_results_mc2(row, results) == {"acc": pytest.approx(0.75)}
        assert truth.process_results_mc2_2023(row, results) == {"acc": pytest.approx(0.5)}  # the third counts as false


@pytest.mark.parametrize(
    ("answer", "named", "reasoned"),
    [
        ("The 7!", 1.0, 0.0),
        ("7 kites, of course", 1.0, 1.0),
        (" 3 + 4. The answer is 5. The answer is 7 kites", 0.0, 1.0),
        ("seven", 1.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_the_gauntlet_reads_the_beginning_of_an_answer(answer: str, named: float, reasoned: float) -> None:
    """A name of the right answer must stand first, past case and articles; a number after the last "The answer is"."""
    answers = module("gauntlet/answers")
    row = {"answer": "7", "aliases": ["Seven"]}
    assert answers.begins_with_a_name(row, [answer]) == {"prefix_match": named}
    assert answers.ends_with_the_number(row, [answer]) == {"prefix_match": reasoned}


def test_wikitext_is_joined_again() -> None:
    """Tokens are joined as text is written; words and bytes are counted before that."""
    pages = module("wikitext/pages")
    row = {"page": " = Heading = \n The 1 @,@ 000 @-@ year ( old ) \" house \" , it ' s said ; N men 's . \n"}
    assert pages.detokenized(row) == " = Heading =\nThe 1,000-year (old) \"house\", it's said; 1 men's.\n"
    counts = pages.process_results(row, [-3.5])
    assert counts["word_perplexity"] == (-3.5, 27)  # 25 tokens and the two empty ends that splitting at spaces leaves
    assert counts["byte_perplexity"] == counts["bits_per_byte"] == (-3.5, len(row["page"].encode()))


def test_race_answers_all_but_the_last() -> None:
    """Earlier questions stand answered, a gap at the end filled in; the last stands bare."""
    passages = module("race/passages")
    problems = [
        {"question": "They met in   _  .", "answer": "B", "options": ["a barn", "a boat", "a bus", "a bar"]},
        {"question": "Why?", "answer": "A", "options": ["By chance.", "By plan.", "By order.", "By mistake."]},
        {"question": "Who left?", "answer": "D", "options": ["Ann", "Ben", "Cid", "Dan"]},
    ]
    row = {"article": "Text.", "problems": str(problems)}
    expected = "Article: Text.\n\nThey met in  a boat\nQuestion: Why?\nAnswer: By chance.\nWho left?"
    assert passages.article_with_earlier_answers(row) == expected
    assert passages.options_of_the_last(row) == ["Ann", "Ben", "Cid", "Dan"]
    assert passages.answer_to_the_last(row) == 3


def test_gpqa_is_shuffled_the_same_every_time() -> None:
    """The same rows get the same order, the letter names the right answer, and only the board's form loses brackets."""
    options = module("gpqa/options")
    rows = [make_rows.gpqa(random.Random(i), i) for i in range(30)]
    for made in (options.process_docs, options.process_docs_n_shot, options.process_docs_leaderboard):
        assert made(rows) == made(rows)
    drawn = options.process_docs(rows)
    for row in drawn:
        shown = row[f"choice{'ABCD'.index(row['answer'][1]) + 1}"]
        assert shown == options.cleaned(row["Correct Answer"])
    assert {row["answer"] for row in drawn} == {"(A)", "(B)", "(C)", "(D)"}
    assert any("[" in row["choice1"] for row in drawn)
    assert not any("[" in row["choice1"] for row in options.process_docs_leaderboard(rows))


def test_agieval_takes_any_right_choice() -> None:
    """An item with two right choices is right with either; acc_norm divides by the characters of a choice."""
    row = {"gold": [1, 2], "choices": ["(A)x", "(B)xx", "(C)long text"]}
    score = module("agieval/answers").process_results_choice
    assert score(row, [(-4.0, False), (-4.5, False), (-5.0, False)]) == {"acc": 0.0, "acc_norm": 1.0}
    assert score(row, [(-4.0, False), (-3.0, False), (-9.0, False)]) == {"acc": 1.0, "acc_norm": 1.0}


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("so it is $x=\\frac12$.", "$\\dfrac{1}{2}$", True),
        ("The answer is 0.5", "$\\frac{1}{2}$", True),
        ("\\boxed{3/4}", "\\boxed{\\frac{3}{4}}", True),
        ("it is 12 or 13", "13", True),
        ("\\boxed{\\sqrt3}", "$\\sqrt{3}$", True),
        ("\\boxed{5\\text{ cm}}", "$5$", True),
        ("\\boxed{0.75}", "\\boxed{\\frac{3}{4}}", False),
        ("nothing", "$3$", False),
    ],
)
def test_agieval_compares_written_answers_as_text(answer: str, gold: str, right: bool) -> None:
    """Spellings of one LaTeX text are equal; nothing is calculated, except that 0.5 is a half."""
    assert module("agieval/cloze").process_results({"answer": gold}, [answer]) == {"acc": int(right)}


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("So the answer is (C). Not (B).", 1.0),
        ("The answer is: C", 1.0),
        ("First A.\nAnswer: C", 1.0),
        ("It is not A, rather C", 1.0),
        ("The answer is (A).", 0.0),
        ("no idea", None),
        ("I do not know", 0.0),
    ],
)
def test_mmlu_pros_authors_read_an_answer_in_three_ways(answer: str, score: float | None) -> None:
    """The letter after "answer is", after "Answer:", or the last that stands alone; without one a random option's."""
    options = module("mmlu_pro/options")
    row = {"question": "Which?", "options": ["one", "two", " three ", "four", "N/A"], "answer": "C"}
    row |= {"cot_content": "A: Let's think step by step. Two is. The answer is (B)."}
    found = options.right_or_drawn(row, [answer])
    assert found == {"acc_or_drawn": 0.25 if score is None else score, "exact_match": score or 0.0}
    assert options.asked(row).endswith("\nB. two\nC.  three \nD. four\nAnswer: Let's think step by step.")
    assert options.worked(row) == " Two is. The answer is (B)."


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("So the answer is (B).", "(B)"),
        ("So the answer is ] ) }.", "] ) }"),
        ("\nThe answer is False", "False"),
        ("I do not know.", None),
    ],
)
def test_bbhs_authors_read_what_follows_answer_is(answer: str, read: str | None) -> None:
    """All that follows the first "answer is ", less one full stop at the end; lm-eval's pattern wants the full stop."""
    (steps,) = [steps["filter"] for steps in content(TASKS / "bbh" / "_authors.yaml")["filter_list"]]
    found = re.search(steps[0]["regex_pattern"], answer)
    assert (found.group(1) if found else None) == read


def test_mmlu_pro_has_as_many_letters_as_options() -> None:
    """Items with fewer than ten options have fewer letters; the worked answer loses its opening."""
    options = module("mmlu_pro/options")
    row = {"question": "Which?", "options": [" one", "two ", "three"], "category": "computer science"}
    row |= {"cot_content": "A: Let's think step by step. Two is. The answer is (B)."}
    assert options.letters(row) == ["A", "B", "C"]
    assert options.lettered(row) == "Which?\nA.  one\nB. two \nC. three\nAnswer:"
    assert options.question(row).startswith("Question:\nWhich?\nOptions:\nA. one\nB. two\nC. three\nAnswer: Let's")
    assert options.reasoning(row) == "Two is. The answer is (B)."
    assert options.computer_science([row, row | {"category": "law"}]) == [row]
