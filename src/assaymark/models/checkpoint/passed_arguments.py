"""Check arguments that are passed on to transformers: `from_pretrained`'s and settings of the model's configuration.

The settings of a configuration are known once the model's files are there, so this is checked when a model is
identified: before anything is evaluated, and before its weights are read.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from assaymark.engine.options import FROM_PRETRAINED, ROPE_SETTINGS
from assaymark.errors import MissingExtra, ModelUnavailable, UnknownName, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import KNOWN, PLACEMENT, LocalArguments
from assaymark.registry import nearest

__all__ = ["check_passed_arguments"]


def check_passed_arguments(arguments: LocalArguments, folder: Path, config: Mapping[str, object] | None = None) -> None:
    """Check that transformers accepts each argument and does not ignore it.

    `config` is the configuration of a trainer's checkpoint; by default the folder's config.json is read.

    Raises: UnknownName with the nearest names; UsageError if rope_scaling is not an object; ModelUnavailable if the
        configuration cannot be read.
    """
    scaling = arguments.model_kwargs.get("rope_scaling")
    if scaling is not None and not isinstance(scaling, Mapping):
        raise UsageError(
            f"rope_scaling={scaling!r} is not an object; expected e.g. "
            'rope_scaling={"rope_type": "linear", "factor": 2.0}'
        )
    unknown = [name for name in arguments.model_kwargs if name not in FROM_PRETRAINED]
    stored = files.read_json(folder / "config.json") if config is None else dict(config)
    nested = stored.get("text_config")
    in_file = {*stored, *(nested if isinstance(nested, dict) else ())}
    unknown = [name for name in unknown if name not in in_file]
    if not unknown:
        return
    known = _settings_of(folder, arguments, config)
    for name in unknown:
        if name not in known:
            raise UnknownName(
                "model argument",
                name,
                nearest(name, KNOWN | FROM_PRETRAINED | PLACEMENT | known),
                "it is neither an argument of transformers' from_pretrained nor a setting of this model's config.json",
            )


def _settings_of(folder: Path, arguments: LocalArguments, configuration: Mapping[str, object] | None) -> frozenset[str]:
    """Return the names of the configuration's settings, and those of `from_pretrained` that we do not list."""
    try:
        from transformers import AutoConfig, PreTrainedModel
    except ImportError:
        raise MissingExtra("a local model", "hf") from None
    from inspect import signature

    gguf = {"gguf_file": gguf_file} if (gguf_file := arguments.model_kwargs.get("gguf_file")) else {}
    try:
        if configuration is not None:
            values = dict(configuration)
            config = AutoConfig.for_model(str(values.pop("model_type", "")), **values)
        else:
            config = AutoConfig.from_pretrained(str(folder), trust_remote_code=arguments.trust_remote_code, **gguf)
    except Exception as error:  # any error of the class means that the model cannot be loaded
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnavailable(f"{folder / 'config.json'} is not accepted by transformers: {first}") from error
    inner = config.get_text_config()
    names = {*_named(config), *_named(inner), *signature(PreTrainedModel.from_pretrained).parameters}
    rope = ROPE_SETTINGS if hasattr(inner, "rope_parameters") else ()
    return frozenset(names).union(rope)


def _named(config: object) -> Iterable[str]:
    """Return the names of a configuration's settings, and their old names."""
    return (*(name for name in vars(config) if not name.startswith("_")), *getattr(config, "attribute_map", {}))
