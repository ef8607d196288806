"""Load the engine that fits a model: one for decoder-only models, one for those with an encoder and a decoder."""

from assaymark.engine.engine import Engine
from assaymark.engine.options import EngineSettings
from assaymark.engine.self_check import CheckMemory
from assaymark.engine.seq2seq import Seq2SeqEngine


def load_engine(
    path_or_model: object, settings: EngineSettings, checks: CheckMemory | None = None
) -> Engine | Seq2SeqEngine:
    """Return the engine of a local folder, a Hub id, a trainer's checkpoint or a loaded transformers model.

    checks: remembers passed checks of decoder-only models; the other engine has no second path to check.
    Raises: ModelUnavailable if it cannot be loaded; UsageError for an impossible device.
    """
    if settings.backend == "seq2seq":
        return Seq2SeqEngine.load(path_or_model, settings=settings)
    return Engine.load(path_or_model, settings=settings, checks=checks)
