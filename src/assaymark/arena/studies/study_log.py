"""Human studies in the store: plan, raters by the hash of their invitation, assignments, answers; and erasure.

An assignment has at most one answer. Erasing a rater removes answers, demographics, assignments and name; the row of
the rater stays, so that counts of invitations remain right.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, Table, delete, insert, select

from assaymark.arena.studies.study_file import StudyPlan
from assaymark.arena.tables import assignments, studies, study_answers, study_demographics, study_raters
from assaymark.errors import StoreError, UnknownName, UsageError
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.packing import pack_json, text_digest, unpack_json
from assaymark.store.runs import change_row, next_id
from assaymark.store.schema import as_saved, with_checksum


@dataclass(frozen=True, slots=True)
class NewAssignment:
    """A comparison of one rater: item of the plan, the models on both sides, the right side of an attention check."""

    item: int
    model_a: str
    model_b: str
    expected: str | None


@dataclass(frozen=True, slots=True)
class RaterRow:
    """A rater: invited, consented, finished or erased."""

    number: int
    study: str
    name: str
    state: str
    n_assignments: int
    n_answered: int


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    """An assignment with its answer, None while there is none. Units: seconds; answered_at since 1970."""

    number: int
    rater: str
    position: int
    item: int
    model_a: str
    model_b: str
    expected: str | None
    answers: Mapping[str, str] | None
    answered_at: float | None
    seconds: float | None


class StudyLog(FeatureLog):
    """The studies of one store."""

    def create(
        self, plan: StudyPlan, tokens: Mapping[str, str], by_rater: Mapping[str, Sequence[NewAssignment]], at: float
    ) -> bool:
        """Store a study with its raters; return False if it is stored already.

        Args:
            plan: of the study, whose name is in it.
            tokens: rater -> token of the invitation; its hash is stored.
            by_rater: rater -> assignments in order.
            at: seconds since 1970.

        Raises: StoreError if another plan is stored under the name.
        """
        name = plan["study"]
        with self._database.writing(locked=True) as connection:
            stored = connection.execute(select(studies).where(studies.c.name == name)).one_or_none()
            if stored is not None:
                if unpack_json(stored.plan) != json.loads(json.dumps(plan)):
                    raise StoreError(
                        f"another study is stored as '{name}'; give the changed file another `study:` name"
                    )
                return False
            number = next_id(connection, studies)
            _insert(connection, studies, {"id": number, "name": name, "plan": pack_json(plan), "created_at": at})
            for rater, token in tokens.items():
                own = next_id(connection, study_raters)
                row = {"id": own, "study": number, "name": rater, "token_hash": text_digest(token), "state": "invited"}
                _insert(connection, study_raters, {**row, "consented_at": None})
                for position, assignment in enumerate(by_rater[rater]):
                    sides = asdict(assignment)
                    row = {"id": next_id(connection, assignments), "rater": own, "position": position}
                    _insert(connection, assignments, row | {"prompt": sides.pop("item")} | sides)
        return True

    def plan(self, name: str) -> StudyPlan:
        """Return a study's plan. Raises: UnknownName."""
        with self._database.reading() as connection:
            rows = as_saved(studies, connection.execute(select(studies).where(studies.c.name == name)))
            if not rows:
                known = connection.execute(select(studies.c.name)).scalars().all()
                raise UnknownName("study", name, known[:5])
        plan: StudyPlan = unpack_json(rows[0].plan)
        return plan

    def raters(self, name: str) -> list[RaterRow]:
        """Return a study's raters, in the order of invitation. Raises: UnknownName."""
        self.plan(name)
        with self._database.reading() as connection:
            of_study = select(study_raters.c.id).join(studies, studies.c.id == study_raters.c.study)
            numbers = connection.execute(of_study.where(studies.c.name == name).order_by(study_raters.c.id)).scalars()
            return [_rater(connection, number) for number in numbers.all()]

    def rater_of(self, token: str) -> RaterRow | None:
        """Return the rater of an invitation; None if there is none, or he was erased."""
        with self._database.reading() as connection:
            this = select(study_raters.c.id).where(study_raters.c.token_hash == text_digest(token))
            number = connection.execute(this.where(study_raters.c.state != "erased")).scalar()
            return None if number is None else _rater(connection, number)

    def consent(
        self,
        rater: int,
        demographics: Mapping[str, str],
        at: float,
        quotas: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """Store a rater's consent, and the demographics given, apart from the choices. Repeating changes nothing.

        quotas: of demographics: choice -> most raters of the study who say so.

        Raises: UsageError if a quota is reached; nothing is stored.
        """
        with self._database.writing(durable=True) as connection:
            row = connection.execute(select(study_raters).where(study_raters.c.id == rater)).one()
            if row.state != "invited":
                return
            self._refuse_full(connection, row.study, demographics, quotas or {})
            change_row(connection, study_raters, row, state="consented", consented_at=at)
            if demographics:
                _insert(connection, study_demographics, {"rater": rater, "content": pack_json(dict(demographics))})

    def _refuse_full(
        self,
        connection: Connection,
        study: int,
        demographics: Mapping[str, str],
        quotas: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Raise UsageError if raters with the same answer have reached a quota; in the transaction of a consent."""
        if not quotas:
            return
        self._database.lock_structure(connection)  # of two consents at once, one counts the other
        own = select(study_demographics.c.content).join(study_raters, study_raters.c.id == study_demographics.c.rater)
        others = [unpack_json(each) for each in connection.execute(own.where(study_raters.c.study == study)).scalars()]
        for name, quota in quotas.items():
            choice = demographics.get(name)
            most = None if choice is None else quota.get(choice)
            if most is not None and sum(other.get(name) == choice for other in others) >= most:
                raise UsageError(
                    f"the study has enough people who say '{choice}'; thank you. Nothing about you was stored"
                )

    def groups_of(self, name: str, ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return rater -> id of a question -> his answer about himself, for results by group.

        ids: the questions by which results are counted, as the raters were told.
        """
        joined = (
            select(study_raters.c.name, study_demographics.c.content)
            .join(study_demographics, study_raters.c.id == study_demographics.c.rater)
            .join(studies, studies.c.id == study_raters.c.study)
            .where(studies.c.name == name)
        )
        rows = self._rows(joined)
        return {rater: {id_: said[id_] for id_ in ids if id_ in said} for rater, content in rows
                for said in [unpack_json(content)]}  # fmt: skip

    def answer(self, rater: int, position: int, answers: Mapping[str, str], at: float, seconds: float | None) -> bool:
        """Store the answer to an assignment; return False if it has one, which stays.

        Raises: StoreError for a rater who has not consented, or a position that he does not have.
        """
        with self._database.writing(durable=True) as connection:
            row = connection.execute(select(study_raters).where(study_raters.c.id == rater).with_for_update()).one()
            if row.state not in {"consented", "finished"}:
                raise StoreError(f"rater {rater} is {row.state}; expected consent before an answer")
            this = (assignments.c.rater == rater) & (assignments.c.position == position)
            number = connection.execute(select(assignments.c.id).where(this)).scalar()
            if number is None:
                raise StoreError(f"rater {rater} has no assignment {position}")
            has_one = select(study_answers.c.assignment).where(study_answers.c.assignment == number)
            if connection.execute(has_one).first() is not None:
                return False
            made = {"assignment": number, "answers": json.dumps(dict(answers)), "answered_at": at, "seconds": seconds}
            _insert(connection, study_answers, made)
            counts = _rater(connection, rater)
            if counts.n_answered == counts.n_assignments:
                change_row(connection, study_raters, row, state="finished")
            return True

    def assignments(self, name: str, rater: int | None = None) -> list[AssignmentRow]:
        """Return a study's assignments by rater and position, of one rater or all. Raises: UnknownName."""
        self.plan(name)
        joined = assignments.join(study_raters, study_raters.c.id == assignments.c.rater).join(
            studies, studies.c.id == study_raters.c.study
        )
        mine = [studies.c.name == name, *([] if rater is None else [study_raters.c.id == rater])]
        chosen = select(assignments, study_raters.c.name).select_from(joined).where(*mine)
        answered = joined.join(study_answers, study_answers.c.assignment == assignments.c.id)
        with self._database.reading() as connection:
            found = connection.execute(chosen.order_by(assignments.c.rater, assignments.c.position))
            rows = as_saved(assignments, found)
            found = connection.execute(select(study_answers).select_from(answered).where(*mine))
            given = {row.assignment: row for row in as_saved(study_answers, found)}
        return [
            AssignmentRow(
                row.id, row.name, row.position, row.prompt, row.model_a, row.model_b, row.expected,
                *((None, None, None) if (own := given.get(row.id)) is None
                  else (json.loads(own.answers), own.answered_at, own.seconds)),
            )
            for row in rows
        ]  # fmt: skip

    def demographics(self, name: str) -> list[dict[str, object]]:
        """Return the raters' answers about themselves, sorted by content, so that the order identifies nobody."""
        of_study = (
            select(study_demographics.c.content)
            .join(study_raters, study_raters.c.id == study_demographics.c.rater)
            .join(studies, studies.c.id == study_raters.c.study)
            .where(studies.c.name == name)
        )
        with self._database.reading() as connection:
            contents = [unpack_json(content) for content in connection.execute(of_study).scalars()]
        return sorted(contents, key=str)

    def erase(self, name: str, rater: str) -> int:
        """Erase all of a rater's data; return the number of answers erased.

        Raises: UnknownName for a study or rater.
        """
        with self._database.writing(durable=True) as connection:
            joined = select(study_raters).join(studies, studies.c.id == study_raters.c.study)
            known = connection.execute(joined.where(studies.c.name == name)).all()
            row = next((candidate for candidate in known if candidate.name == rater), None)
            if row is None:
                raise UnknownName(f"rater of the study {name}", rater, [candidate.name for candidate in known][:5])
            own = select(assignments.c.id).where(assignments.c.rater == row.id)
            n = connection.execute(delete(study_answers).where(study_answers.c.assignment.in_(own))).rowcount
            connection.execute(delete(assignments).where(assignments.c.rater == row.id))
            connection.execute(delete(study_demographics).where(study_demographics.c.rater == row.id))
            gone = {"state": "erased", "name": f"erased {row.id}", "consented_at": None}
            change_row(connection, study_raters, row, **gone)
            return n


def _insert(connection: Connection, table: Table, row: dict[str, object]) -> None:
    connection.execute(insert(table), with_checksum(table, row))


def _rater(connection: Connection, number: int) -> RaterRow:
    joined = select(study_raters, studies.c.name.label("of")).join(studies, studies.c.id == study_raters.c.study)
    row = connection.execute(joined.where(study_raters.c.id == number)).one()
    of_rater = select(assignments.c.id, study_answers.c.assignment).outerjoin(
        study_answers, study_answers.c.assignment == assignments.c.id
    )
    rows = connection.execute(of_rater.where(assignments.c.rater == number)).all()
    return RaterRow(
        number, row.of, row.name, row.state, len(rows), sum(assignment.assignment is not None for assignment in rows)
    )
