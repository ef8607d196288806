"""A worker on a machine of a cluster: it finds the model there, and does what a worker of one machine does.

Ray runs it as an actor. The driver tells it orders and fetches what it has said; both calls return at once or within a
moment, while the work goes on in a thread.
"""

import threading
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from evalstone.engine.options import EngineSettings
from evalstone.errors import EvalstoneError, ModelUnavailable
from evalstone.models.checkpoint.arguments import LocalArguments
from evalstone.models.checkpoint.identity import find_folders, identify
from evalstone.models.text.tokenizer import TokenizerSource
from evalstone.models.workers.process import serve_orders
from evalstone.settings import VERSION

__all__ = ["ClusterWorker", "PlacedModel"]

HEAR_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """The model that every machine must hold: as it was asked for, and its content as the driver sees it."""

    arguments: LocalArguments
    content_hash: str | None
    settings: EngineSettings
    tokenizer: TokenizerSource
    version: str = VERSION

    @classmethod
    def of(
        cls, arguments: LocalArguments, content_hash: str | None, settings: EngineSettings, tokenizer: TokenizerSource
    ) -> "PlacedModel":
        """Return it with its folders as full paths, since another machine has another working directory."""
        names = {name: getattr(arguments, name) for name in ("pretrained", "tokenizer", "peft")}
        paths = {name: Path(value).expanduser() for name, value in names.items() if value is not None}
        full: dict[str, Any] = {name: str(path.absolute()) for name, path in paths.items() if path.is_dir()}
        return cls(replace(arguments, **full), content_hash, settings, tokenizer)

    def order(self) -> tuple[Any, ...]:
        """Return what tells a worker to load the model from where it lies on this machine.

        Raises: ModelUnavailable if it is not here, or is another.
        """
        if self.version != VERSION:
            raise ModelUnavailable(f"Evalstone {VERSION} is installed here, and the driver is {self.version}")
        try:
            folders = find_folders(self.arguments)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"{error}; on a cluster it must lie at the same path on every machine") from error
        found = identify(self.arguments, folders).content_hash
        if found != self.content_hash:
            raise ModelUnavailable(
                f"{folders.model} holds another model than the driver's: its content is {found}, expected "
                f"{self.content_hash}; copy the driver's files here"
            )
        settings = replace(self.settings, peft=str(folders.adapter) if folders.adapter else None)
        return "load", str(folders.model), settings, replace(self.tokenizer, folder=folders.tokenizer), 0


class ClusterWorker:
    """The actor: loads the model when it is made, then answers the orders it is told."""

    def __init__(self, model: PlacedModel) -> None:
        self._own, other = Pipe()
        threading.Thread(target=self._work, args=(other, model), name="worker", daemon=True).start()

    def _work(self, connection: Connection, model: PlacedModel) -> None:
        with connection:
            try:
                self._own.send(model.order())
            except EvalstoneError as error:
                connection.send(("failed", str(error)))
            serve_orders(connection)

    def tell(self, order: tuple[Any, ...]) -> None:
        """Hand on an order."""
        self._own.send(order)

    def hear(self) -> list[tuple[Any, ...]]:
        """Return what has been said since the last call; wait a moment for it.

        Raises: EOFError if nobody is at work any more.
        """
        said = []
        if self._own.poll(HEAR_SECONDS):
            said.append(self._own.recv())
            while self._own.poll():
                said.append(self._own.recv())
        return said
