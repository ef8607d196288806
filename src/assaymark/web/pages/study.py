"""A page of a study. It has no JSON twin: prompts of studies are held out, and shown to invited raters only."""

from dataclasses import dataclass

from assaymark.arena.studies.sessions import Step
from assaymark.web.pages.battle import BUTTONS

__all__ = ["StudyPage"]


@dataclass(frozen=True)
class StudyPage:
    """One step of a rater."""

    step: Step
    path: str  # of the invitation
    form_token: str

    @property
    def buttons(self) -> dict[str, tuple[str, str]]:
        """Choice -> words and key of its button."""
        return BUTTONS
