"""Votes of the log in the format of published votes, which `assaymark arena rate` reads."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from assaymark.store.arena_rows import VoteRow

__all__ = ["WINNERS", "published_row", "record_of"]

WINNERS = {"a": "model_a", "b": "model_b", "tie": "tie", "both_bad": "tie (bothbad)"}


def published_row(
    vote: VoteRow, texts: Mapping[str, str] | None = None, groups: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a vote as a row with model_a, model_b, winner, judge and what the chain covers.

    Args:
        vote: of the log.
        groups: the first of its near-duplicates by prompt id; with them, prompt_group is in the row.
        texts: by commitment; with them, prompt, response_a and response_b are in the row where they are not erased.
    """
    row = {
        "model_a": vote.model_a, "model_b": vote.model_b, "winner": WINNERS[vote.choice], "judge": vote.voter,
        "anony": vote.mode == "anonymous", "tstamp": vote.cast_at,
    } | asdict(vote)  # fmt: skip
    if groups is not None:
        row["prompt_group"] = groups.get(vote.prompt_id, vote.prompt_id)
    if texts is not None:
        row["prompt"] = texts.get(vote.prompt_commitment)
        row["response_a"] = texts.get(vote.answer_a_commitment)
        row["response_b"] = texts.get(vote.answer_b_commitment)
    return row


def record_of(row: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return what the chain covers, from an exported row, with the hash as bytes."""
    return {name: row[name] for name in fields} | {"hash": bytes.fromhex(str(row["hash"]))}
