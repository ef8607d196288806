"""Rows of BFCL's multi-turn categories: a question file, its answer file and the declarations of functions as one.

A row's functions are those of its classes. Functions that come in a later turn (miss_func) are left out of them; BFCL
shows these without the hint at the language.

Source: BFCL v4, bfcl-eval 2026.3.23, bfcl_eval/utils.py (populate_test_cases_with_predefined_functions, whose hint
    this is), model_handler/utils.py (convert_to_tool), constants/executable_backend_config.py.
"""

import copy

HINT = " Note that the provided function is in Python 3 syntax."
DESCRIBED_AS = {  # class -> how the description of each of its functions begins
    "GorillaFileSystem": "This tool belongs to the Gorilla file system",
    "MathAPI": "This tool belongs to the Math API",
    "MessageAPI": "This tool belongs to the Message API",
    "TwitterAPI": "This tool belongs to the TwitterAPI",
    "TicketAPI": "This tool belongs to the ticketing system",
    "TradingBot": "This tool belongs to the trading system",
    "TravelAPI": "This tool belongs to the travel system",
    "VehicleControlAPI": "This tool belongs to the vehicle control system",
}
JSON_TYPES = {"dict": "object", "float": "number"}  # the others have the same name


def rows(docs):
    """Return one row per conversation.

    Each has id, messages (of the first turn), question (the messages of each turn), function and tools (declarations,
    as they are and for a template), later_function and later_tools (turn -> those that come in it), involved_classes,
    initial_config, is_long_context and ground_truth (the right calls of each turn).
    """
    docs = list(docs)
    answers = {doc["id"]: doc["ground_truth"] for doc in docs if doc.get("ground_truth") is not None}
    declared = [doc for doc in docs if doc.get("parameters") is not None]
    by_class = {
        name: [DeclaredFunction(doc) for doc in declared if doc["description"].startswith(start)]
        for name, start in DESCRIBED_AS.items()
    }
    return [_row(doc, answers, by_class) for doc in docs if doc.get("question") is not None]


class DeclaredFunction:
    """The declarations of a function, each made once for all rows: as it is, with the hint, and both for a template."""

    def __init__(self, doc):
        keys = ("name", "description", "parameters", "response")
        self.name = doc["name"]
        self.bare = {key: doc[key] for key in keys if doc.get(key) is not None}
        self.hinted = {**self.bare, "description": doc["description"] + HINT}
        self.bare_tool, self.tool = _tool(self.bare), _tool(self.hinted)


def _row(doc, answers, by_class):
    functions = [each for name in doc["involved_classes"] for each in by_class[name]]
    later = {}
    for turn, names in (doc.get("missed_function") or {}).items():
        later[turn] = [each for name in names for each in functions if each.name == name]
        functions = [each for each in functions if each.name not in names]
    return {
        "id": doc["id"],
        "messages": doc["question"][0],
        "question": doc["question"],
        "function": [each.hinted for each in functions],
        "tools": [each.tool for each in functions],
        "later_function": {turn: [each.bare for each in come] for turn, come in later.items()},
        "later_tools": {turn: [each.bare_tool for each in come] for turn, come in later.items()},
        "involved_classes": doc["involved_classes"],
        "initial_config": doc["initial_config"],
        "is_long_context": "long_context" in doc["id"],
        "ground_truth": answers[doc["id"]],
    }


def _tool(function):
    """Return a declaration with JSON Schema's types."""
    function = copy.deepcopy(function)
    function["parameters"]["type"] = "object"
    _cast(function["parameters"]["properties"])
    return function


def _cast(properties):
    for schema in properties.values():
        if schema["type"] == "float":
            schema["format"] = "float"
            schema["description"] += " This is a float type value."
        schema["type"] = JSON_TYPES.get(schema["type"], schema["type"])
        if "properties" in schema:
            _cast(schema["properties"])
        elif "items" in schema:
            schema["items"]["type"] = JSON_TYPES.get(schema["items"]["type"], schema["items"]["type"])
