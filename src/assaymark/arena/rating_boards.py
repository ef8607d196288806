"""The boards of a store's votes, each computed once for each published batch."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import Batch, VoteRow
from assaymark.arena.export import near_duplicates
from assaymark.arena.languages import languages_of
from assaymark.arena.published import PRELIMINARY, Published, publish_ratings
from assaymark.errors import MissingExtra
from assaymark.store import Store

PATIENCE = 0.25
"""Units: seconds. After them a page shows the board of the batch before, and the new one is computed on."""


@dataclass(frozen=True, slots=True)
class _BoardKind:
    """The votes that a board uses, and its settings."""

    style: bool
    category: str | None
    language: str | None
    acceptable: bool


@dataclass(eq=False)
class Ratings:
    """The boards of a store. Threads that ask for the same one wait for one computation."""

    store: Store
    preliminary: int = PRELIMINARY
    makers: Mapping[str, str] = field(default_factory=dict)  # organisation and licence of models, by name
    patience: float = PATIENCE
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _computing: threading.Lock = field(default_factory=threading.Lock)
    _futures: dict[tuple[Batch | None, _BoardKind], Future[Published]] = field(default_factory=dict)
    _latest: dict[_BoardKind, Published] = field(default_factory=dict)
    _groups: tuple[Batch | None, Mapping[str, str]] | None = None  # batch and near-duplicates of its prompts
    _languages: tuple[Batch | None, Mapping[str, str]] | None = None  # batch and languages of its prompts

    def board(
        self, *, style: bool = False, category: str | None = None, language: str | None = None, acceptable: bool = False
    ) -> Published:
        """Return the board of the last batch, optionally of one category, language, or two acceptable answers.

        If it is not computed after `patience` seconds, the board of an earlier batch is returned if there is one.
        """
        kind = _BoardKind(style, category, language, acceptable)
        future = self._future(ArenaLog(self.store).last_batch(), kind)
        earlier = self._latest.get(kind)
        if earlier is not None and earlier.batch is None:  # it says that there are no votes
            earlier = None
        try:
            made = future.result(None if earlier is None else self.patience)
        except TimeoutError:
            if earlier is None or future.done():
                raise
            made = earlier
        withdrawn = {model.name: model.withdrawn_at for model in ArenaLog(self.store).models()}
        rows = tuple(replace(row, withdrawn_at=withdrawn.get(row.model)) for row in made.models)
        return replace(made, models=rows)

    def _future(self, batch: Batch | None, kind: _BoardKind) -> Future[Published]:
        """Return the board of a batch, which a thread computes if nobody has asked for it before."""
        with self._lock:
            future = self._futures.get((batch, kind))
            if future is None or (future.done() and future.exception() is not None):
                self._futures = {key: value for key, value in self._futures.items() if key[0] == batch}
                future = self._futures[batch, kind] = Future()
                threading.Thread(target=self._run, args=(future, batch, kind), daemon=True).start()
        return future

    def _run(self, future: Future[Published], batch: Batch | None, kind: _BoardKind) -> None:
        try:
            with self._computing:  # one at a time: a second board of the batch uses the groups of the first
                made = replace(self._computed(batch, kind), batch=batch)
        except BaseException as error:  # noqa: BLE001 - raised where the board is wanted
            future.set_exception(error)
            return
        with self._lock:
            if (batch, kind) in self._futures:  # else a later batch, or another store's, is computed already
                self._latest[kind] = made
        future.set_result(made)

    def _computed(self, batch: Batch | None, kind: _BoardKind) -> Published:
        votes: list[VoteRow] = []
        every: Mapping[str, str] = {}
        if batch is not None:
            votes, every = (ArenaLog(self.store).sound_votes(batch.sequence), ArenaLog(self.store).answer_texts())
        if self._groups is None or self._groups[0] != batch:
            self._groups = (batch, near_duplicates(votes, every))
        if self._languages is None or self._languages[0] != self._groups[0]:
            try:
                self._languages = (self._groups[0], languages_of(votes, every))
            except MissingExtra:  # the page works without it, and offers no languages
                self._languages = (self._groups[0], {})
        chosen = [vote for vote in votes if not kind.acceptable or {vote.mark_a, vote.mark_b} == {"acceptable"}]
        made = publish_ratings(
            chosen, ArenaLog(self.store).models(), style=kind.style, category=kind.category,
            language=kind.language, languages=self._languages[1],
            texts=every if kind.style else None, least=self.preliminary, clusters=self._groups[1],
        )  # fmt: skip
        return replace(made, n_skipped=ArenaLog(self.store).n_skipped())
