"""The conversations of live battles, stored as hidden runs: one run for each side, one request for each turn.

Only a store that was opened with a reason shows them (`Store.open`), and each can be removed alone, so that a voter's
texts can be erased.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import BattleRow
from assaymark.errors import StoreError
from assaymark.models.plain_prompts import STOP, transcript
from assaymark.records import GenerateQuery, GenerationSettings, Message, Output, Request, TextPart
from assaymark.records.plans import ModelIdentity, RunPlan, TaskPlan
from assaymark.store import Store
from assaymark.store.packing import text_digest

TASK = "arena_battle"


@dataclass(frozen=True, slots=True)
class Turn:
    """A question with both answers."""

    question: str
    answer_a: str
    answer_b: str

    def answer(self, side: int) -> str:
        """Return the answer of side 0 (A) or 1 (B)."""
        return self.answer_b if side else self.answer_a


def messages_of(turns: Sequence[Turn], side: int, question: str | None = None) -> list[dict[str, str]]:
    """Return the conversation of one side as role and content, optionally with a question that is not answered."""
    messages = []
    for turn in turns:
        messages += [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.answer(side)}]
    return [*messages, {"role": "user", "content": question}] if question is not None else messages


def conversation_plan(model: str, token: str, side: int) -> RunPlan:
    """Return the plan of one side of a battle; model, token and side alone decide its key."""
    identity = ModelIdentity(
        model, "endpoint", None, None, None, dtype="unknown", numerics="unknown", options=(("name", model),)
    )
    version = sha256(f"{token}\x1f{side}".encode()).hexdigest()
    task = TaskPlan(TASK, "1", version, version, num_fewshot=0, n_samples=1)
    return RunPlan(identity, "arena", (task,), apply_chat_template=True)


def store_conversation(
    store: Store,
    token: str,
    models: tuple[str, str],
    turns: Sequence[Turn],
    settings: GenerationSettings,
    base_models: frozenset[str] = frozenset(),
) -> None:
    """Store both sides of a battle as hidden runs; storing them again changes nothing.

    A request has the messages that were sent; of base models the plain transcript.

    Raises: StoreError if `store` was not opened with `hidden_for`, or cannot be written.
    """
    for side, model in enumerate(models):
        opened = store.open_run(conversation_plan(model, token, side), facts={}, command="arena serve", hidden=True)
        if opened.is_complete:
            continue
        is_base = model in base_models
        requests = [_request(turns, side, number, settings, is_base=is_base) for number in range(len(turns))]
        outputs = [Output(request.id, 0, text=turn.answer(side)) for request, turn in zip(requests, turns, strict=True)]
        try:
            store.add_requests(opened.run_id, requests)
            store.add(opened.run_id, opened.attempt_id, outputs)
            store.close_run(opened.run_id, opened.attempt_id, "finished")
        except StoreError:
            store.abandon_run(opened.run_id)
            raise


def _request(turns: Sequence[Turn], side: int, number: int, settings: GenerationSettings, *, is_base: bool) -> Request:
    question = turns[number].question
    said = messages_of(turns[:number], side, question)
    messages = tuple(
        Message("assistant" if message["role"] == "assistant" else "user", (TextPart(message["content"]),))
        for message in said
    )
    digest = text_digest(question).hex()
    if is_base:
        plain = replace(settings, stop=(*settings.stop, *STOP))
        return Request(TASK, 0, digest, (transcript(said),), (GenerateQuery(0, plain),), turn=number)
    return Request(TASK, 0, digest, (), (GenerateQuery(0, settings),), messages, turn=number)


def stored_turns(store: Store, battle: BattleRow) -> tuple[Turn, ...] | None:
    """Return the turns of a battle with a vote, in the order in which they were asked; None once they are erased.

    Raises: StoreError if `store` was not opened with `hidden_for`.
    """
    if battle.prompt is None:
        return None
    sides: list[list[str]] = []
    digests: list[str] = []
    for side, model in enumerate((battle.model_a, battle.model_b)):
        run = store.complete_run(conversation_plan(model, battle.token, side))
        if run is None:
            return None
        records = sorted(store.samples(run, TASK), key=lambda record: record.request.turn)
        sides.append([record.outputs[0].text or "" for record in records])
        digests = [record.request.sample_sha256 for record in records]
    questions = _questions(battle.prompt, digests)
    if questions is None or len({len(questions), *map(len, sides)}) != 1:
        return None
    return tuple(Turn(*parts) for parts in zip(questions, *sides, strict=True))


def joined(texts: Sequence[str]) -> str:
    """Return the texts of several turns as one, each with its number."""
    return texts[0] if len(texts) == 1 else "\n\n".join(f"[{n}] {text}" for n, text in enumerate(texts, start=1))


def _questions(text: str, digests: Sequence[str]) -> list[str] | None:
    """Return the questions of a joined text; a question that contains a mark of `joined` is told by its digest."""
    if len(digests) == 1:
        return [text]
    questions: list[str] = []
    at = len("[1] ")
    for number, digest in enumerate(digests, start=1):
        mark = f"\n\n[{number + 1}] "
        end = at
        while True:
            end = text.find(mark, end) if number < len(digests) else len(text)
            if end < 0:
                return None
            if text_digest(text[at:end]).hex() == digest:
                break
            if number == len(digests):
                return None
            end += 1
        questions.append(text[at:end])
        at = end + len(mark)
    return questions


def erase_battle(store: Store, token: str) -> int:
    """Erase all texts of a battle, those of its conversation too; return the number of texts and runs erased.

    Raises: UnknownName for a battle that does not exist; StoreError if `store` was not opened with `hidden_for`.
    """
    battle = ArenaLog(store).battle(token)
    n_erased = ArenaLog(store).erase_texts(token)
    if battle is None:
        return n_erased
    keys = {conversation_plan(model, token, side).key for side, model in enumerate((battle.model_a, battle.model_b))}
    for run in store.runs():
        if run.plan.key in keys:
            store.remove(run.run_id)
            n_erased += 1
    return n_erased
