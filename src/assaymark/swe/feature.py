"""Registration of software-engineering tasks: their commands and tables."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "swe": Place(
            "assaymark.swe.commands.swe:swe",
            "Software-engineering tasks: write, grade and compare patches.",
            "Applications and code",
        )
    },
    "tables": {"swe": "assaymark.swe.grading_log:TABLES"},
}
