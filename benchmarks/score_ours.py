"""Child process: our model answers the requests that lm-eval built; times and answers go to a file."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assaymark.engine.trie import plan_trie
from assaymark.models.create import create_model
from assaymark.models.text.spans import span_batch
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Query, Request, RollingQuery
from benchmarks.peak_memory import device_peak_bytes, host_peak_bytes


def requests_of(built: list[list[Any]]) -> tuple[list[Request], list[tuple[str, int]]]:
    """Return lm-eval's instances as our requests, and where each instance went: (request id, ask index)."""
    grouped: dict[tuple[str, int], list[list[Any]]] = {}
    places: list[tuple[str, int]] = []
    for each in built:
        held = grouped.setdefault((each[0], each[1]), [])
        places.append((f"{each[0]}/{each[1]}/0", len(held)))
        held.append(each)
    requests: list[Request] = []
    for (task, doc), held in grouped.items():
        queries: list[Query] = []
        segments: tuple[str, ...] = ()
        for index, each in enumerate(held):
            if each[2] == "loglikelihood":
                queries.append(LoglikelihoodQuery(index, each[4], segments=(each[3],)))
            elif each[2] == "generate_until":
                segments = (each[3],)
                settings = GenerationSettings(max_tokens=each[4]["max_gen_toks"], stop=tuple(each[4]["until"]))
                queries.append(GenerateQuery(index, settings))
            else:
                queries.append(RollingQuery(index, each[3]))
        requests.append(Request(task, doc, "", segments, tuple(queries)))
    return requests, places


def needed(model: Any, requests: list[Request]) -> dict[str, Any]:
    """Return what one trie over all requests would hold: the least that must be computed."""
    queries = model._reader().read(requests)
    spans = {span.key: span for asked in queries for span in asked.spans}
    return asdict(plan_trie(span_batch(list(spans.values()))))


def main(spec_path: str) -> None:
    """Answer the load that the spec file names."""
    spec = json.loads(Path(spec_path).read_text())
    requests, places = requests_of(json.loads(Path(spec["requests"]).read_text())["requests"])
    common = {"pretrained": spec["model"], "dtype": spec["dtype"]}
    if "vllm" in spec:
        model = create_model("vllm", {**common, **spec["vllm"]})
    else:
        model = create_model("hf", {**common, "device": spec["device"], "n_threads": spec["threads"]})
    warm = Request("warm", 0, "", ("A b c",), (LoglikelihoodQuery(0, " d"),))
    list(model.answer([warm]))  # loading the weights is no part of scoring, for either side
    vllm_tokens = None
    if "vllm" in spec:
        import vllm

        from benchmarks.vllm_speed import count_tokens

        vllm_tokens = count_tokens(vllm.LLM)
    last: list[Any] = []
    begin = time.perf_counter()
    outputs = list(model.answer(requests, observe=last.append))
    seconds = time.perf_counter() - begin
    by_place = {(output.request_id, output.ask_index): output for output in outputs}
    answers = [by_place[place] for place in places]
    Path(spec["out"]).write_text(
        json.dumps(
            {
                "seconds": seconds,
                "peak_bytes": host_peak_bytes(),
                "device_peak_bytes": device_peak_bytes(spec["device"]),
                "vllm_tokens": vllm_tokens,
                "answers": [[a.total_nats if a.text is None else a.text, a.is_greedy] for a in answers],
                "errors": [a.error for a in answers if a.error],
                "tokens_asked": last[-1].n_tokens_asked,
                "tokens_distinct": last[-1].n_tokens_distinct,
                "needed": needed(model, requests),
                "description": dict(model.describe()),
            },
            default=str,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
