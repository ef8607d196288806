"""BFCL's own checker, decoders, state machines and conversations: reads {"task": ..., ...}, writes what they give.

verdicts: [id, entry, decoded turns, gold] -> the error's type, or null where its checker says that all is right.
decoded: [mode, answer] -> the calls that it reads, or null where it cannot.
states: rows, and our simulator's file -> differences between its state machines and ours after each turn.
conversation: category, numbers of rows, mode, and what the model answers to each row, query by query -> the messages
    and tools of each query.
"""

import json
import os
import sys
from copy import deepcopy
from importlib.machinery import SourceFileLoader
from types import SimpleNamespace
from typing import Any

from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

if os.environ.get("PYTHONHASHSEED") != "0":  # some of its results list a set
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})

given = json.load(sys.stdin)
own_output, sys.stdout = sys.stdout, sys.stderr  # it prints while it works


def forget() -> None:
    """Remove the instances that BFCL keeps as global names."""
    for name in [name for name in vars(multi_turn_utils) if name.endswith("_instance")]:
        del vars(multi_turn_utils)[name]


def verdicts() -> list[Any]:
    """Return the error's type of each case."""
    found = []
    for entry, turns, gold in given["cases"]:
        forget()
        made = multi_turn_checker(turns, gold, entry, "", "model")
        found.append(None if made["valid"] else made["error_type"])
    return found


def decoded() -> list[Any]:
    """Return the calls in each answer."""
    from bfcl_eval.model_handler.utils import convert_to_function_call, default_decode_execute_prompting

    found: list[Any] = []
    for mode, answer in given["answers"]:
        try:
            found.append((convert_to_function_call if mode == "calls" else default_decode_execute_prompting)(answer))
        except Exception:  # noqa: BLE001 - as its loop does
            found.append(None)
    return found


def states() -> dict[str, Any]:
    """Return how many states after turns were compared, and where ours differ."""
    simulator: Any = SourceFileLoader("simulator", given["simulator"]).load_module()
    n_turns, different = 0, []
    for entry, gold in given["rows"]:
        forget()
        is_long = "long_context" in entry["id"]
        classes = {name: multi_turn_utils.CLASS_FILE_PATH_MAPPING[name] for name in entry["involved_classes"]}
        world = simulator.World(classes, multi_turn_utils.STATELESS_CLASSES, entry["initial_config"], is_long)
        for turn, calls in enumerate(gold):
            results, instances = multi_turn_utils.execute_multi_turn_func_call(
                calls, entry["initial_config"], entry["involved_classes"], "model", entry["id"], is_long
            )
            ours = [world.result_of(call) for call in calls]
            same = all(
                repr(getattr(world.instances[name], key)) == repr(value)
                for name, instance in instances.items()
                for key, value in vars(instance).items()
                if not key.startswith("_")
            )
            n_turns += 1
            if not same or ours != results or list(world.instances) != list(instances):
                different.append([entry["id"], turn])
    return {"n_turns": n_turns, "different": different}


def conversation() -> list[Any]:
    """Return the messages and tools of each query of each row."""
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
    from bfcl_eval.utils import load_dataset_entry

    class Scripted(OpenAICompletionsHandler):  # type: ignore[misc]
        """Answers from a script, and keeps what it is asked."""

        def _build_client_kwargs(self) -> dict[str, str]:
            return {"api_key": "none", "base_url": "http://127.0.0.1:9"}

        def generate_with_backoff(self, **asked: Any) -> Any:
            messages = [each if isinstance(each, dict) else each.as_sent for each in asked["messages"]]
            self.asked.append(deepcopy({"messages": messages, "tools": asked.get("tools")}))
            text, calls = self.answers[len(self.asked) - 1]
            sent = {"role": "assistant", "content": text}
            listed = None
            if calls:
                sent["tool_calls"] = calls
                listed = [
                    SimpleNamespace(id=call["id"], function=SimpleNamespace(**call["function"])) for call in calls
                ]
            message = SimpleNamespace(content=text, tool_calls=listed, as_sent=sent)
            usage = SimpleNamespace(prompt_tokens=1, completion_tokens=1)
            return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage), 0.0

    entries = load_dataset_entry(given["category"])
    found = []
    for number, answers in zip(given["numbers"], given["answers"], strict=True):
        forget()
        handler = Scripted("model", 0.0, "model", given["mode"] == "calls")
        handler.asked, handler.answers = [], answers
        handler.inference(deepcopy(entries[number]), False, True)
        found.append(handler.asked)
    return found


made = globals()[given["task"]]()
own_output.write(json.dumps(made) + "\n")
