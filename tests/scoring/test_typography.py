"""Which answers are the same however they are typed, and which never are."""

import pytest

from assaymark.scoring.generation import score_generation
from assaymark.scoring.typography import equal_by, number_of


@pytest.mark.parametrize(
    ("answer", "reference", "by"),
    [
        ("Paris", "Paris", "text"),
        ("PARIS", "paris", "case"),
        ("5 mb", "5 MB", "case"),
        ("5 KM", "5 km", "case"),
        ("5 MG", "5 mg", "case"),
        ("STRASSE", "Straße", "case"),
        ("οδός", "ΟΔΌΣ", "case"),
        ("istanbul", "İstanbul", "case"),
        ("cafe\u0301", "café", "case"),
        ("Paris.", "Paris", "typography"),
        ("Paris !", "Paris", "typography"),
        ("Paris…", "Paris", "typography"),
        ("**Paris.**", "Paris", "typography"),
        ("'Paris'.", "Paris", "typography"),
        ("“Paris”", '"Paris"', "typography"),
        ("« Paris »", "Paris", "typography"),
        ("„Paris“", "Paris", "typography"),
        ("don’t", "don't", "typography"),
        ("1939–1945", "1939 - 1945", "typography"),
        ("−5", "-5", "typography"),
        ("5\u00a0km", "5 km", "typography"),
        ("5 °C", "5°C", "typography"),
        ("50 %", "50%", "typography"),
        ("Ｃ", "C", "typography"),
        ("巴黎。", "巴黎", "typography"),
        ("Python 语言", "Python语言", "typography"),
        ("CO₂", "CO2", "typography"),
        ("⅓", "1/3", "typography"),
        ("2⅔", "2 2/3", "typography"),
        ("5 ㎡", "5 m²", "typography"),
        ("• 5", "5", "typography"),
        ("m²", "m^2", "typography"),
        ("¿Qué?", "qué", "typography"),
        ("(B)", "B", "typography"),
        ("C++.", "C++", "typography"),
        ("a\u200bb", "ab", "typography"),
        ("1,000", "1000", "number"),
        ("1 000 000", "1.000.000", "number"),
        ("1,5", "1.5", "number"),
        ("0,125", ".125", "number"),
        ("3.0", "3", "number"),
        ("1.0e3", "1000", "number"),
        ("6.02 × 10²³", "6.02e23", "number"),
        ("$1,000", "$1000", "number"),
        ("1,000 km", "1000km", "number"),
        ("1.234,50 €", "1234.5 €", "number"),
        ("12,34,567", "1234567", "number"),
        ("1 000,50", "1000.5", "number"),
        ("٣٫١٤", "3.14", "number"),
        ("Paris — France", "Paris-France", "typography"),
        ("- Paris", "Paris", "typography"),
        ("[1, 2]", "[1,2]", "typography"),
        (r"\boxed{\text{Paris}}", "Paris", "typography"),
        (r"\( 5 \)", "$5$", "typography"),
        (r"$$\boxed{1,000}$$", r"\[1000\]", "number"),
    ],
)
def test_what_cannot_carry_meaning_is_ignored(answer: str, reference: str, by: str) -> None:
    """Case, Unicode's spellings, quotes, dashes, spaces, marks at the end and how a number is written do not count."""
    assert equal_by(answer, reference) == by
    assert equal_by(reference, answer) == by


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("1" * 30, "1" * 29 + "2"), ("1." + "0" * 30 + "1", "1"), ("5 ㎡", "5 m2"), ("2⅓", "21/3"), ("5‼", "5!"),
        ("5 mW", "5 MW"), ("5㎽", "5 MW"), ("10 Mb", "10 MB"), ("1 Gbps", "1 GBps"), ("2.4 mHz", "2.4 MHz"),
        ("15", "1.5"), ("15", "1,5"), ("5", "-5"), ("C", "C++"), ("C", "C#"), ("50", "50%"), ("5", "5 °C"),
        ("1.234", "1234"), ("1, 2", "1.2"), ("x²", "x2"), ("10²", "102"), ("5!", "5"), ("n!", "n"), ("007", "7"),
        ("1 5", "15"), ("1 1/2", "11/2"), ("now here", "nowhere"), ("A-", "A"), ("B+", "B"), (".NET", "NET"),
        ("cd ..", "cd ."), ("3:30", "330"), ("1/2", "12"), ("192.168.1.1", "19216811"), ("$5", "5"), ("~5", "5"),
        ("[5]", "5"), ("5'", "5"), ("3.10.1", "3.1.1"), ("__init__", "init"), ("--help", "help"), ("?", "!"),
        ("5 km", "5"), ("..", "."), ("0.5", "5"), ("é", "e"), ("5%", "0.05"), ("", "."), ("a - bc", "a bc"),
        ("1e-5", "1e5"), ("node.js", "nodejs"), ("it's", "its"), ("12,34", "1234"), ("R&D", "RD"), ("v1.10", "v1.1"),
    ],
)  # fmt: skip
def test_what_carries_meaning_counts(answer: str, reference: str) -> None:
    """Signs, points and commas between digits, `+`, `#`, `%`, units, powers and codes are never ignored."""
    assert equal_by(answer, reference) is None
    assert equal_by(reference, answer) is None


def test_case_counts_where_it_is_not_ignored() -> None:
    """Without `ignore_case` only typography is ignored."""
    options = {"exact_match": {"ignore_typography": True}}
    assert score_generation("“Paris.”", "Paris", options)["exact_match"].value == 1.0
    assert score_generation("paris", "Paris", options)["exact_match"].value == 0.0


def test_of_several_references_the_one_that_matched_says_what_was_ignored() -> None:
    """The detail is that of the matching reference."""
    options = {"exact_match": {"ignore_typography": True, "ignore_case": True}}
    score = score_generation("1,000", ["10", "1000", "M"], options, multiple_targets=True)["exact_match"]
    assert score.value == 1.0
    assert score.detail == {"extracted": "1,000", "equal_by": "number"}


@pytest.mark.parametrize(
    ("answer", "references", "is_among"),
    [
        ("The capital of France is Paris.", ["Paris"], True), ("**rome**, I think", ["x", "Rome", "y"], True),
        ("Spiders have 8 legs.", ["8"], True), ("“New York” it is", ["new york"], True),
        ("Parisian", ["Paris"], False), ("18 legs", ["8"], False), ("8.5 legs", ["8"], False), ("-8", ["8"], False),
        ("1,800", ["800"], False), ("8% of them", ["8"], False), ("a spider", ["A"], False), ("", ["Paris"], False),
    ],
)  # fmt: skip
def test_a_reference_among_other_words_is_noticed(answer: str, references: list[str], is_among: bool) -> None:
    """Such an answer stays wrong, and says why; in published tasks nothing is looked for."""
    options = {"exact_match": {"ignore_typography": True, "ignore_case": True}}
    score = score_generation(answer, references, options, multiple_targets=True)["exact_match"]
    assert (score.value, (score.detail or {}).get("among_words", False)) == (0.0, is_among)
    published = score_generation(answer, references[0], {"exact_match": {"ignore_case": True}})["exact_match"]
    assert published.detail == {"extracted": answer}


@pytest.mark.parametrize(
    ("answer", "references", "miss"),
    [
        ("Paris", ["Rome", "Paris;Lutetia"], "part"), ("5", ["2+3=<<2+3=5>>5\n#### 5"], "part"),
        ("50", ["50%"], "part"), ("1,500", ["$1500"], "part"), ("5 km", ["5 m"], None),
        ("5", ["<think>2 and 3</think>\n5"], "part"), ("1/2", ["0.5"], "notation"), ("50%", ["0.5"], "notation"),
        (r"\frac{1}{2}", ["2/4"], "notation"), ("5", ["15"], None), ("1/0", ["1"], None), ("1e99999", ["1/2"], None),
        (r"\(4\) and \(6\)", ["5"], None), (r"2\pi", ["2π"], "notation"), (r"\sqrt{2}", ["√2"], "notation"),
        (r"6.02 \times 10^{23}", ["6.02e23"], "notation"), (r"\frac{x}{2}", ["x/2"], "notation"),
        ("AT&amp;T", ["AT&T"], "notation"), ("x < y", ["x &lt; y"], "notation"),
        ("5 €", ["€5"], "notation"), ("50 percent", ["50%"], "notation"), ("CO₂", ["CO_2"], "notation"),
        (r"90^\circ", ["90°"], "notation"), ("$5", ["€5"], None), (r"2\pi", ["3π"], None), ("a_b", ["ab"], None),
    ],
)  # fmt: skip
def test_an_answer_that_may_not_be_meant_as_wrong_says_why(
    answer: str, references: list[str], miss: str | None
) -> None:
    """A part of a longer reference, and another notation of its value, stay wrong and are counted beside the score."""
    options = {"exact_match": {"ignore_typography": True, "ignore_case": True}}
    score = score_generation(answer, references, options, multiple_targets=True)["exact_match"]
    assert (score.value, (score.detail or {}).get("near_miss")) == (0.0, miss)


@pytest.mark.parametrize(
    ("text", "number"), [("1,500", "1500"), ("1,50", "1.50"), ("-3", "-3"), ("5 km", None), ("", None)]
)
def test_numbers_are_read(text: str, number: str | None) -> None:
    """One comma before three digits separates thousands; a number with a unit is a quantity, not a number."""
    read = number_of(text)
    assert (None if read is None else str(read)) == number


@pytest.mark.parametrize(
    "text", ["!" * 20_000 + "a", " ;" * 10_000 + "x", "\\" * 9_000 + "?" * 9_000 + "!x", "1," * 9_000]
)
def test_long_answers_are_compared(text: str) -> None:
    """Thousands of marks, for which a search from each of them would take half a minute, are compared at once."""
    assert equal_by(text, "5") is None
