"""The nouns that travel between the parts, as a user sees them printed."""

from assaymark.records import (
    Estimate,
    GenerateQuery,
    GenerationSettings,
    LoglikelihoodQuery,
    Request,
    RollingQuery,
    n_outputs_of,
)


def test_an_estimate_is_printed_in_one_line() -> None:
    """Value, interval, metric and samples are told; the details are left to its fields."""
    result = Estimate("arc", "acc_norm", "none", 0.34375, 0.2812, 0.4117, "wilson", 200, 2, details={"kind": "task"})
    assert str(result) == "arc acc_norm: 0.3438 (95% interval 0.2812 to 0.4117), n = 200, 2 failed"
    unknown = Estimate("gsm8k", "exact_match", "strict-match", None, None, None, "none", 0)
    assert str(unknown) == "gsm8k exact_match (strict-match): undefined, n = 0"


def test_an_ask_has_an_output_for_each_repeat() -> None:
    """A log-likelihood has one output, a written answer one for each repeat, and a request the sum of its asks'."""
    queries = (LoglikelihoodQuery(0, " a"), RollingQuery(1, "text"), GenerateQuery(2, GenerationSettings(repeats=3)))
    assert [n_outputs_of(query) for query in queries] == [1, 1, 3]
    assert Request("task", 0, "sha", ("prompt",), queries).n_outputs == 5
