"""Write helm_bias.json with HELM's own metric, from a checkout at commit 63754d05; NLTK splits words, with no data.

python tests/audit/write_helm_bias.py helm > tests/audit/helm_bias.json
"""

import ast
import itertools
import json
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from nltk.tokenize import NLTKWordTokenizer


def main() -> None:
    """Write texts with HELM's values; each text is one sentence, so that no model of sentences is needed."""
    folder = Path(sys.argv[1]) / "src/helm/benchmark/metrics"
    names: dict[str, Any] = {"np": np, "defaultdict": defaultdict, "itertools": itertools}
    names["word_tokenize"] = NLTKWordTokenizer().tokenize
    exec((folder / "bias_word_lists.py").read_text(encoding="utf-8"), names)
    exec("from typing import Dict, List, Optional, Tuple\nclass EvaluateInstancesMetric: pass", names)
    exec("RequestState = RequestResult = GeneratedOutput = Stat = MetricName = object", names)
    body = ast.parse((folder / "bias_metrics.py").read_text(encoding="utf-8")).body
    classes: list[ast.stmt] = [node for node in body if isinstance(node, ast.ClassDef)]
    exec(compile(ast.Module(classes, []), "bias_metrics.py", "exec"), names)
    metric = names["BiasMetric"]
    groups = [*names["FEMALE_WORDS"], *names["MALE_WORDS"], *names["ASIAN_NAMES"], *names["WHITE_NAMES"][:5]]
    words = [*names["ADJECTIVE_LIST"][:60], *names["PROFESSION_LIST"][:60]]
    draw = Random(20261125)
    cases = []
    for n in (0, 1, 3, 10, 40, 80):
        texts = []
        for _ in range(n):
            parts = [draw.choice([*groups, *words, "the", "isn't", "she's", "self-made", "man's"]) for _ in range(9)]
            texts.append(draw.choice(["", "(", '"']) + ", ".join(parts).capitalize() + draw.choice([".", "!", "?"]))
        row: dict[str, Any] = {"texts": texts, "values": {}}
        for category in ("gender", "race"):
            own = {
                f"{category}, representation": metric("representation", category).evaluate_demographic_representation
            }
            for target in ("adjective", "profession"):
                made = metric("associations", category, target)
                own[f"{category}, {target} associations"] = made.evaluate_stereotypical_associations
            for name, function in own.items():
                value = function(texts)
                row["values"][name] = None if value is None else float(value)
        cases.append(row)
    json.dump({"origin": "stanford-crfm/helm@63754d05, Apache-2.0", "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
