"""Rows of BFCL: a question file and its answer file as one, with the declarations as a model sees them.

What a model sees is not what calls are compared by: each description ends with a hint at the language; Java's and
JavaScript's parameters become texts (`shown`); and `tools` has JSON Schema's types in place of BFCL's own.

Source: BFCL v4, ShishirPatil/gorilla 6ea57973, bfcl_eval/utils.py (_func_doc_language_specific_pre_processing, whose
    hints these are), model_handler/utils.py (convert_to_tool), constants/type_mappings.py.
"""

import copy
import json

HINTS = {
    "python": " Note that the provided function is in Python 3 syntax.",
    "java": " Note that the provided function is in Java 8 SDK syntax.",
    "javascript": " Note that the provided function is in JavaScript syntax.",
}
LANGUAGES = {"java": "Java", "javascript": "JavaScript"}
JSON_TYPES = {
    "integer": ("integer", "byte", "short", "long", "Bigint"),
    "number": ("number", "float", "double"),
    "boolean": ("boolean", "bool"),
    "array": ("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"),
    "object": ("object", "dict", "HashMap", "Hashtable"),
    "string": ("string", "any", "char", "Any", "String"),
}
JSON_TYPE_OF = {name: kind for kind, names in JSON_TYPES.items() for name in names}


def rows(docs):
    """Return one row per question: id, messages, function (the declarations), shown, tools, ground_truth."""
    docs = list(docs)
    answers = {doc["id"]: doc["ground_truth"] for doc in docs if doc.get("ground_truth") is not None}
    return [_row(doc, answers) for doc in docs if doc.get("question") is not None]


def _row(doc, answers):
    shown = [_shown(each, _language(doc["id"])) for each in doc["function"]]
    return {
        "id": doc["id"],
        "messages": doc["question"][0],
        "function": doc["function"],
        "shown": shown,
        "tools": [_tool(each) for each in shown],
        "ground_truth": answers.get(doc["id"], []),
    }


def _language(name):
    return next((language for language in ("javascript", "java") if name.startswith(f"simple_{language}_")), "python")


def _shown(function, language):
    """Return a declaration with the hints; the parameters of Java and JavaScript are texts of source code."""
    function = copy.deepcopy(function)
    function["description"] += HINTS[language]
    if language == "python":
        return function
    name = LANGUAGES[language]
    for schema in function["parameters"]["properties"].values():
        kind = schema["type"]
        if kind == "any":
            schema["description"] += f" This parameter can be of any type of {name} object in string representation."
        else:
            schema["description"] += f" This is {name} {kind} type parameter in string representation."
        if kind in ("ArrayList", "Array", "array") and kind != ("array" if language == "java" else "Array"):
            item = schema.pop("items")["type"]
            schema["description"] += f" The list elements are of type {item}; they are not in string representation."
        if kind == "dict" and language == "javascript" and "properties" in schema:
            inner = json.dumps(schema.pop("properties"))
            schema["description"] += (
                f" The dictionary entries have the following schema; they are not in string representation. {inner}"
            )
        schema["type"] = "string"
    return function


def _tool(function):
    """Return a declaration with JSON Schema's types."""
    function = copy.deepcopy(function)
    function["parameters"]["type"] = "object"
    _cast(function["parameters"]["properties"])
    return function


def _cast(properties):
    for schema in properties.values():
        kind = schema.get("type", "string")
        if kind == "float":
            schema["format"] = "float"
            schema["description"] += " This is a float type value."
        schema["type"] = JSON_TYPE_OF.get(kind, "string")
        if schema["type"] in ("array", "object"):
            if "properties" in schema:
                _cast(schema["properties"])
            elif "items" in schema:
                _cast_items(schema["items"])


def _cast_items(items):
    items["type"] = JSON_TYPE_OF[items["type"]]
    if items["type"] == "array" and "items" in items:
        items["items"]["type"] = JSON_TYPE_OF[items["items"]["type"]]
    elif items["type"] == "object" and "properties" in items:
        _cast(items["properties"])
