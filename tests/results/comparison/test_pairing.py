"""Which scores of two runs are set against each other."""

import pytest

from assaymark.errors import UsageError
from assaymark.options.lm_eval_options import PROMPT_STYLE
from assaymark.results.comparison.pairing import pair_task
from assaymark.results.evidence.records import MetricInput, RunEvidence
from assaymark.scoring.metrics import own_metrics
from tests.results.made import choice_rows, task_of


def evidence(label: str, metric: str, form: str) -> RunEvidence:
    """Return a run of one task, scored by one metric, whose questions are put in some form."""
    rows = tuple(choice_rows("t", [1.0, 0.0, 1.0], metric=metric))
    return RunEvidence(label, label, rows, (task_of("t", MetricInput(metric)),), settings={PROMPT_STYLE: form})


@pytest.mark.parametrize("metric", [each.name for each in own_metrics() if each.picks_choice])
def test_accuracies_pair_across_prompt_styles(metric: str) -> None:
    """Each accuracy over choices, acc_tokens too, is compared with acc of a run that has other prompts."""
    first, second = evidence("a", metric, "text"), evidence("b", "acc", "letter")
    paired = pair_task(first, second, first.tasks[0])
    assert len(paired.pairs) == 3
    assert [pair.second.metric for pair in paired.pairs] == ["acc"] * 3


def test_a_number_does_not_pair_with_an_accuracy() -> None:
    """A metric that is neither right nor wrong of a sample is compared with its own kind only."""
    first, second = evidence("a", "bleu_max", "text"), evidence("b", "acc", "letter")
    with pytest.raises(UsageError, match="has no scores of t bleu_max"):
        pair_task(first, second, first.tasks[0])
