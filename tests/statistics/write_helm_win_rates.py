"""Write helm_win_rates.json with HELM's own functions, taken from a checkout at commit 63754d05.

python tests/statistics/write_helm_win_rates.py helm > tests/statistics/helm_win_rates.json
"""

import ast
import json
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from statistics import mean, median
from types import SimpleNamespace
from typing import Any


def main() -> None:
    """Write tables with their rates."""
    source = (Path(sys.argv[1]) / "src/helm/benchmark/presentation/summarize.py").read_text(encoding="utf-8")
    wanted: list[ast.stmt] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and node.name in {"compute_aggregate_row_win_rates", "compute_aggregate_row_means"}
    ]
    names: dict[str, Any] = {"Table": object, "List": list, "Optional": dict, "Dict": dict}
    names |= {"MODEL_HEADER_CELL_VALUE": "Model", "mean": mean, "median": median, "defaultdict": defaultdict}
    exec("from typing import Dict, List, Optional", names)
    exec(compile(ast.Module(wanted, []), "summarize.py", "exec"), names)
    draw = Random(20261125)
    cases = []
    for _ in range(200):
        n_models, n_columns = draw.randint(2, 7), draw.randint(1, 6)
        missing = draw.choice([0.0, 0.2, 0.7])
        values = [
            [None if draw.random() < missing else draw.randint(0, 4) / 4 for _ in range(n_columns)]
            for _ in range(n_models)
        ]
        higher = [draw.random() < 0.7 for _ in range(n_columns)]
        table = SimpleNamespace(
            header=[SimpleNamespace(value="Score", lower_is_better=not up) for up in higher],
            rows=[[SimpleNamespace(value=value) for value in row] for row in values],
        )
        rates = names["compute_aggregate_row_win_rates"](table)
        means = names["compute_aggregate_row_means"](table) if len({*higher}) == 1 else None  # HELM refuses others
        cases.append({"values": values, "higher_is_better": higher, "rates": rates, "means": means})
    json.dump({"origin": "stanford-crfm/helm@63754d05, Apache-2.0", "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
