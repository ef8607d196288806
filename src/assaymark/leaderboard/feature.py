"""Registration of leaderboards: their commands, and the pages of the queue."""

from assaymark.registry import Place

_COMMANDS = "assaymark.leaderboard.commands."

PLACES = {
    "commands": {
        "serve": Place(f"{_COMMANDS}serve:serve", "Show leaderboards in the browser.", "Leaderboards"),
        "submit": Place(
            f"{_COMMANDS}submit:submit", "Check a model as a leaderboard would, and submit it.", "Leaderboards"
        ),
        "worker": Place(
            f"{_COMMANDS}submit:worker", "Evaluate submitted models: take jobs from the queue.", "Leaderboards"
        ),
        "board": Place(
            f"{_COMMANDS}board:board", "Create and check a leaderboard's file, or search its rows.", "Leaderboards"
        ),
        "card": Place(
            f"{_COMMANDS}card:card", "Write a model card (README.md) from a model's stored runs.", "Leaderboards"
        ),
        "recommend": Place(
            f"{_COMMANDS}recommend:recommend",
            "Rank models by the benchmarks that measure what is needed.",
            "Leaderboards",
        ),
        "guide": Place(
            f"{_COMMANDS}recommend:guide", "Say which benchmarks measure what, and what to look out for.", "Evaluate"
        ),
    },
    "served": {"submissions": "assaymark.leaderboard.submission.serving:served_submissions"},
    "tables": {"submissions": "assaymark.leaderboard.submission.moderation:TABLES"},
}
