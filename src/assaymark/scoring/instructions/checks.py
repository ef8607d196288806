"""IFEval's 25 instructions: each is a function of the answer and the arguments that returns whether it is followed.

The definitions are the published ones (Zhou et al. 2023, arXiv 2311.07911, table 3, and the reference implementation
in google-research): thresholds, what counts as a bullet or a section, what is tolerated. A missing argument is an
error in the data here; the reference draws a random one.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from assaymark.errors import MalformedSample
from assaymark.scoring.instructions.punkt import count_sentences
from assaymark.scoring.instructions.text_units import count_capital_tokens, count_words, detect_language

Arguments = Mapping[str, Any]
Check = Callable[[str, Arguments], bool]

CONSTRAINED_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def _need(arguments: Arguments, name: str) -> Any:
    value = arguments.get(name)
    if value is None:
        raise MalformedSample(f"an instruction lacks its argument '{name}'; it has {sorted(arguments)}")
    return value


def _compare(count: int, arguments: Arguments, relation: str, threshold: str) -> bool:
    wanted, limit = _need(arguments, relation), int(_need(arguments, threshold))
    if wanted == "less than":
        return count < limit
    if wanted == "at least":
        return count >= limit
    raise MalformedSample(f"relation is {wanted!r}; expected 'less than' or 'at least'")


def keywords_exist(answer: str, arguments: Arguments) -> bool:
    """Every keyword occurs (each is a regular expression, case is ignored)."""
    return all(re.search(keyword, answer, re.IGNORECASE) for keyword in _need(arguments, "keywords"))


def keyword_frequency(answer: str, arguments: Arguments) -> bool:
    """A keyword occurs less than, or at least, a number of times."""
    found = re.findall(_need(arguments, "keyword").strip(), answer, re.IGNORECASE)
    return _compare(len(found), arguments, "relation", "frequency")


def forbidden_words(answer: str, arguments: Arguments) -> bool:
    """None of the words occurs as a whole word."""
    words = _need(arguments, "forbidden_words")
    return not any(re.search(rf"\b{word}\b", answer, re.IGNORECASE) for word in words)


def letter_frequency(answer: str, arguments: Arguments) -> bool:
    """A letter, in either case, occurs less than, or at least, a number of times."""
    count = answer.lower().count(_need(arguments, "letter").strip().lower())
    return _compare(count, arguments, "let_relation", "let_frequency")


def response_language(answer: str, arguments: Arguments) -> bool:
    """The whole answer is in a language; a text without any features passes."""
    return detect_language(answer) in (_need(arguments, "language"), None)


def number_sentences(answer: str, arguments: Arguments) -> bool:
    """The answer has less than, or at least, a number of sentences."""
    return _compare(count_sentences(answer), arguments, "relation", "num_sentences")


def number_paragraphs(answer: str, arguments: Arguments) -> bool:
    """There is an exact number of paragraphs between *** dividers; only the first and last piece may be empty."""
    pieces = re.split(r"\s?\*\*\*\s?", answer)
    if not all(piece.strip() for piece in pieces[1:-1]):
        return False
    return sum(bool(piece.strip()) for piece in pieces) == int(_need(arguments, "num_paragraphs"))


def number_words(answer: str, arguments: Arguments) -> bool:
    """The answer has less than, or at least, a number of words."""
    return _compare(count_words(answer), arguments, "relation", "num_words")


def nth_paragraph_first_word(answer: str, arguments: Arguments) -> bool:
    """There is an exact number of paragraphs, separated by blank lines, and the nth starts with a word."""
    pieces = answer.split("\n\n")
    count = sum(bool(piece.strip()) for piece in pieces)
    nth = int(_need(arguments, "nth_paragraph"))
    if not 1 <= nth <= count or not pieces[nth - 1].strip():
        return False
    start = pieces[nth - 1].split()[0].lstrip("'").lstrip('"')
    word = re.split(r"[.,?!'\"]", start)[0].lower()
    return count == int(_need(arguments, "num_paragraphs")) and word == str(_need(arguments, "first_word")).lower()


def number_placeholders(answer: str, arguments: Arguments) -> bool:
    """There is at least a number of [placeholders] in square brackets."""
    return len(re.findall(r"\[.*?\]", answer)) >= int(_need(arguments, "num_placeholders"))


def postscript(answer: str, arguments: Arguments) -> bool:
    """A postscript starts with a marker; spaces inside P.S. and P.P.S are allowed, case is ignored."""
    marker = _need(arguments, "postscript_marker").strip()
    known = {"P.P.S": r"\s*p\.\s?p\.\s?s", "P.S.": r"\s*p\.\s?s\."}
    return bool(re.search(known.get(marker, r"\s*" + marker.lower()), answer.lower()))


def number_bullet_lists(answer: str, arguments: Arguments) -> bool:
    """An exact number of lines starts with * (not **) or -."""
    stars = re.findall(r"^\s*\*[^\*].*$", answer, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", answer, re.MULTILINE)
    return len(stars) + len(dashes) == int(_need(arguments, "num_bullets"))


def constrained_response(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001 - one signature for all checks
    """The answer contains one of three fixed sentences."""
    return any(option in answer for option in CONSTRAINED_ANSWERS)


def number_highlighted_sections(answer: str, arguments: Arguments) -> bool:
    """There is at least a number of *highlights*; **double ones** count too, empty ones do not."""
    single = re.findall(r"\*[^\n\*]*\*", answer)
    double = re.findall(r"\*\*[^\n\*]*\*\*", answer)
    count = sum(bool(text.strip("*").strip()) for text in single)
    count += sum(bool(text.removeprefix("**").removesuffix("**").strip()) for text in double)
    return count >= int(_need(arguments, "num_highlights"))


def multiple_sections(answer: str, arguments: Arguments) -> bool:
    """At least a number of sections starts with the marker and a number."""
    marker = _need(arguments, "section_spliter").strip()
    return len(re.findall(rf"\s?{marker}\s?\d+\s?", answer)) >= int(_need(arguments, "num_sections"))


def json_format(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """The whole answer is JSON, in a fenced block or bare."""
    text = answer.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """There is a <<title>> in double angle brackets that is not empty."""
    return any(found.lstrip("<").rstrip(">").strip() for found in re.findall(r"<<[^\n]+>>", answer))


def two_responses(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """Two different answers are separated by ******; only the first and last piece may be empty."""
    pieces = answer.split("******")
    if not all(piece.strip() for piece in pieces[1:-1]):
        return False
    answers = [piece.strip() for piece in pieces if piece.strip()]
    return len(answers) == 2 and answers[0] != answers[1]


def repeat_prompt(answer: str, arguments: Arguments) -> bool:
    """The answer begins with the prompt; case is ignored."""
    return answer.strip().lower().startswith(str(_need(arguments, "prompt_to_repeat")).strip().lower())


def end_checker(answer: str, arguments: Arguments) -> bool:
    """The answer ends with a phrase; case and quotation marks around the answer are ignored."""
    return answer.strip().strip('"').lower().endswith(str(_need(arguments, "end_phrase")).strip().lower())


def capital_word_frequency(answer: str, arguments: Arguments) -> bool:
    """Words in capitals occur less than, or at least, a number of times."""
    return _compare(count_capital_tokens(answer), arguments, "capital_relation", "capital_frequency")


def english_capital(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """The answer is in English and has no lower-case letter."""
    return answer.isupper() and detect_language(answer) in ("en", None)


def english_lowercase(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """The answer is in English and has no capital letter."""
    return answer.islower() and detect_language(answer) in ("en", None)


def no_comma(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """The answer has no comma."""
    return "," not in answer


def quotation(answer: str, arguments: Arguments) -> bool:  # noqa: ARG001
    """The whole answer is in double quotation marks."""
    text = answer.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


CHECKS: Mapping[str, Check] = {
    "keywords:existence": keywords_exist,
    "keywords:frequency": keyword_frequency,
    "keywords:forbidden_words": forbidden_words,
    "keywords:letter_frequency": letter_frequency,
    "language:response_language": response_language,
    "length_constraints:number_sentences": number_sentences,
    "length_constraints:number_paragraphs": number_paragraphs,
    "length_constraints:number_words": number_words,
    "length_constraints:nth_paragraph_first_word": nth_paragraph_first_word,
    "detectable_content:number_placeholders": number_placeholders,
    "detectable_content:postscript": postscript,
    "detectable_format:number_bullet_lists": number_bullet_lists,
    "detectable_format:constrained_response": constrained_response,
    "detectable_format:number_highlighted_sections": number_highlighted_sections,
    "detectable_format:multiple_sections": multiple_sections,
    "detectable_format:json_format": json_format,
    "detectable_format:title": title,
    "combination:two_responses": two_responses,
    "combination:repeat_prompt": repeat_prompt,
    "startend:end_checker": end_checker,
    "change_case:capital_word_frequency": capital_word_frequency,
    "change_case:english_capital": english_capital,
    "change_case:english_lowercase": english_lowercase,
    "punctuation:no_comma": no_comma,
    "startend:quotation": quotation,
}
