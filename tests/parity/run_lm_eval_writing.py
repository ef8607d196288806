"""Have lm-evaluation-harness write answers to real rows, and keep where its choice of a token was nearly a tie.

Usage: python -m tests.parity.run_lm_eval_writing SPEC.json OUT.json. Greedy, float32, one prompt at a time. Of each
answer the text written before the first near tie is kept as well: after it, both continuations are right.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data

NEAR_TIE = 1e-4  # between the two best logits


def main(spec_path: str, out_path: str) -> None:
    """Evaluate every case with every model."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    import lm_eval.tasks
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)

    class Watched(HFLM):  # type: ignore[misc]
        """lm-eval's model, looking over its shoulder."""

        before_ties: list[str | None]

        def _model_generate(self, context: Any, *args: Any, **kwargs: Any) -> Any:
            made = super()._model_generate(context, *args, **kwargs, return_dict_in_generate=True, output_logits=True)
            gaps = [float(best[0] - best[1]) for best in (logits[0].topk(2).values for logits in made.logits)]
            first = next((i for i, gap in enumerate(gaps) if gap < NEAR_TIE), None)
            written = made.sequences[0, context.shape[1] :]
            self.before_ties.append(None if first is None else self.tokenizer.decode(written[:first]))
            return made.sequences

    folders: list[str | Path] = [Path(lm_eval.tasks.__file__).parent / folder for folder in spec["folders"]]
    manager = TaskManager(include_path=folders, include_defaults=False)  # reading all 13,000 files takes longer
    results: dict[str, Any] = {}
    for name, (path, cases) in spec["models"].items():
        model = Watched(pretrained=path, dtype="float32", device="cpu", batch_size=1, logits_cache=False)
        results[name] = {}
        for task, shots, limit in cases:
            model.before_ties = []
            result = simple_evaluate(
                model=model, tasks=[task], num_fewshot=shots, limit=limit, task_manager=manager, log_samples=True,
                bootstrap_iters=0, gen_kwargs=spec["gen_kwargs"], verbosity="ERROR",
            )  # fmt: skip
            results[name][task] = {
                "results": result["results"][task],
                "near_ties": [text for text in model.before_ties if text is not None],
                "samples": [
                    {"filter": s["filter"], "doc_id": s["doc_id"], "prompt_hash": s["prompt_hash"],
                     "text": s["resps"][0][0], "metrics": {m: float(s[m]) for m in s["metrics"]}}
                    for s in result["samples"][task]
                ],
            }  # fmt: skip
    Path(out_path).write_text(json.dumps(results, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
