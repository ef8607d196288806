"""The form of feedback: thumbs, whether the task was completed, a comment, and what the answer should have been.

It works without scripts and without cookies, so that a page of another site can embed it.
"""

from dataclasses import dataclass

from fastapi import HTTPException

from assaymark.applications.live.feedback import LONGEST_COMMENT
from assaymark.web.posts import Posted

__all__ = ["FormPage", "fields_of_form"]

LONGEST_TYPED = 20_000  # characters of a correction that is typed into the form
_CHOICES = {"yes": True, "no": False}


@dataclass(frozen=True)
class FormPage:
    """The form, thanks after it was sent, or why there is none."""

    query: str  # of the link
    problem: str = ""
    is_done: bool = False
    is_refused: bool = False

    longest_comment = LONGEST_COMMENT
    longest_correction = LONGEST_TYPED

    @classmethod
    def refused(cls) -> "FormPage":
        """Return the page for a link that is not good."""
        return cls("", is_refused=True)

    def to_json(self) -> dict[str, object]:
        """Return what the page says."""
        return {"problem": self.problem, "is_done": self.is_done, "is_refused": self.is_refused}


def fields_of_form(form: Posted) -> dict[str, object]:
    """Return what was filled in, as fields of feedback. Raises: HTTPException 400 for a choice that is none."""
    fields: dict[str, object] = {}
    for name, field in (("thumbs", "value"), ("completed", "completed")):
        chosen = form.text(name)
        if chosen and chosen not in _CHOICES:
            raise HTTPException(400, f"'{name}' is '{chosen[:40]}'; expected yes or no")
        if chosen:
            fields[field] = _CHOICES[chosen]
    for name in ("comment", "correction"):
        if text := form.text(name):
            fields[name] = text.replace("\r\n", "\n")
    return fields
