"""Scoring reads generated text; it never runs it."""

import ast
from pathlib import Path

SCORING = Path(__file__).parents[2] / "src" / "assaymark" / "scoring"
RUNNING = {"eval", "exec", "compile", "__import__"}
# never imported: programs of processes in the sandbox; `bfcl_simulator` compiles BFCL's modules and parses calls
SANDBOXED = {"code_guard.py", "code_runner.py", "bfcl_simulator.py"}


def test_no_scorer_evaluates_model_text_in_process() -> None:
    """No module of scoring calls eval, exec, compile or __import__ by name; re.compile is something else."""
    calls = [
        (path.name, node.func.id)
        for path in sorted(SCORING.rglob("*.py"))
        if path.name not in SANDBOXED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert len(calls) > 100
    assert [call for call in calls if call[1] in RUNNING] == []
