"""`explain`: a task's card, filters and metrics can be shown without its data."""

from assaymark.documents.terminal import as_text
from assaymark.runs.explain import explain_task, explanation_document


def test_a_card_needs_neither_data_nor_extras() -> None:
    """Without the rows, the card, the filters, the formula and the reason for the missing sample are shown."""
    actual = explain_task("gsm8k")
    assert actual["card"]["title"] == "GSM8K"
    assert actual["prompt"] is None
    assert "openai/gsm8k (main) is not in the Hub's local cache" in str(actual["no_sample"])
    result = as_text(explanation_document(actual), 400)
    for expected in ("Grade-school mathematics", "No sample can be shown", "strict-match: regex", "exact_match: 1 if"):
        assert expected in result


def test_a_task_with_its_rows_shows_a_sample() -> None:
    """With the rows the same call shows one prompt and how an output is scored."""
    result = explain_task("demo_who")
    assert result["no_sample"] is None
    assert result["worked"] is not None
    assert result["worked"]["scores"]
    assert "No sample" not in as_text(explanation_document(result))


def test_known_faults_are_joined_without_double_stops() -> None:
    """A list of sentences has one mark between two of them."""
    from assaymark.runs.explain import _card_text

    assert _card_text(["First fault.", "Second one."]) == "First fault; Second one"
