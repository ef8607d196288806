"""Calls carried out on BFCL's state machines: results, states and verdicts are BFCL's own, and nothing else is run."""

import ast
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import PlanError
from assaymark.scoring import simulated_calls
from assaymark.scoring.run_code import Unprotected, find_sandbox
from assaymark.scoring.simulated_calls import (
    INSTALL,
    OVER_LIMIT,
    PROGRAM,
    CallHistory,
    ConversationAnswer,
    Simulator,
    find_machines,
    state_match,
)
from tests.applications.oracles.locked import needs_oracle, oracle, oracle_packages

EACH = 1 if os.environ.get("ASSAYMARK_TEST_ALL_ROWS") else 10
"""Every how many-th row is compared with BFCL; all 800 take a quarter of an hour."""
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
REASONS = {
    "multi_turn:empty_turn_model_response": "empty_turn",
    "multi_turn:instance_state_mismatch": "wrong_state",
    "multi_turn:execution_response_mismatch": "missing_result",
}
CLASSES = ("MathAPI", "GorillaFileSystem", "TwitterAPI")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """A simulator in the sandbox that works here."""
    monkeypatch.syspath_prepend(oracle_packages("bfcl"))
    find_machines.cache_clear()
    sandbox, _ = find_sandbox()
    made = Simulator(sandbox or Unprotected(), find_machines())
    yield made
    made.close()
    find_machines.cache_clear()


def rows_of(shared_dir: Path, category: str) -> list[tuple[dict[str, Any], list[list[str]]]]:
    """Return the entries of a category with their right calls."""
    folder = shared_dir / "data" / "gorilla-llm" / "Berkeley-Function-Calling-Leaderboard"

    def read(name: str) -> list[dict[str, Any]]:
        with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    name = f"BFCL_v4_multi_turn_{category}"
    gold = {each["id"]: each["ground_truth"] for each in read(f"possible_answer/{name}")}
    return [(entry, gold[entry["id"]]) for entry in read(name)]


def carried_out(simulator: Simulator, *calls: str, known: dict[int, str] | None = None) -> tuple[str, ...]:
    """Return the results of the calls of one step."""
    return simulator.carry_out(CallHistory(CLASSES, {}, False, [[calls]], known or {})).results


def conversation(entry: dict[str, Any], turns: Sequence[Sequence[Sequence[str]]]) -> CallHistory:
    """Return the conversation of an entry."""
    return CallHistory(entry["involved_classes"], entry["initial_config"], "long_context" in entry["id"], turns, {})


# --------------------------------------------------------------------------------------- beside BFCL's own checker


def changed_argument(call: str, draw: random.Random) -> str:
    """Return a call with another value of one argument; without arguments, with one that it does not have."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    places = [*node.args, *(each.value for each in node.keywords)]
    constants = [place for place in places if isinstance(place, ast.Constant)]
    if not constants:
        node.keywords.append(ast.keyword("other", ast.Constant(1)))
        return ast.unparse(node)
    place = draw.choice(constants)
    if isinstance(place.value, bool):
        place.value = not place.value
    elif isinstance(place.value, int | float):
        place.value += 1
    else:
        place.value = str(place.value) + "x"
    return ast.unparse(node)


def variants(gold: list[list[str]], draw: random.Random) -> Iterator[tuple[str, list[list[list[str]]]]]:
    """Yield right and damaged conversations: what is done to them, and the calls of each step of each turn."""
    steps = [[list(turn)] if turn else [] for turn in gold]
    full = [number for number, turn in enumerate(gold) if turn]
    yield "right", steps
    yield "one call a step", [[[call] for call in turn] for turn in gold]
    at = draw.choice(full)
    gone = draw.randrange(len(gold[at]))
    rest = [call for number, call in enumerate(gold[at]) if number != gone]
    yield "a call is missing", [*steps[:at], [rest] if rest else [], *steps[at + 1 :]]
    changed = [changed_argument(call, draw) if number == gone else call for number, call in enumerate(gold[at])]
    yield "a wrong argument", [*steps[:at], [changed], *steps[at + 1 :]]
    yield "a turn is empty", [*steps[:at], [], *steps[at + 1 :]]
    again = draw.choice([call for turn in gold for call in turn])
    yield "an extra call", [*steps[:at], [[*gold[at], again]], *steps[at + 1 :]]
    yield "an extra call first", [*steps[:at], [[again], gold[at]], *steps[at + 1 :]]
    yield "an unknown function", [*steps[:at], [["no_such_function(x=1)"], gold[at]], *steps[at + 1 :]]
    yield "another order", [[list(reversed(turn))] if turn else [] for turn in gold]
    yield "all in the first turn", [[[call for turn in gold for call in turn]], *([] for _ in gold[1:])]


@needs_oracle("bfcl")
@pytest.mark.parametrize("category", CATEGORIES)
def test_verdicts_are_bfcls(category: str, shared_dir: Path, simulator: Simulator) -> None:
    """Right calls are right; of right and damaged conversations of every tenth row the verdict is BFCL's."""
    cases: list[tuple[Any, ...]] = []
    ours, kinds = [], []
    rows = rows_of(shared_dir, category)[::EACH]
    for entry, gold in rows:
        for kind, turns in variants(gold, random.Random(entry["id"])):
            fault = simulator.carry_out(conversation(entry, turns), gold).fault
            ours.append(None if fault is None else fault["reason"])
            cases.append(({key: entry[key] for key in ("id", "initial_config", "involved_classes")}, turns, gold))
            kinds.append(kind)
    theirs = [
        None if error is None else REASONS[error]
        for start in range(0, len(cases), 500)
        for error in oracle("bfcl", {"task": "verdicts", "cases": cases[start : start + 500]})
    ]
    assert len(cases) == 10 * len(rows)
    different = [(case[0]["id"], kind, a, b) for case, kind, a, b in zip(cases, kinds, ours, theirs, strict=True)
                 if a != b]  # fmt: skip
    assert different == []
    wrong = Counter(kind for kind, verdict in zip(kinds, ours, strict=True) if verdict is not None)
    assert wrong["right"] == wrong["one call a step"] == wrong["an unknown function"] == 0
    assert wrong["a turn is empty"] == len(rows)
    assert len(rows) < 2 * wrong["a wrong argument"]
    assert set(filter(None, ours)) == set(REASONS.values())


@needs_oracle("bfcl")
@pytest.mark.parametrize("category", CATEGORIES)
def test_states_are_bfcls(category: str, shared_dir: Path) -> None:
    """After each turn every public attribute of every state machine, and each result, is the same as with BFCL."""
    rows = rows_of(shared_dir, category)[::EACH]
    made = oracle("bfcl", {"task": "states", "rows": rows, "simulator": str(PROGRAM)})
    assert made == {"n_turns": sum(len(gold) for _, gold in rows), "different": []}


# ------------------------------------------------------------------------------------------------ hostile calls


@needs_oracle("bfcl")
def test_only_functions_of_the_classes_are_called(simulator: Simulator, tmp_path: Path) -> None:
    """A text that is no call of a public method with literals fails with its reason, and runs nothing."""
    mark = tmp_path / "ran"
    shell = f"touch {mark}"
    hostile = {
        f"__import__('os').system({shell!r})": "is not a function that may be called",
        f"os.system({shell!r})": "name 'os' is not defined",
        f"eval({shell!r})": "name 'eval' is not defined",
        f"open(file={str(mark)!r}, mode='w')": "name 'open' is not defined",
        "cd.__globals__": "is not a call",
        "cd.__self__.__class__()": "name 'cd' is not defined",
        "(lambda: cd)()()": "is not a function that may be called",
        "mean(numbers=[].__class__.__mro__)": "is not a literal",
        "mean(numbers=[x for x in range(10**9)])": "is not a literal",
        "mean(numbers=10**10**10)": "is not a literal",
        "mean(**{'numbers': [1]})": "* and ** are not allowed",
        "mean(*[[1]])": "* and ** are not allowed",
        "_load_scenario(scenario={})": "name '_load_scenario' is not defined",
        "__init__()": "name '__init__' is not defined",
        "cd(folder='a'); cd(folder='b')": "invalid syntax",
        "[" * 500: "",
        "": "invalid syntax",
        "mean(numbers=__import__('os').listdir('/'))": "is not a function that may be called",
    }
    results = carried_out(simulator, *hostile, "mean(numbers=[1, 2])")
    for (call, reason), result in zip(hostile.items(), results, strict=False):
        assert result.startswith("Error during execution: "), call
        assert reason in result
    assert results[-1] == '{"result": 1.5}'
    assert not mark.exists()


@needs_oracle("bfcl")
def test_a_call_beyond_the_limits_fails_alone(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that takes for ever ends with the limit as its result; calls before and after it are carried out."""
    monkeypatch.setattr(simulated_calls, "LIMITS", {"cpu_seconds": 1, "wall_seconds": 20, "memory_bytes": 1 << 30})
    results = carried_out(
        simulator,
        "touch(file_name='a')",
        "power(base=10, exponent=10000000000)",
        "touch(file_name='b')",
        "ls()",
    )
    assert results[1] == f"{OVER_LIMIT}1 s of processor time"
    assert results[3] == '{"current_directory_content": ["a", "b"]}'
    again = carried_out(simulator, "power(base=10, exponent=10000000000)", "mean(numbers=[1])", known={0: "known"})
    assert again == ("known", '{"result": 1.0}')  # it is not carried out again, which would give another result


@needs_oracle("bfcl")
def test_a_state_that_cannot_be_compared_is_wrong(simulator: Simulator) -> None:
    """A folder copied into itself has no end to compare: a verdict with its reason, and no error of the run."""
    calls = ["mkdir(dir_name='a')", "cp(source='a', destination='a')"]
    history = CallHistory(["GorillaFileSystem"], {}, False, [[calls]], {})
    made = simulator.carry_out(history, [calls])
    assert made.results == ("None", """{"result": "'a' copied to 'a/a'"}""")
    assert made.fault is not None
    assert (made.fault["reason"], made.fault["turn"]) == ("over_limit", 0)
    assert "RecursionError" in str(made.fault["message"])
    assert carried_out(simulator, "mean(numbers=[1])") == ('{"result": 1.0}',)


@needs_oracle("bfcl")
def test_a_result_has_a_longest_length(simulator: Simulator) -> None:
    """A function that returns more than a million characters has exceeded a limit."""
    echo = f"echo(content={'x' * 999_990!r}, file_name='a')"
    assert carried_out(simulator, "touch(file_name='a')", echo, "cat(file_name='a')")[2].startswith(OVER_LIMIT)


@needs_oracle("bfcl")
def test_conversations_do_not_see_each_other(simulator: Simulator) -> None:
    """Each begins with the state of its row; the process is started again where it was killed."""
    assert carried_out(simulator, "mkdir(dir_name='a')", "ls()")[1] == '{"current_directory_content": ["a"]}'
    assert carried_out(simulator, "ls()")[0] == '{"current_directory_content": []}'
    assert simulator._process is not None
    simulator._process.kill()
    simulator._process.wait()
    assert carried_out(simulator, "mean(numbers=[4])") == ('{"result": 4.0}',)


@needs_oracle("bfcl")
def test_the_process_has_no_network_and_no_home(simulator: Simulator) -> None:
    """Where bubblewrap works, the process that carries out calls is in namespaces of its own."""
    if find_sandbox()[0] is None:
        pytest.skip("there is no sandbox here")
    carried_out(simulator, "mean(numbers=[1])")
    assert simulator._process is not None
    child = int(Path(f"/proc/{simulator._process.pid}/task/{simulator._process.pid}/children").read_text().split()[0])
    for kind in ("net", "mnt", "pid"):
        assert Path(f"/proc/{child}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()


def test_without_bfcl_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is the one of the documentation."""
    find_machines.cache_clear()
    monkeypatch.setattr(simulated_calls, "find_spec", lambda _: None)
    with pytest.raises(PlanError, match=f"no bfcl_eval.*{INSTALL}"):
        find_machines()


@needs_oracle("bfcl")
def test_an_unknown_class_is_named(simulator: Simulator) -> None:
    """A class of BFCL's agentic categories is not simulated."""
    with pytest.raises(PlanError, match=r"class 'WebSearchAPI' is not known; known: GorillaFileSystem, "):
        simulator.carry_out(CallHistory(["WebSearchAPI"], {}, False, [[]], {}))


def test_the_detail_has_the_turn_and_the_calls_that_failed() -> None:
    """A wrong conversation says in which turn; a call that failed is listed whether or not it decided."""
    answer = ConversationAnswer(
        ["a()", "b()"], ["1", "Error during execution: no"], {"reason": "wrong_state", "turn": 2, "message": "x is 1"}
    )
    assert state_match(answer).value == 0.0
    assert state_match(answer).detail == {
        "n_calls": 2,
        "reason": "wrong_state",
        "message": "turn 3: x is 1",
        "n_failed_calls": 1,
        "failed_calls": ["b(): no"],
    }
    assert state_match(ConversationAnswer(["a()"], ["1"], None)).value == 1.0
