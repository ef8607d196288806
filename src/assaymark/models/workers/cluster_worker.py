"""A worker on a machine of a cluster: it finds the model there and then works as on a single machine.

Ray runs it as an actor. The driver sends it orders and fetches its messages; both calls return at once or within a
moment, while the work runs in a thread.
"""

import threading
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from assaymark.engine.options import EngineSettings
from assaymark.errors import AssaymarkError, ModelUnavailable
from assaymark.models.checkpoint.arguments import LocalArguments
from assaymark.models.checkpoint.identity import find_folders, identify
from assaymark.models.text.tokenizer import TokenizerSource
from assaymark.models.workers.process import serve_orders
from assaymark.settings import VERSION

__all__ = ["ClusterWorker", "PlacedModel"]

LONG_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """The model that every machine must have: the user's arguments, and its content on the driver's machine."""

    arguments: LocalArguments
    content_hash: str | None
    settings: EngineSettings
    tokenizer: TokenizerSource
    version: str = VERSION

    @classmethod
    def of(
        cls, arguments: LocalArguments, content_hash: str | None, settings: EngineSettings, tokenizer: TokenizerSource
    ) -> "PlacedModel":
        """Return the model with absolute folders, since other machines have other working directories."""
        names = {name: getattr(arguments, name) for name in ("pretrained", "tokenizer", "peft", "base")}
        paths = {name: Path(value).expanduser() for name, value in names.items() if value is not None}
        full: dict[str, Any] = {name: str(path.absolute()) for name, path in paths.items() if path.exists()}
        return cls(replace(arguments, **full), content_hash, settings, tokenizer)

    def order(self) -> tuple[Any, ...]:
        """Return the order to load the model from its folder on this machine.

        Raises: ModelUnavailable if it is missing or differs.
        """
        if self.version != VERSION:
            raise ModelUnavailable(f"Assaymark {VERSION} is installed here, and the driver is {self.version}")
        try:
            folders = find_folders(self.arguments)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"{error}; on a cluster it must be at the same path on every machine") from error
        found = identify(self.arguments, folders).content_hash
        if found != self.content_hash:
            raise ModelUnavailable(
                f"{folders.model} contains another model than on the driver: its content hash is {found}, expected "
                f"{self.content_hash}; copy the driver's files here"
            )
        settings = replace(
            self.settings,
            peft=str(folders.adapter) if folders.adapter else None,
            checkpoint=folders.trained.checkpoint if folders.trained else None,
        )
        return "load", str(folders.model), settings, replace(self.tokenizer, folder=folders.tokenizer), 0


class ClusterWorker:
    """The actor: loads the model when it is created, then executes the orders it receives."""

    def __init__(self, model: PlacedModel) -> None:
        self._own, other = Pipe()
        threading.Thread(target=self._work, args=(other, model), name="worker", daemon=True).start()

    def _work(self, connection: Connection, model: PlacedModel) -> None:
        with connection:
            try:
                self._own.send(model.order())
            except AssaymarkError as error:
                connection.send(("failed", str(error)))
            serve_orders(connection)

    def post(self, order: tuple[Any, ...]) -> None:
        """Pass an order to the working thread."""
        self._own.send(order)

    def poll(self) -> list[tuple[Any, ...]]:
        """Return the messages since the last call; wait a moment for the first.

        Raises: EOFError if the working thread has ended.
        """
        said = []
        if self._own.poll(LONG_POLL_SECONDS):
            said.append(self._own.recv())
            while self._own.poll():
                said.append(self._own.recv())
        return said
