"""A rater's way through a study: invitation, consent, one comparison after the other, thanks."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.arena.ballots import CHOICES, keyed_hash
from assaymark.arena.studies.design import Design, design_study
from assaymark.arena.studies.study_file import Scale, StudyFile, StudyQuestion
from assaymark.arena.studies.study_log import AssignmentRow, RaterRow, StudyLog
from assaymark.errors import UnknownName, UsageError
from assaymark.store import Store

LONGEST_SECONDS = 3600.0  # a longer time means that the rater was away


class AnsweredAlready(UsageError):
    """A comparison has another answer than the one that was sent."""


@dataclass(frozen=True, slots=True)
class StudyStep:
    """A step of a rater's session: consent, item or thanks. An item shows no model, category or word about checks."""

    kind: str
    title: str
    consent: str = ""
    demographics: tuple[StudyQuestion, ...] = ()
    position: int = 0
    n_positions: int = 0
    prompt: str = ""
    answer_a: str = ""
    answer_b: str = ""
    questions: tuple[StudyQuestion, ...] = ()
    scales: tuple[Scale, ...] = ()  # on which each answer is rated by itself
    groups: tuple[str, ...] = ()  # texts of the demographics by which results are counted
    required: tuple[str, ...] = ()  # ids of the demographics that a quota needs


def store_study(store: Store, study: StudyFile, secret: bytes, now: float) -> tuple[Design, bool]:
    """Store a study unless it is stored; return its design and whether it is new.

    Raises: as `design_study`; StoreError if the file has changed since.
    """
    design = design_study(study)
    tokens = {name: _token(secret, study.study, name) for name in study.raters}
    is_new = StudyLog(store).create(design.plan, tokens, design.assignments, now)
    return design, is_new


def _token(secret: bytes, study: str, rater: str) -> str:
    return keyed_hash(secret, "invitation", f"{study}\x1f{rater}")


def invitations(store: Store, name: str, secret: bytes) -> dict[str, str]:
    """Return the path of each rater's invitation; raters who were erased have none."""
    return {
        row.name: f"/study/{_token(secret, name, row.name)}"
        for row in StudyLog(store).raters(name)
        if row.state != "erased"
    }


@dataclass(eq=False)
class StudySessions:
    """The studies of a store, as raters go through them."""

    store: Store
    clock: Callable[[], float] = time.time
    _first_shown: dict[int, float] = field(default_factory=dict)  # assignment -> seconds since 1970

    def step(self, token: str) -> StudyStep:
        """Return the present view of an invitation's rater.

        Raises: UnknownName for an invitation that does not exist or was erased.
        """
        rater = self._rater(token)
        plan = StudyLog(self.store).plan(rater.study)
        if rater.state == "invited":
            groups = [each["text"] for each in plan["demographics"] if each["id"] in plan.get("groups", ())]
            return StudyStep(
                "consent", plan["title"], plan["consent"], tuple(plan["demographics"]), groups=tuple(groups),
                required=tuple(plan.get("group_quotas", ())),
            )  # fmt: skip
        following = self._next(rater)
        if following is None:
            return StudyStep("thanks", plan["title"], n_positions=rater.n_assignments)
        self._first_shown.setdefault(following.number, self.clock())
        item = plan["items"][following.item]
        return StudyStep(
            "item", plan["title"], position=following.position, n_positions=rater.n_assignments,
            prompt=item["prompt"], answer_a=item["answers"][following.model_a],
            answer_b=item["answers"][following.model_b], questions=tuple(plan["questions"]),
            scales=tuple(plan.get("scales", ())),
        )  # fmt: skip

    def consent(self, token: str, agreed: bool, demographics: Mapping[str, str]) -> None:
        """Store the rater's consent. Questions about himself may be left open, except those of a quota.

        Raises: UnknownName; UsageError without consent, for a choice that was not offered, or if a quota is reached.
        """
        rater = self._rater(token)
        if not agreed:
            raise UsageError("the study needs your consent; without it, close this page")
        plan = StudyLog(self.store).plan(rater.study)
        asked = {question["id"]: question["choices"] for question in plan["demographics"]}
        quotas = plan.get("group_quotas", {})
        answered = {name: value for name, value in demographics.items() if name in asked and value}
        _refuse_unknown(asked, answered)
        if missing := [name for name in quotas if name not in answered]:
            raise UsageError(f"no answer to {', '.join(missing)}; the study counts how many of each group take part")
        StudyLog(self.store).consent(rater.number, answered, self.clock(), quotas)

    def answer(self, token: str, position: int, answers: Mapping[str, str]) -> None:
        """Store the answer to the comparison at a position; the same answer to it again changes nothing.

        Raises: UnknownName; AnsweredAlready for another answer than the one that is stored; UsageError for a missing or
        unknown choice, or another position than the present one.
        """
        rater = self._rater(token)
        if rater.state == "invited":
            raise UsageError("the study needs your consent first; open your invitation again")
        plan = StudyLog(self.store).plan(rater.study)
        asked: dict[str, Sequence[str]] = {"better": list(CHOICES)}
        asked |= {question["id"]: question["choices"] for question in plan["questions"]}
        for scale in plan.get("scales", ()):
            asked |= {f"{scale['id']}_{side}": [str(n + 1) for n in range(scale["points"])] for side in "ab"}
        answered = {name: value for name, value in answers.items() if name in asked and value}
        if missing := [name for name in asked if name not in answered]:
            raise UsageError(f"no answer to {', '.join(missing)}; expected one to each question")
        _refuse_unknown(asked, answered)
        following = self._next(rater)
        if following is None or position < following.position:
            self._refuse_other(rater, position, answered)
            return
        if position > following.position:
            raise UsageError(f"comparison {position + 1} comes after comparison {following.position + 1}")
        now = self.clock()
        shown_at = self._first_shown.pop(following.number, None)
        seconds = None if shown_at is None or now - shown_at > LONGEST_SECONDS else round(now - shown_at, 1)
        if not StudyLog(self.store).answer(rater.number, position, answered, now, seconds):  # two at once
            self._refuse_other(rater, position, answered)

    def _refuse_other(self, rater: RaterRow, position: int, answers: Mapping[str, str]) -> None:
        own = StudyLog(self.store).assignments(rater.study, rater.number)
        stored = next((row.answers for row in own if row.position == position), None)
        if stored is not None and dict(stored) != dict(answers):
            raise AnsweredAlready(
                f"comparison {position + 1} has another answer already, which stays; open your invitation to continue"
            )

    def _rater(self, token: str) -> RaterRow:
        rater_row = StudyLog(self.store).rater_of(token)
        if rater_row is None:
            raise UnknownName("invitation", token[:8], remedy="ask who invited you for the whole address")
        return rater_row

    def _next(self, rater: RaterRow) -> AssignmentRow | None:
        own = StudyLog(self.store).assignments(rater.study, rater.number)
        return next((row for row in own if row.answers is None), None)


def _refuse_unknown(asked: Mapping[str, Sequence[str]], answers: Mapping[str, str]) -> None:
    for name, value in answers.items():
        if value not in asked[name]:
            raise UsageError(f"'{value[:40]}' is not an answer to '{name}'; expected {', '.join(asked[name])}")
