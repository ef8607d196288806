"""Gold choices found by the task's own scoring."""

from pathlib import Path

import pytest

from assaymark.scoring.metrics import accuracies_over_choices
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.rescoring import gold_choices
from tests.tasks.folders import ROWS, task_spec, write_rows, write_task


@pytest.mark.parametrize("metric", accuracies_over_choices())
def test_gold_is_found_by_any_accuracy(metric: str, tmp_path: Path) -> None:
    """Every accuracy over choices reveals the gold choice, also those that divide by tokens or subtract priors."""
    rows = [{**row, "answer": i % 2} for i, row in enumerate(ROWS)]
    write_rows(tmp_path, rows)
    path = write_task(tmp_path, task_spec(metric_list=[{"metric": metric}]))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    bound = bind(task, BindOptions())
    for sample in bound.samples():
        assert gold_choices(bound, bound.request(sample), sample) == {rows[sample.index]["answer"]}
