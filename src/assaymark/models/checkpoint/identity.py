"""Identify a model from its files; neither weights nor torch nor transformers are loaded.

A run that is complete in the store must take no longer than reading a few small files, so everything that identifies a
run (content, dtype, positions, template) is read from configuration files and cached digests.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assaymark.engine.options import FROM_PRETRAINED, ROPE_SETTINGS
from assaymark.errors import MissingExtra, ModelUnavailable, UnknownName, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.adapters import check_adapter
from assaymark.models.checkpoint.arguments import DTYPES, KNOWN, PLACEMENT, LocalArguments
from assaymark.models.checkpoint.config_check import check_config, check_index
from assaymark.models.checkpoint.trainers import FoundCheckpoint, find_checkpoint
from assaymark.records import JsonValue, ModelIdentity, content_hash
from assaymark.registry import nearest
from assaymark.settings import cache_folder, remember

LENGTH_NAMES = ("n_positions", "max_position_embeddings", "n_ctx")  # in lm-eval's order
DEFAULT_MAX_LENGTH = 2048  # lm-eval's default if no file states a length
UNSET_TOKENIZER_LENGTH = int(1e30)  # transformers' value for a tokenizer without a limit
SAFETENSORS_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """The folders of a local model's parts; `tokenizer` may be a file.

    trained: the checkpoint of a trainer, if that is what was named; then `model` is the folder with its weights.
    """

    model: Path
    tokenizer: Path
    adapter: Path | None
    trained: FoundCheckpoint | None = None

    @property
    def config(self) -> Mapping[str, object]:
        """The content of config.json, empty if there is none.

        Raises: ModelUnavailable if the file is not JSON.
        """
        return files.read_json(self.model / "config.json") if self.trained is None else self.trained.checkpoint.config


def find_folders(arguments: LocalArguments) -> ModelFolders:
    """Return the folders of a model, its tokenizer and its adapter.

    Raises: ModelUnavailable.
    """
    hub = _hub(arguments)
    adapter = files.folder_of(arguments.peft, arguments.revision, hub=hub) if arguments.peft else None
    if adapter is not None:
        check_adapter(adapter)
    trained = find_checkpoint(arguments)
    if trained is not None:
        return ModelFolders(Path(trained.checkpoint.weights[0]).parent, trained.tokenizer, adapter, trained)
    model = files.folder_of(arguments.pretrained, arguments.revision, subfolder=arguments.subfolder, hub=hub)
    if (model / "adapter_config.json").is_file():  # transformers would load whatever base that names, from anywhere
        base = files.read_json(model / "adapter_config.json").get("base_model_name_or_path")
        raise ModelUnavailable(
            f"{model} has an adapter, and what it was trained from is elsewhere ({str(base)[:200]!r}); name both: "
            f"pretrained=BASE,peft={arguments.pretrained}"
        )
    tokenizer = model
    if arguments.tokenizer is not None:
        tokenizer = files.tokenizer_place(arguments.tokenizer, arguments.revision, hub)
    return ModelFolders(model, tokenizer, adapter)


def _hub(arguments: LocalArguments) -> files.HubOptions:
    return files.HubOptions(arguments.token, arguments.cache_dir, arguments.local_files_only)


def name_with_adapter(model: str, adapter: str | None) -> str:
    """Return the name of a model, followed by a plus sign and its adapter; `arguments_of_name` splits it again."""
    return f"{model}+{adapter}" if adapter else model


def _named(place: str) -> str:
    """Return a model's name: as it was given, and the whole path of a folder that was given as `.`, `..` or so."""
    return str(Path(place).resolve()) if set(Path(place).parts) <= {"..", "."} and Path(place).is_dir() else place


def arguments_of_name(name: str) -> dict[str, str]:
    """Return the model arguments `pretrained` and, for a run with an adapter, `peft` from a model's name.

    A plus sign in the name of an existing folder is not a separator.
    """
    if not Path(name).exists():
        for at in (at for at, character in enumerate(name) if character == "+"):
            model, adapter = name[:at], name[at + 1 :]
            if model and adapter and ("+" not in adapter or Path(model).exists()):
                return {"pretrained": model, "peft": adapter}
    return {"pretrained": name}


def _tokenizer_length(folder: Path) -> int | None:
    value = files.read_json(folder / "tokenizer_config.json").get("model_max_length")
    if not isinstance(value, int | float) or not 1 <= value < UNSET_TOKENIZER_LENGTH:  # excludes infinity and NaN
        return None
    return int(value)


def resolve_max_length(folders: ModelFolders, arguments: LocalArguments) -> int:
    """Return the maximum number of positions of a prompt, by lm-eval's rule.

    Source: lm-evaluation-harness 0.4.13, models/utils.py resolve_max_length: the argument, else the first of
        n_positions, max_position_embeddings, n_ctx in text_config or config, else the tokenizer's, else 2048.
    """
    if arguments.max_length is not None:
        return arguments.max_length
    config = folders.config
    nested = config.get("text_config")
    values = {**(nested if isinstance(nested, dict) and nested else config), **arguments.model_kwargs}
    for name in LENGTH_NAMES:
        value = values.get(name)
        if isinstance(value, int):
            if value < 1:
                raise ModelUnavailable(
                    f"{folders.model / 'config.json'}: {name} is {value}; expected a "
                    "number of positions, 1 or more: set it with max_length="
                )
            return value
    # The file has no length: the class may have a default, or use another name for it (RWKV's context_length), so
    # transformers is queried once and the result is cached.
    if config and folders.trained is None:
        length = _length_of_class(folders.model, arguments)
        if length is not None:
            return length
    return _tokenizer_length(folders.tokenizer) or DEFAULT_MAX_LENGTH


def _length_of_class(folder: Path, arguments: LocalArguments) -> int | None:
    """Return the positions in the configuration's class, cached by content and library version."""
    try:
        library = version("transformers")
    except PackageNotFoundError:
        raise MissingExtra("a local model", "hf") from None
    remembered = cache_folder() / "config_lengths.json"
    digests = files.FileDigests()
    own = {name: digests.of(path) for name, path in _code(arguments, "model", folder).items()}  # may be of such a class
    key = "|".join(filter(None, (digests.of(folder / "config.json"), library, files.combined_digest(own))))
    try:
        known = dict(json.loads(remembered.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        known = {}  # no cache yet, or a damaged one
    if not isinstance(known.get(key, ""), int | None):
        known[key] = _length_by_transformers(folder, arguments.trust_remote_code)
        remember(remembered, json.dumps(known))
    length: int | None = known[key]
    return length


def _length_by_transformers(folder: Path, trust_remote_code: bool) -> int | None:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=trust_remote_code)
    except Exception as error:  # any error of the class means that the model cannot be loaded
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnavailable(f"{folder / 'config.json'} is not accepted by transformers: {first}") from error
    return length_of_config(config)


def length_of_config(config: object) -> int | None:
    """Return the positions in a loaded configuration, None if it has none."""
    chosen = getattr(config, "text_config", None) or config
    for name in LENGTH_NAMES:
        value = getattr(chosen, name, None)
        if value is not None:
            return int(value)
    return None


def resolve_dtype(folders: ModelFolders, arguments: LocalArguments) -> str:
    """Return the dtype of the loaded weights: the argument, else the configuration's, else the stored one."""
    if arguments.dtype != "auto":
        return arguments.dtype
    config = folders.config
    nested = config.get("text_config")
    for values in (config, nested if isinstance(nested, dict) else {}):
        for name in ("dtype", "torch_dtype"):
            value = str(values.get(name) or "").removeprefix("torch.")
            if value in DTYPES and value != "auto":
                return DTYPES[value]
    return _stored_dtype(folders.model, arguments) or "float32"


def _stored_dtype(folder: Path, arguments: LocalArguments) -> str | None:
    """Return the dtype of the first floating tensor, from a safetensors file's header."""
    for path in _weights(arguments, folder):
        if path.suffix == ".safetensors":
            for entry in files.safetensors_header(path).values():
                if entry.get("dtype") in SAFETENSORS_DTYPES:
                    return SAFETENSORS_DTYPES[entry["dtype"]]
    return None


def count_parameters(folder: Path) -> int | None:
    """Return the number of stored parameters, from safetensors headers; None if there are none."""
    total = 0
    for path in files.matching(folder, ("*.safetensors",)):
        for entry in files.safetensors_header(path).values():
            size = 1
            for extent in entry.get("shape", ()):
                size *= int(extent)
            total += size
    return total or None


def template_text(folder: Path) -> str | None:
    """Return a text with all chat templates of the tokenizer, which decide how chats are rendered, or None."""
    parts = {p.name: p.read_text(encoding="utf-8") for p in files.matching(folder, files.TEMPLATE)}
    configured = files.read_json(folder / "tokenizer_config.json").get("chat_template")
    if configured:
        parts["tokenizer_config"] = json.dumps(configured, sort_keys=True)
    return json.dumps(parts, sort_keys=True) if parts else None


def _revision_of(folder: Path) -> str | None:
    """Return the commit of a Hub snapshot; a plain folder has none, whatever revision was requested."""
    parts = folder.parts
    at = parts.index("snapshots") + 1 if "snapshots" in parts else len(parts)
    return parts[at] if at < len(parts) and re.fullmatch(r"[0-9a-f]{40}", parts[at]) else None


def _model_files(arguments: LocalArguments, folders: ModelFolders) -> list[Path]:
    """Return the files whose content makes a model what it is: configuration, weights, and code where it may run.

    Raises: ModelUnavailable if there are no weights, or the configuration does not fit them.
    """
    if folders.trained is not None:
        return list(folders.trained.identifying)
    weights = _weights(arguments, folders.model)
    if not weights:
        of_llama = min(folders.model.glob("*.gguf"), default=None)
        other = "" if of_llama is None else f"; run {of_llama.name} by --model gguf --model_args pretrained={of_llama}"
        raise ModelUnavailable(f"no weights in {folders.model}; expected *.safetensors or pytorch_model*.bin, or a "
                               f"trainer's checkpoint{other}")  # fmt: skip
    if arguments.gguf_file is None:
        check_index(folders.model, weights)
        check_config(folders.model, weights)
    return [*files.matching(folders.model, files.CONFIGURATION), *weights]


def _weights(arguments: LocalArguments, folder: Path) -> list[Path]:
    """Return the files that weights are loaded from."""
    if arguments.model_kwargs.get("use_safetensors") is False:
        return files.matching(folder, files.PICKLES)
    return files.weight_files(folder, arguments.gguf_file)


def _code(arguments: LocalArguments, part: str, folder: Path) -> dict[str, Path]:
    """Return the files of code that a folder may run, by their names in its part of the model's content.

    A configuration's `auto_map` names classes of the folder, or of another repository: `ORG/NAME--file.Class`.

    Raises: ModelUnavailable for another repository that is not here and cannot be fetched.
    """
    if not arguments.trust_remote_code:
        return {}
    own = {f"{part}/{path.name}": path for path in files.matching(folder, files.CODE)}
    revision = arguments.model_kwargs.get("code_revision")
    for name in files.other_code(folder):
        place = files.folder_of(name, None if revision is None else str(revision), weights=False, hub=_hub(arguments))
        own |= {f"code of {name}/{path.name}": path for path in files.matching(place, files.CODE)}
    return own


def identify(arguments: LocalArguments, folders: ModelFolders, kind: str = "hf") -> ModelIdentity:
    """Return the identity of a local model; weights are hashed again only if the files change.

    Raises: ModelUnavailable if files are missing or unreadable; UnknownName for an argument that transformers does not
        accept.
    """
    check_passed_arguments(arguments, folders.model, None if folders.trained is None else folders.config)
    digests = files.FileDigests()
    tokenizer_files = files.matching(folders.tokenizer, files.TOKENIZER)
    named = {
        "model": _model_files(arguments, folders),
        "tokenizer": [*tokenizer_files, *files.matching(folders.tokenizer, files.TEMPLATE)],
        "adapter": [*files.matching(folders.adapter, files.CONFIGURATION), *files.weight_files(folders.adapter)]
        if folders.adapter
        else [],
    }
    parts = {f"{part}/{path.name}": digests.of(path) for part, paths in named.items() for path in paths}
    code = _code(arguments, "model", folders.model)
    if folders.tokenizer != folders.model:
        code |= _code(arguments, "tokenizer", folders.tokenizer)
    parts |= {name: digests.of(path) for name, path in code.items()}
    if folders.trained is not None:  # its files may be in several folders, and its configuration in none
        parts |= {f"model/{at}/{path.name}": digests.of(path) for at, path in enumerate(named["model"])}
        parts["config"] = content_hash(dict(folders.config))
    tokenizer_parts = {path.name: digests.of(path) for path in tokenizer_files}
    digests.save()
    template = template_text(folders.tokenizer)
    trained = folders.trained
    return ModelIdentity(
        name=name_with_adapter(_named(arguments.pretrained), arguments.peft and _named(arguments.peft)),
        kind=kind,
        content_hash=files.combined_digest(parts),
        tokenizer_hash=files.combined_digest(tokenizer_parts),
        template_hash=files.combined_digest({"template": template}) if template else None,
        dtype=resolve_dtype(folders, arguments),
        numerics=arguments.numerics,
        max_length=resolve_max_length(folders, arguments),
        n_parameters=count_parameters(folders.model) if trained is None else trained.n_parameters,
        revision=_revision_of(folders.model),
        options=tuple(sorted({**dict(arguments.options), **_other_options(arguments, folders)}.items())),
    )


def mapped_files(arguments: LocalArguments, folders: ModelFolders) -> tuple[Path, ...]:
    """Return the files of weights that a processor reads whenever it computes, as those of the stored dtype are mapped.

    A write into such a file changes the weights of a model that is loaded.
    """
    if folders.trained is not None:
        return folders.trained.identifying
    is_cast = _stored_dtype(folders.model, arguments) not in (None, resolve_dtype(folders, arguments))
    is_other = is_cast or arguments.gguf_file is not None  # a copy in memory
    return () if is_other else tuple(_weights(arguments, folders.model))


def refuse_replaced_files(before: ModelIdentity, now: ModelIdentity) -> None:
    """Refuse a model whose files, once it is loaded, are no longer those that it was identified by.

    Raises: ModelUnavailable: its outputs would be stored, and found by other runs, as those of the one before.
    """
    if now.content_hash != before.content_hash:
        raise ModelUnavailable(
            f"the files of {before.name} changed while it was loaded; expected files that stay as they are: once they "
            "are complete, run the same command again, or evaluate a copy of them"
        )


def _other_options(arguments: LocalArguments, folders: ModelFolders) -> dict[str, JsonValue]:
    """Return the options that decide outputs by what the files are.

    These are what leads to other files than the model's folder alone, which are not found again without it, and a
    `backend` other than the configuration's.
    """
    backend, is_seq2seq = arguments.backend, bool(folders.config.get("is_encoder_decoder"))
    is_other = backend != "default" and (backend == "seq2seq") != is_seq2seq
    named = {
        "tokenizer": arguments.tokenizer,
        "subfolder": arguments.subfolder or None,
        "use_safetensors": False if arguments.model_kwargs.get("use_safetensors") is False else None,
        "backend": backend if is_other else None,
    }
    return {name: value for name, value in named.items() if value is not None}


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

    gguf = {"gguf_file": arguments.gguf_file} if arguments.gguf_file else {}
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
    names = {*_setting_names(config), *_setting_names(inner), *signature(PreTrainedModel.from_pretrained).parameters}
    rope = ROPE_SETTINGS if hasattr(inner, "rope_parameters") else ()
    return frozenset(names).union(rope)


def _setting_names(config: object) -> Iterable[str]:
    """Return the names of a configuration's settings, and their old names."""
    return (*(name for name in vars(config) if not name.startswith("_")), *getattr(config, "attribute_map", {}))
