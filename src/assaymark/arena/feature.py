"""Registration of the arena: its commands."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "arena": Place(
            "assaymark.arena.commands.arena:arena",
            "Let people compare two models' answers; compute ratings from votes.",
            "People and judges",
        ),
        "study": Place(
            "assaymark.arena.commands.study:study",
            "Run a human study: invited people compare models' answers blind.",
            "People and judges",
        ),
    },
    "tables": {"arena": "assaymark.arena.arena_log:TABLES"},
}
