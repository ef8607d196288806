"""MMMU's questions as prompts, and its rules for answers.

The options stand by letter, and each `<image 3>` where column `image_3` is shown. Rules: which option a text names, and
whether it contains the value asked for.

Source: the authors' prompts (MMMU-Benchmark/MMMU, eval/configs/llava1.5.yaml, commit 7787d60), in the form of
lm-evaluation-harness 0.4.13, tasks/mmmu, whose places for images are all `<image>`; the rules of the authors'
evaluation (eval/utils/data_utils.py and eval_utils.py).
"""

import ast
import random
import re

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLACE = re.compile(r"<image ([1-7])>")
_LETTER = "Answer with the option's letter from the given choices directly."
_SHORT = "Answer the question using a single word or phrase."
_ENDS = ",.!?;:'"  # taken off both ends of an answer, in this order
_LEADS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),  # 1,234
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),  # 1.5e3
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)
_LONG = 5  # words above which an option's own text is looked for


def options(row):
    """Return the options of a row: a list, or the text of one."""
    given = row["options"]
    return list(ast.literal_eval(given)) if isinstance(given, str) else list(given or ())


def is_choice(row):
    """Return whether an option is to be chosen; rows of one's own may leave the type of question to their options."""
    kind = row.get("question_type")
    return kind == "multiple-choice" if kind else bool(options(row))


def _with_places(row):
    """Return the whole prompt with the numbers of its images."""
    if not is_choice(row):
        return f"{row['question']}\n\n{_SHORT}"
    listed = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, options(row), strict=False))
    return f"{row['question']}\n\n{listed}\n\n{_LETTER}"


def text(row):
    """Return the prompt."""
    return _PLACE.sub("<image>", _with_places(row))


def images(row):
    """Return the images in the order in which the prompt shows them; one may be shown several times."""
    numbers = _PLACE.findall(_with_places(row))
    if not numbers:  # rows of one's own without places: their images come first
        columns = ["image", *(f"image_{number}" for number in range(1, 8))]
        return [row[column] for column in columns if row.get(column) is not None]
    for number in numbers:
        if row.get(f"image_{number}") is None:
            raise ValueError(f"the question shows <image {number}>, and column 'image_{number}' is empty")
    return [row[f"image_{number}"] for number in numbers]


def chosen(answer, options):
    """Return the letter of the option that an answer names last; None if it names none.

    A letter in brackets counts before a letter between spaces, and that before an option's text in a long answer.
    """
    for sign in _ENDS:
        answer = answer.strip(sign)
    answer = f" {answer} "
    letters = LETTERS[: len(options)]
    forms = [{letter: answer.rfind(form % letter) for letter in letters} for form in ("(%s)", " %s ")]
    if len(answer.split()) > _LONG:
        lower = answer.lower()
        forms.append({letter: lower.rfind(option.lower()) for letter, option in zip(letters, options, strict=False)})
    for places in forms:
        last = max(places, key=places.get, default=None)
        if last is not None and places[last] >= 0:
            return last
    return None


def values(text):
    """Return a text as it is compared: a number to two decimals, or lower case; one character has a space beside it."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
        return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]


def _ends_of(line, leads):
    """Return what follows the last lead-in of a line, the shortest of several; None without any."""
    shortest = None
    for lead in leads:
        if lead in line:
            end = line.rpartition(lead)[2].strip()
            shortest = end if not shortest or len(end) < len(shortest) else shortest
    return shortest


def found(answer):
    """Return everything in an answer that may be the value asked for, as `values` gives it."""
    lower = answer.strip().strip(".").lower()
    *lines, last = lower.split("\n")
    ends = [_ends_of(line, _LEADS) for line in lines] + [_ends_of(last, (*_LEADS, "="))]
    texts = [end for end in ends if end and end not in tuple(_ENDS)] or [lower]
    texts += [number for text in list(texts) for pattern in _NUMBERS for number in pattern.findall(text)]
    return [value for text in texts for value in values(text)]


def contains(answer, expected):
    """Return whether an answer contains one of the expected texts or numbers."""
    wanted = [value for text in expected for value in values(str(text))]
    texts = [value for value in wanted if isinstance(value, str)]
    return any(any(text in one for text in texts) if isinstance(one, str) else one in wanted for one in found(answer))


def _expected(answer):
    """Return the acceptable answers of a row: the Hub has several as the text of a list."""
    if isinstance(answer, str) and answer.startswith("["):
        try:
            return list(ast.literal_eval(answer))
        except (SyntaxError, ValueError):
            return [answer]
    return list(answer) if isinstance(answer, list) else [answer]


def accuracy(row, results):
    """Return whether the answer is right.

    An answer that names no option counts as a guess, as the authors count it. The guess is a function of the question
    and the answer, so a run's score can be computed again.
    """
    answer = results[0]
    if not is_choice(row):
        return {"acc": float(contains(answer, _expected(row["answer"])))}
    listed = options(row)
    letter = chosen(answer, listed)
    if letter is None:
        guess = random.Random(f"{row['question']}\n{answer}")  # noqa: S311 - MMMU's rule, no secret
        letter = guess.choice(LETTERS[: len(listed)])
    return {"acc": float(letter in _expected(row["answer"]))}
