"""The verdict sentence of an audit, and which rows its tables omit."""

from dataclasses import replace

from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.documents import contamination_document, contamination_json, contamination_verdict
from assaymark.documents.terminal import as_text

ORDER = ContaminationTest("arc", "order", "t", 0.3, 50, 0.4, 0.4)
OPTIONS = ContaminationTest("arc", "options", "t", 0.1, 50, 0.6, 0.6)
NUMBERS = ContaminationTest("arc", "numbers", "", None, 3, None, notes=("3 samples have a twin",))
MIN_K = ContaminationTest("arc", "min-k", "Min-20%", -2.0, 50, None, notes=("no control samples",))


def test_no_sign_and_what_could_not_be_run() -> None:
    """The sentence counts the interpretable tests, those that need a control, and those not run with the reason."""
    other = replace(NUMBERS, test="min-k", notes=("the model returns sums only",))
    assert contamination_verdict([ORDER, OPTIONS, NUMBERS, other]) == (
        "No sign of contamination in 2 tests; 2 could not be run because 3 samples have a twin (numbers); "
        "the model returns sums only (min-k)."
    )
    assert "1 cannot be interpreted without a control (min-k)" in contamination_verdict([ORDER, MIN_K])
    assert contamination_verdict([NUMBERS]).startswith("No test shows whether there is contamination; 1 could not")


def test_a_sign_is_named_with_its_p() -> None:
    """A corrected p below 0.05 is a sign, but never for numbers without a control; overlap is shown by its share."""
    assert contamination_verdict([replace(ORDER, p=0.001, p_holm=0.002), OPTIONS]) == (
        "Signs of contamination in 1 of 2 tests: order on arc (p = 0.002)."
    )
    assert contamination_verdict([replace(ORDER, p=0.03, p_holm=0.06)]).startswith("No sign")
    bare = ContaminationTest("arc", "numbers", "t", 9.0, 50, 1e-9, 1e-9)
    assert not contamination_verdict([bare, ORDER]).startswith("Signs")
    assert contamination_verdict([replace(bare, control_p=0.5)]).startswith("Signs")
    overlap = ContaminationTest("arc", "overlap", "share with 13 words in a row", 0.125, 8, None)
    assert "overlap on arc (12.5% of samples)" in contamination_verdict([overlap])


def test_the_report_opens_with_the_sentence_and_has_no_empty_rows() -> None:
    """Verdict and published methods come first; a test that could not be run has no row, but is in the JSON."""
    result = as_text(contamination_document([ORDER, NUMBERS]), width=200)
    assert result.splitlines()[0].strip().startswith("No sign of contamination in 1 test; 1 could not be run because")
    assert result.splitlines()[1].strip() == "Methods: order of the rows (Oren et al. 2023)."
    assert "numbers " not in "\n".join(result.splitlines()[2:])
    assert [each["test"] for each in contamination_json([ORDER, NUMBERS])] == ["order", "numbers"]
