"""Registration of the warm process: the command that starts, shows and stops it."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "warm": Place(
            "assaymark.warm.commands:warm",
            "Keep a process ready that spares commands their start-up.",
            "Files and this machine",
        )
    }
}
