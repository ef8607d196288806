"""The 25 instruction checks: by hand, on all rows of the data set, and against the reference in lm-eval."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.errors import MalformedSample, UnknownName
from assaymark.scoring.instructions.checks import CHECKS
from assaymark.scoring.instructions.ifeval import follows, loose_versions, score_ifeval
from assaymark.scoring.instructions.punkt import split_sentences

EXAMPLES: list[tuple[str, dict[str, Any], str, str]] = [
    ("keywords:existence", {"keywords": ["Fox", "run"]}, "foxes RUN", "foxes walk"),
    ("keywords:frequency", {"keyword": "no", "relation": "less than", "frequency": 2}, "no", "no no"),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "a Cat."),
    ("keywords:letter_frequency", {"letter": "e", "let_relation": "at least", "let_frequency": 2}, "Ee", "e"),
    ("length_constraints:number_sentences", {"relation": "less than", "num_sentences": 2}, "One.", "One. Two."),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n***\n\n***\nb"),
    ("length_constraints:number_words", {"relation": "at least", "num_words": 3}, "one two three", "one two"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        "a b\n\nthen, c",
        "then\n\nb c",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] [place]", "[name"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "x\np. p. s: y", "P.S. y"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n** b"),
    ("detectable_format:constrained_response", {}, "Well. My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* *b*", "*a* * *"),
    ("detectable_format:multiple_sections", {"section_spliter": "Part", "num_sections": 2}, "Part 1 Part 2", "Part A"),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<A title>>\ntext", "<< >>"),
    ("combination:two_responses", {}, "a\n******\nb", "a\n******\na"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi"}, "say HI there", "hi"),
    ("startend:end_checker", {"end_phrase": "The end."}, '"It is THE END."', "The end. Or not"),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        "THE END",
        "The END",
    ),
    ("punctuation:no_comma", {}, "a b", "a, b"),
    ("startend:quotation", {}, ' "a" ', '"a'),
    ("language:response_language", {"language": "de"}, "Das ist ein deutscher Satz.", "This is an English sentence."),
    ("change_case:english_capital", {}, "THIS IS AN ENGLISH SENTENCE ABOUT THE WEATHER.", "This is English."),
    ("change_case:english_lowercase", {}, "this is an english sentence about the weather.", "This is English."),
]


def test_each_of_the_25_has_an_example() -> None:
    """The examples cover every instruction."""
    assert {example[0] for example in EXAMPLES} == set(CHECKS)
    assert len(CHECKS) == 25


@pytest.mark.parametrize(("name", "arguments", "good", "bad"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_an_example_followed_and_one_not(name: str, arguments: dict[str, Any], good: str, bad: str) -> None:
    """Each check passes an answer that follows its instruction and fails one that does not."""
    if "language" in name or "english" in name:
        pytest.importorskip("langdetect")
    assert follows(name, arguments, [good])
    assert not follows(name, arguments, [bad])


def test_loose_ignores_first_and_last_line_and_asterisks() -> None:
    """An introduction, a closing line and bold marks do not fail the loose metrics, but the strict ones."""
    row = {"instruction_id_list": ["startend:quotation", "punctuation:no_comma"], "kwargs": [{}, {}]}
    scores = score_ifeval(row, 'Sure, here it is:\n**"Hello there"**\nAnything else, perhaps?')
    assert (scores["prompt_level_strict_acc"].value, scores["prompt_level_loose_acc"].value) == (0.0, 1.0)
    assert scores["inst_level_strict_acc"].parts == (False, False)
    assert scores["inst_level_loose_acc"].parts == (True, True)
    assert len(loose_versions("a\nb\nc")) == 8


def test_an_empty_answer_follows_nothing() -> None:
    """A blank answer has no comma, and still does not follow "no comma"."""
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert {score.value for score in score_ifeval(row, " \n").values()} == {0.0}


def test_mistakes_in_the_data_are_named() -> None:
    """An unknown instruction, a missing argument and a wrong relation are errors, not random draws."""
    with pytest.raises(UnknownName, match="no_comma"):
        follows("punctuation:no_commas", {}, ["a"])
    with pytest.raises(MalformedSample, match="num_bullets"):
        follows("detectable_format:number_bullet_lists", {}, ["a"])
    with pytest.raises(MalformedSample, match="relation"):
        follows("length_constraints:number_words", {"relation": "at most", "num_words": 3}, ["a"])
    with pytest.raises(MalformedSample, match="expected equal"):
        score_ifeval({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "a")


def rows(shared_dir: Path) -> list[dict[str, Any]]:
    """All rows of google/IFEval."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = shared_dir / "data" / "google" / "IFEval" / "default" / "train.parquet"
    if not path.is_file():
        pytest.skip(f"no {path}")
    result: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return result


def test_every_row_of_the_data_set_can_be_scored(shared_dir: Path) -> None:
    """No instruction of the 541 prompts is unknown or lacks an argument."""
    pytest.importorskip("langdetect")
    table = rows(shared_dir)
    assert len(table) == 541
    for row in table:
        assert len(score_ifeval(row, "A short answer.")) == 4


TELLING = [
    "* point one", "- point two", "**Bold** and *it*", "[name] [place]", "P.S. more", "p.p.s. again", "<<Title>>",
    "Section 1", "SECTION 2", "***", "******", '"quoted"', "My answer is yes.", '{"a": 1}', "```json", "```", "",
    "Hello WORLD, THIS is NASA", "no commas here", "ALL CAPITALS HERE TODAY", "Is there anything else I can help with?",
    "the quick brown fox jumps over the lazy dog and runs away", "Paragraph one", "weekend hello king",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.oracle
def test_all_checks_but_sentences_equal_the_reference(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every second row, for random answers of relevant lines, every check agrees with the reference.

    Excluded: sentences, for which the reference downloads Punkt's parameters (`test_punkt.py` has them), and the two
    prompts with a "letter" such as #, for which the reference draws a random letter; ours counts the given one.
    """
    pytest.importorskip("lm_eval")
    langdetect = pytest.importorskip("langdetect")
    nltk = pytest.importorskip("nltk")
    tokenizer = pytest.importorskip("nltk.tokenize.destructive").NLTKWordTokenizer()
    monkeypatch.setattr(nltk.data, "find", lambda name: name)  # the reference would download Punkt on import
    monkeypatch.setattr(
        nltk, "word_tokenize", lambda text: [found for s in split_sentences(text) for found in tokenizer.tokenize(s)]
    )
    stand_in: Any = types.ModuleType("immutabledict")  # a package its module imports for one constant
    stand_in.immutabledict = dict
    monkeypatch.setitem(sys.modules, "immutabledict", stand_in)
    monkeypatch.setattr(langdetect.DetectorFactory, "seed", 0)
    reference = pytest.importorskip("lm_eval.tasks.ifeval.utils")
    rng = np.random.default_rng(0)
    agreed: dict[str, set[bool]] = {}
    for row in rows(shared_dir)[::2]:
        keep = [
            i
            for i, (name, options) in enumerate(zip(row["instruction_id_list"], row["kwargs"], strict=True))
            if not name.endswith("number_sentences") and (options["letter"] or "a").isalpha()
        ]
        names = [row["instruction_id_list"][i] for i in keep]
        kwargs = [row["kwargs"][i] for i in keep]
        extra = [str(v) for options in kwargs for v in options.values() if isinstance(v, str)]
        extra += [
            word for options in kwargs for word in (options["keywords"] or []) + (options["forbidden_words"] or [])
        ]
        for _ in range(2):
            lines = rng.choice([*TELLING, *extra], size=rng.integers(1, 6))
            answer = str(rng.choice(["\n", "\n\n", " "])).join(lines.tolist())
            ours = score_ifeval({"instruction_id_list": names, "kwargs": kwargs}, answer) if names else {}
            sample = reference.InputExample(row["key"], names, row["prompt"], kwargs)
            strict = reference.test_instruction_following_strict(sample, answer).follow_instruction_list
            loose = reference.test_instruction_following_loose(sample, answer).follow_instruction_list
            if names:
                assert list(ours["inst_level_strict_acc"].parts or ()) == strict, (names, kwargs, answer)
                assert list(ours["inst_level_loose_acc"].parts or ()) == loose, (names, kwargs, answer)
            for name, followed in zip(names, loose, strict=True):
                agreed.setdefault(name, set()).add(followed)
    assert len(agreed) == 24
    assert sum(len(seen) == 2 for seen in agreed.values()) >= 20  # both outcomes were really seen
