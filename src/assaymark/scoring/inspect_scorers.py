"""The scorers of inspect-ai by which benchmarks of the Hub are scored: each compares an answer's text with one target.

With several answers of a sample (epochs) each is scored, and `reducer` makes one score of them, so that a sample stays
the unit of every interval. The names begin with `inspect_`, since SQuAD's `exact` and the F1 of classes are others.

Source: inspect-ai 0.3.285, `scorer/`. Numbers in Chinese numerals are not read as numbers here.
"""

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from statistics import mean, median

from assaymark.errors import DataError, UnknownName
from assaymark.limits.regexes import search
from assaymark.registry import nearest
from assaymark.scoring.mathematics import is_equal_mathematics, last_boxed
from assaymark.scoring.metric import Scale, ScoreValue, metric

REDUCER = re.compile(r"(?:pass_at|at_least)_([1-9]\d*)|max|mode|median|mean")
LOCATIONS = ("begin", "end", "any", "exact")
ANSWER_PATTERNS = {
    "letter": r"(?is)ANSWER\s*:\s*([A-Za-z])(?:[^\w]|\n|$)(?!.*ANSWER\s*:)",
    "word": r"(?is)ANSWER\s*:\s*(\S+?)(?=[.,;:!?]?\s*(?:\n|$))(?!.*ANSWER\s*:)",
    "line": r"(?i)ANSWER\s*:\s*([^\n]+)\s*\Z",
}


@dataclass(frozen=True, slots=True)
class Graded:
    """The score of one answer. extracted: what was compared. is_empty: there was no answer, another way to be wrong."""

    value: float
    extracted: str | None = None
    is_empty: bool = False


def reduced(grades: Sequence[Graded], reducer: str) -> float:
    """Return one score of the answers to one question.

    pass_at_K is the chance that one of K of them is right, at_least_K whether K of them are.

    Raises: DataError for an unknown reducer, and for a K above the number of answers.
    """
    matched = REDUCER.fullmatch(reducer)
    if matched is None:
        raise DataError(f"reducer {reducer!r:.60}; expected mean, max, mode, median, pass_at_K or at_least_K")
    values = [grade.value for grade in grades]
    if matched[1] is None:
        if reducer == "mode":  # of equally frequent ones the first
            return Counter((grade.value, grade.is_empty) for grade in grades).most_common(1)[0][0][0]
        return max(values) if reducer == "max" else mean(values) if reducer == "mean" else median(values)
    n, k, n_right = len(values), int(matched[1]), sum(value >= 1.0 for value in values)
    if k > n:
        raise DataError(f"reducer {reducer} needs {k} answers of each sample, and there are {n}; raise the epochs")
    if reducer.startswith("at_least"):
        return float(n_right >= k)
    return 1.0 - math.comb(n - n_right, k) / math.comb(n, k)  # Chen et al. 2021 (arXiv 2107.03374), equation 1


def _scorer(
    formula: str, *, scale: Scale = "right or wrong", packages: tuple[str, ...] = ()
) -> Callable[[Callable[..., Graded]], Callable[..., ScoreValue]]:
    """Declare a function of (answer, target, options) as a metric of one answer or several."""

    def declare(grade: Callable[..., Graded]) -> Callable[..., ScoreValue]:
        name, known = f"inspect_{grade.__name__.rstrip('_')}", list(signature(grade).parameters)[2:]

        def score(
            references: Sequence[object], predictions: Sequence[object], *, reducer: str = "mean", **options: object
        ) -> ScoreValue:
            (target,), (prediction,) = references, predictions
            if strange := next((key for key in options if key not in known), None):
                raise UnknownName(f"option of {name}", strange, nearest(strange, [*known, "reducer"]))
            answers = prediction if isinstance(prediction, list | tuple) else [prediction]
            grades = [grade(str(answer), str(target), **options) for answer in answers]
            extracted = [each.extracted for each in grades]
            detail = {"extracted": extracted[0] if len(extracted) == 1 else extracted}
            return ScoreValue(float(reduced(grades, reducer)), detail=detail)

        score.__doc__, score.__module__ = grade.__doc__, grade.__module__
        return metric(name=name, formula=formula, scale=scale, packages=packages)(score)

    return declare


@_scorer("1 if the answer contains the target, else 0")
def includes(answer: str, target: str, *, ignore_case: bool = True) -> Graded:
    """Return whether the answer contains the target."""
    if ignore_case:
        answer, target = answer.casefold(), target.casefold()
    return Graded(float(target in answer), answer)


@_scorer("1 if the answer ends with the target (or begins with it, has it or is it: `location`), else 0")
def match(
    answer: str, target: str, *, location: str = "end", ignore_case: bool = True, numeric: bool = False
) -> Graded:
    """Return whether the target is at its place in the answer, without the punctuation around both.

    `numeric` compares numbers, to five digits: the last of the answer, the first, any, or the answer itself.
    """
    text, wanted = answer.strip(), target.strip()
    extracted = text
    if ignore_case:
        text, wanted = text.casefold(), wanted.casefold()
    if numeric:
        wanted = _without_marks(wanted)
        if (number := _number(wanted)) is not None:
            return _match_number(_without_marks(text), _five_digits(number), location, extracted)
    text, wanted = text.strip(_PUNCTUATION), wanted.strip(_PUNCTUATION)
    fits = {
        "begin": text.startswith(wanted),
        "end": text.endswith(wanted),
        "any": wanted in text,
        "exact": text == wanted,
    }
    if location not in fits:
        raise DataError(f"location is {location!r:.40}; expected {', '.join(LOCATIONS)}")
    return Graded(float(fits[location]), extracted)


@_scorer("1 if a group of the pattern, else its whole match in the answer, is the target, else 0")
def pattern(
    answer: str, target: str, *, pattern: str = "(?s).*", ignore_case: bool = True, match_all: bool = False
) -> Graded:
    """Return whether what a regular expression extracts is the target; with `match_all` every group that matched."""
    found = search(pattern, answer, re.IGNORECASE if ignore_case else 0)
    if found is None:
        return Graded(0.0)
    groups = found[1:] or found
    texts = [group for group in groups if group is not None]
    right = [text for text in texts if (text.lower() == target.lower() if ignore_case else text == target)]
    if match_all:
        is_right = bool(texts) and len(right) == len(texts) and bool(target)
        return Graded(float(is_right), target if is_right else None)
    picked = right[0] if right else (groups[0] if len(groups) == 1 else None)
    return Graded(float(bool(right and right[0])), picked)


@_scorer("1 if what follows the last `ANSWER:` (a letter, a word or a line: `pattern`) is the target, else 0")
def answer(answer: str, target: str, *, pattern: str = "line") -> Graded:
    """Return whether the letter, word or line after the last "ANSWER:" is the target."""
    if pattern not in ANSWER_PATTERNS:
        raise DataError(f"pattern is {pattern!r:.40}; expected {', '.join(ANSWER_PATTERNS)}")
    found = search(ANSWER_PATTERNS[pattern], answer, re.IGNORECASE)
    if found is None:
        return Graded(0.0)
    return Graded(float(bool(found[1]) and str(found[1]).lower() == target.lower()), found[1])


@_scorer("1 if answer and target have the same words after normalising numbers, case, punctuation and articles, else 0")
def exact(answer: str, target: str) -> Graded:
    """Return whether the normal forms are equal; that of the target must not be empty."""
    wanted = _words(target)
    return Graded(float(bool(wanted) and _words(answer) == wanted), answer)


@_scorer("F1 of the words that answer and target share, in the normal form of inspect_exact", scale="share")
def f1(answer: str, target: str, *, stop_words: Sequence[str] = ()) -> Graded:
    """Return the F1 of shared words, counted with repetition, to two digits; 0 for a target without words."""
    ignored = {_word(word) for word in stop_words}
    said, wanted = (Counter(_words(text, ignored)) for text in (answer, target))
    if not wanted:
        return Graded(0.0, answer)
    shared = (said & wanted).total()
    precision, recall = (shared / said.total() if said else 1.0), shared / wanted.total()
    return Graded(round(2 * precision * recall / (precision + recall), 2) if shared else 0.0, answer)


@_scorer("1 if the letters that the answer picks are those of the right options, else 0")
def choice(answer: str, target: str) -> Graded:
    """Return whether the letters of an answer, as the filter `inspect_letters` returns them, are the right ones."""
    wanted = [token for part in target.replace(",", " ").split() for token in ([part] if part.isnumeric() else part)]
    picked = answer.replace(",", " ").split()
    is_right = sorted(letter.upper() for letter in wanted) == sorted(picked)
    return Graded(float(is_right), answer, is_empty=not answer)


@_scorer("1 if math-verify finds the answer equal to the target, else 0", packages=("math_verify",))
def math_(answer: str, target: str) -> Graded:
    """Return whether the final answer equals the target: what is boxed, else follows "answer:", else the last formula.

    Of an answer in prose the last line and the last number count too. Raises: MissingExtra.
    """
    wanted = _formula(last_boxed(target) or target)
    said = _final_answers(answer)
    if not said:
        return Graded(0.0, answer)
    tried = said if _is_prose(said[0]) else said[:1]
    right = next((each for each in tried if is_equal_mathematics(wanted, _formula(each))), None)
    return Graded(float(right is not None), said[0] if right is None else right)


# ------------------------------------------------------------------------------------------------- a second model


GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_GRADE_WORDS = {"c": "C", "correct": "C", "i": "I", "incorrect": "I", "p": "P", "partial": "P"}
_SPACING = r"[\s\u200b\u200c\u200d\u200e\u200f\u2060\u2063\ufeff]*"
_GRADE = re.compile(rf"(?i)(?<!\w)GRADE(?!\w){_SPACING}:{_SPACING}(?=(\w*))")


def _graded_by_model(name: str, formula: str) -> Callable[..., ScoreValue]:
    @metric(name=name, formula=f"1 if the grader finds that {formula} (0.5 if in part), else 0", scale="share")
    def ungraded(*_answer: object, **_options: object) -> ScoreValue:
        """Return no score: the grader gives it. Source: inspect-ai 0.3.285, `scorer/_model.py`."""
        return ScoreValue(None)

    return ungraded


model_graded_qa = _graded_by_model("inspect_model_graded_qa", "the answer meets the criterion")
model_graded_fact = _graded_by_model("inspect_model_graded_fact", "the answer has the content of the expert's")


def read_grade(reply: str, grade_pattern: str | None = None, offered: str = "") -> str | None:
    """Return the grade in a grader's reply; None where none can be read, which is no verdict and no wrong answer.

    Args:
        reply: its last "GRADE:" counts, whatever stands before it.
        grade_pattern: a pattern whose group is the grade, in place of that.
        offered: the letters that the grader was offered; a grade beside them is none. Empty: C, P and I are read, and
            other words pass for none.

    Raises: RegexTooSlow for a pattern that takes too long.
    """
    if grade_pattern is not None:
        found = search(grade_pattern, reply)
        return None if found is None else found[1]
    words: list[str] = _GRADE.findall(reply)
    if not offered:  # the last that begins with one of the letters
        words = [word[:1] for word in words if word[:1].upper() in {"C", "P", "I"}]
    if not words:
        return None
    word = words[-1]
    grade = _GRADE_WORDS.get(word.lower(), word.upper() if len(word) == 1 else None)
    return grade if grade is not None and (not offered or grade in offered) else None


def grade_value(grade: str) -> float | None:
    """Return the score of a grade: of a letter, of yes and no, or a number as it is; None for any other text."""
    lowered = grade.lower()
    if grade in GRADES or lowered in ("yes", "true", "no", "false"):
        return GRADES.get(grade, float(lowered in ("yes", "true")))
    return float(lowered) if _is_float(lowered) else None


def panel_grade(grades: Sequence[str | None], panel: str) -> str | None:
    """Return one grade of several graders: by `majority` that of more than half of them, by `mode` the most frequent.

    Of equally frequent ones the mode is the first; a grader without a readable grade withholds its vote.

    Raises: DataError for another word.
    """
    if panel not in PANELS:
        raise DataError(f"reducer of graders is {panel!r:.40}; expected {' or '.join(PANELS)}")
    counted = Counter(grade for grade in grades if grade is not None).most_common(1)
    if not counted or (panel == "majority" and counted[0][1] * 2 <= len(grades)):
        return None
    return counted[0][0]


PANELS = ("majority", "mode")


# ----------------------------------------------------------------------------------------------------- mathematics


_ANNOUNCED = re.compile(r"(?i)(?:final\s+answer|answer|result)\s*(?:is\b|[:=])\s*([^\n]*)")
_OPENING = re.compile(r"\$|\\\[|\\\(")
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\[", "\\]"), ("\\(", "\\)"))
_LAST_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?\s*%?")
_LONGEST_FORMULA = 4096  # characters
_LONGEST_ANSWER = 1_000_000


def _final_answers(text: str) -> list[str]:
    """Return what may be the final answer of a text, the most explicit first."""
    text = text[-_LONGEST_ANSWER:].replace("−", "-")
    announced, lines = _ANNOUNCED.findall(text), [line for line in text.splitlines() if line.strip()]
    delimited = _delimited(text)
    found = [
        last_boxed(text),
        announced[-1] if announced else None,
        delimited[-1] if delimited else None,
        text if len(text) <= _LONGEST_FORMULA else None,
        lines[-1] if lines else None,
        (_LAST_NUMBER.findall(text) or [None])[-1],
    ]
    stripped = [each.strip(" \t\r\n.,;:*") for each in found if each is not None and len(each) <= _LONGEST_FORMULA]
    return list(dict.fromkeys(filter(None, stripped)))


def _delimited(text: str) -> list[str]:
    """Return what stands between delimiters of formulas, in time linear in the text: a pattern's is quadratic."""
    found, at, missing = [], 0, set()
    while opened := _OPENING.search(text, at):
        start = at = opened.start()
        for opening, closing in _DELIMITERS:
            begin = start + len(opening)
            if (
                closing in missing
                or not text.startswith(opening, start)
                or (opening == "$" and text[begin : begin + 1] == "$")
            ):
                continue
            if (end := text.find(closing, begin + 1)) < 0:
                missing.add(closing)
                continue
            found.append(text[begin:end])
            at = end + len(closing)
            break
        else:
            at = start + 1
    return found


def _is_prose(text: str) -> bool:
    return "\\" not in text and len(re.findall(r"[A-Za-z]{2,}", text)) >= 2


def _formula(text: str) -> str:
    """Return a text as one formula, unless it has formulas between signs of its own."""
    text = text.replace("\\$", "")  # a currency
    return text if "$" in text or "\\(" in text or "\\[" in text else f"${text}$"


# ------------------------------------------------------------------------------------------------ words and numbers


_PUNCTUATION = string.whitespace + string.punctuation
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_AROUND_NUMBERS = "!?:;()[]{}'\"`"  # and no signs of order: "<42" is not the number 42
_ESCAPED = re.compile(r"\\([$,£€*_])")


def _words(text: str, ignored: frozenset[str] | set[str] = frozenset()) -> list[str]:
    tokens = [word for token in re.split("[ -]", text) if (word := _word(token)) not in ignored]
    return " ".join(token for token in tokens if token).split()


def _word(token: str) -> str:
    token = token.casefold()
    if not _is_float(token):
        bare = token.strip(_PUNCTUATION)
        token = bare if _is_float(bare) else token.translate(_NO_PUNCTUATION)
    if _is_float(token):
        token = str(float(token))
    return " ".join(_ARTICLES.sub(" ", token).split())


def _is_float(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _without_marks(text: str) -> str:
    """Return a text without currency, thousands separators, emphasis, and points that end a word or a sentence."""
    return re.sub(r"\.(?=\s|$|\D)", "", re.sub(r"[$,£€*_]", "", _ESCAPED.sub(r"\1", text)))


def _match_number(text: str, wanted: str, location: str, whole: str) -> Graded:
    if location == "exact":
        number = _number(text, trim=False)
        said = text if number is None else _five_digits(number)
        return Graded(float(said == wanted), said)
    numbers = [_five_digits(number) for word in re.split(r"\s+", text) if (number := _number(word)) is not None]
    if location == "any":
        return Graded(1.0, wanted) if wanted in numbers else Graded(0.0, whole)
    said = (numbers[0] if location == "begin" else numbers[-1]) if numbers else ""
    return Graded(float(said == wanted), said)


def _five_digits(number: float) -> str:
    return format(number, ".5g")


def _number(text: str, *, trim: bool = True) -> float | None:
    """Return a finite number in digits of any script, with fractions and exponents as characters: 2½, 3², −１.５."""
    text = text.strip(_AROUND_NUMBERS) if trim else text
    if _is_float(text):
        return float(text)
    number = _number_in_characters(text.strip())
    return number if number is not None and math.isfinite(number) else None


_SIGNS = {**dict.fromkeys("-−﹣－", -1), **dict.fromkeys("+＋﹢", 1)}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True))
_SEPARATORS = frozenset("，﹐、٬'’ʼ＇")
_POINTS = frozenset("٫．")


def _number_in_characters(text: str) -> float | None:
    sign = 1
    while text and text[0] in _SIGNS:
        sign, text = sign * _SIGNS[text[0]], text[1:].lstrip()
    if len(text) == 1:
        value = unicodedata.numeric(text, None)
        return None if value is None else sign * value
    base = text.rstrip("".join(_RAISED))
    raised = "".join(_RAISED[each] for each in text[len(base) :])
    if raised and not re.fullmatch(r"[-+]?\d+", raised):
        return None
    value = _plain_number(base)
    if value is None or not raised:
        return None if value is None else sign * value
    try:
        power = (sign * value) ** int(raised)
    except (OverflowError, ZeroDivisionError):
        return None
    return power


def _plain_number(text: str) -> float | None:
    """Return a number without sign and exponent characters; a fraction such as ½ may end it."""
    end = unicodedata.numeric(text[-1], 0.0) if text else 0.0
    if 0.0 < end < 1.0:
        before = _plain_number(text[:-1]) if text[:-1] else 0.0
        return None if before is None else before + end
    digits = []
    for character in text:
        digit = unicodedata.digit(character, None)
        if character in _SEPARATORS:
            continue
        digits.append(str(digit) if digit is not None else "." if character in _POINTS else character)
    plain = "".join(digits)
    return float(plain) if re.fullmatch(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?", plain, re.ASCII) else None
