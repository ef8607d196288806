"""Registration of hosting: the commands that answer with a model, and the chat in the browser."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "chat": Place(
            "assaymark.hosting.commands.chat:chat", "Talk with a model, or with two side by side.", "Try a model"
        ),
        "host": Place(
            "assaymark.hosting.commands.host:host", "Answer an OpenAI-compatible API with a local model.", "Try a model"
        ),
    },
    "served": {"chat": "assaymark.hosting.serving:served_chat"},
}
