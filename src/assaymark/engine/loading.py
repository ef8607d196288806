"""Load the engine that fits a model: one for decoder-only models, one for those with an encoder and a decoder."""

from assaymark.engine.engine import Engine
from assaymark.engine.options import EngineSettings
from assaymark.engine.seq2seq import Seq2SeqEngine

__all__ = ["load_engine"]


def load_engine(path_or_model: object, settings: EngineSettings) -> Engine | Seq2SeqEngine:
    """Return the engine of a local folder, a Hub id, a trainer's checkpoint or a loaded transformers model.

    Raises: ModelUnavailable if it cannot be loaded; UsageError for an impossible device.
    """
    kind = Seq2SeqEngine if settings.backend == "seq2seq" else Engine
    return kind.load(path_or_model, settings=settings)
