"""A run on a cluster, for a test that runs it as a process of its own and ends it in the middle of its work.

`python -m tests.models.workers.cluster_driver MODEL_FOLDER ADDRESS keep|lose SECONDS`: with `lose` it answers until one
of its two workers is lost; one that does not reply for so many seconds is. It prints results as lines of JSON; finally
it generates without end. If it takes too long it prints its stack to standard error, and ends.
"""

import faulthandler
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assaymark.errors import ModelUnavailable
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.workers import cluster
from assaymark.models.workers.pool import EnginePool
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Output, Request

PATIENCE_SECONDS = 600.0


def requests() -> list[Request]:
    """Return texts to be scored, then some to be continued."""
    texts = [f"Once upon a time there {'was ' * (i % 7)}a dog number {i}, and" for i in range(600)]
    drawn = GenerationSettings(max_tokens=12, do_sample=True, temperature=1.0)
    scored = [Request("scored", i, "", (text,), (LoglikelihoodQuery(0, " the"),)) for i, text in enumerate(texts)]
    return [
        *scored,
        *(Request("written", i, "", (text,), (GenerateQuery(0, drawn),)) for i, text in enumerate(texts[:8])),
    ]


def answers(outputs: Iterable[Output]) -> dict[str, list[Any]]:
    """Return the compared values: log-likelihoods and texts."""
    return {output.request_id: [output.total_nats, output.text] for output in outputs}


def report(value: Any) -> None:
    """Print a value for the test."""
    print(json.dumps(value), flush=True)  # noqa: T201


def opened(folder: Path, address: str, n_workers: int) -> LocalModel:
    """Return the model with workers on the cluster."""
    model = create_model(
        "hf", {"pretrained": str(folder), "dtype": "float32", "n_slots": 8}, workers=n_workers, cluster=address
    )
    assert isinstance(model, LocalModel)
    return model


def tell_of_changed_files(folder: Path, address: str) -> None:
    """Change the model's files after the driver has read them, and print a worker's error."""
    model = opened(folder, address, 1)
    config = folder / "config.json"
    before = config.read_bytes()
    assert model.identity.content_hash
    config.write_bytes(before + b" ")
    try:
        assert model.engine
    except ModelUnavailable as error:
        report(str(error))
    config.write_bytes(before)


def main() -> None:
    """Answer, report, and then generate until ended."""
    faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
    folder, address, loses_a_node = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "lose"
    cluster.SILENT_SECONDS = float(sys.argv[4])
    if not loses_a_node:
        tell_of_changed_files(folder, address)
    model = opened(folder, address, 2)
    next(iter(model.answer(requests())))  # abandoned: its late results must not reach the next call
    result = answers(model.answer(requests()))
    report({"answers": result, **model.describe()})
    if loses_a_node:
        pool = model.engine
        assert isinstance(pool, EnginePool)
        while len(pool._links.workers) == 2:
            result = answers(model.answer(requests()))
        report({"answers": result, **model.describe()})
    endless = GenerationSettings(max_tokens=40, do_sample=True, temperature=2.0, repeats=20000)
    for _ in model.answer([Request("endless", 0, "", ("Once",), (GenerateQuery(0, endless),))]):
        report("busy")


if __name__ == "__main__":
    main()
