"""The nouns that travel between the parts, as a user sees them printed."""

from evalstone.records import Estimate


def test_an_estimate_is_printed_in_one_line() -> None:
    """Value, interval, metric and samples are told; the details are left to its fields."""
    found = Estimate("arc", "acc_norm", "none", 0.34375, 0.2812, 0.4117, "wilson", 200, 2, details={"kind": "task"})
    assert str(found) == "arc acc_norm: 0.3438 (95% interval 0.2812 to 0.4117), n = 200, 2 failed"
    unknown = Estimate("gsm8k", "exact_match", "strict-match", None, None, None, "none", 0)
    assert str(unknown) == "gsm8k exact_match (strict-match): undefined, n = 0"
