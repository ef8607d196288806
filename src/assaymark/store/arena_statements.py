"""The arena's statements, made once: building a join of six tables takes longer than executing it."""

from typing import Any

from sqlalchemy import Select, bindparam, case, func, insert, select, update

from assaymark.store.arena_schema import (
    ARENA_TABLES,
    arena_models,
    arena_texts,
    battles,
    rating_batches,
    vote_head,
    votes,
)

AT_ONCE = 2000  # votes read in one transaction
BATTLE_FACTS = ("token", "opened_at", "voter", "origin", "mode", "source", "prompt_id", "category")
TEXTS = ("prompt", "answer_a", "answer_b")
INSERTS = {table: insert(table) for table in ARENA_TABLES}

_models = {side: arena_models.alias(side) for side in ("model_a", "model_b")}
_texts = {name: arena_texts.alias(name) for name in TEXTS}


def _joined() -> Any:
    found: Any = battles
    for side, model in _models.items():
        found = found.join(model, model.c.id == battles.c[side])
    for name, text in _texts.items():
        found = found.join(text, text.c.id == battles.c[name])
    return found


def _facts() -> list[Any]:
    columns = [battles.c[name] for name in (*BATTLE_FACTS, "is_swapped") if name != "token"]
    names = [model.c.name.label(side) for side, model in _models.items()]
    return [*columns, *names, *(text.c.commitment.label(f"{name}_commitment") for name, text in _texts.items())]


def _votes() -> Select[Any]:
    own = (column for column in votes.c if column.name not in {"battle", "checksum", "idempotency_key"})
    joined = _joined().join(votes, votes.c.battle == battles.c.id)
    return select(battles.c.token.label("battle"), *_facts(), *own).select_from(joined)


def _with_texts(joined: Any) -> Select[Any]:
    columns = [battles.c[name] for name in ("id", *BATTLE_FACTS, "is_swapped")]
    names = [model.c.name.label(side) for side, model in _models.items()]
    contents = [text.c.content.label(name) for name, text in _texts.items()]
    return select(*columns, *names, *contents).select_from(joined)


MODEL_NUMBER = select(arena_models.c.id).where(arena_models.c.name == bindparam("name"))
TEXT_NUMBER = select(arena_texts.c.id).where(arena_texts.c.digest == bindparam("digest"))
BATTLE_NUMBER = select(battles.c.id).where(battles.c.token == bindparam("token"))
BATTLE_BY_TOKEN = _with_texts(_joined()).where(battles.c.token == bindparam("token"))
OPEN_BATTLE = (
    _with_texts(_joined().outerjoin(votes, votes.c.battle == battles.c.id))
    .where(
        votes.c.sequence.is_(None),
        battles.c.voter == bindparam("voter"),
        battles.c.mode == "anonymous",
        battles.c.opened_at > bindparam("after"),
    )
    .order_by(battles.c.opened_at.desc(), battles.c.id.desc())
    .limit(1)
)
FACTS_OF_BATTLE = select(*_facts()).select_from(_joined()).where(battles.c.id == bindparam("battle"))
VOTE_BY_KEY = _votes().where(votes.c.idempotency_key == bindparam("key"))
VOTE_OF_BATTLE = _votes().where(votes.c.battle == bindparam("battle"))
VOTE_OF_TOKEN = _votes().where(battles.c.token == bindparam("token"))
VOTES_BETWEEN = (
    _votes()
    .where(votes.c.sequence > bindparam("after"), votes.c.sequence <= bindparam("until"))
    .order_by(votes.c.sequence)
    .limit(AT_ONCE)
)
_voted = battles.join(votes, votes.c.battle == battles.c.id)
ACTIVITY_OF_VOTER = (
    select(func.sum(case((votes.c.cast_at > bindparam("since"), 1), else_=0)), func.max(votes.c.cast_at))
    .select_from(_voted)
    .where(battles.c.voter == bindparam("voter"), battles.c.opened_at > bindparam("since"))
)
VOTES_OF_ORIGIN = (
    select(func.count(), func.max(votes.c.cast_at))
    .select_from(_voted)
    .where(battles.c.origin == bindparam("origin"), battles.c.opened_at > bindparam("since"))
)
BATTLES_OF_ORIGIN = select(func.count()).where(
    battles.c.origin == bindparam("origin"), battles.c.opened_at > bindparam("since")
)
HEAD = select(vote_head).where(vote_head.c.id == 1)
LOCKED_HEAD = HEAD.with_for_update()
MOVE_HEAD = (
    update(vote_head)
    .where(vote_head.c.id == 1)
    .values(sequence=bindparam("to"), hash=bindparam("over"), checksum=bindparam("sum"))
)
LAST_BATCH = select(rating_batches).order_by(rating_batches.c.sequence.desc()).limit(1)
