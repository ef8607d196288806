"""Registration of judges: their command, and judgings as a kind of stored audit."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "judge": Place(
            "assaymark.judges.commands.judge:judge",
            "Let a model judge stored answers; measure its agreement with people.",
            "People and judges",
        )
    },
    "audits": {"judging": "assaymark.judges.documents:judging_kind"},
}
