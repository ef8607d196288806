"""Identify a model object that the caller has loaded, by the content of its parameters.

The parameters may have been trained since they were loaded, so the folder's name does not identify the model.
torch is not imported: the objects' own methods suffice.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import KNOWN, LocalArguments, local_arguments
from assaymark.models.checkpoint.identity import DEFAULT_MAX_LENGTH, UNSET_TOKENIZER_LENGTH, length_of_config
from assaymark.records import JsonValue, ModelIdentity, canonical_json, content_hash
from assaymark.registry import nearest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOO_LATE = (
    *("revision", "subfolder", "tokenizer", "peft", "dtype", "device", "trust_remote_code", "model_kwargs"),
    *("token", "cache_dir", "local_files_only"),
)
_HOOKING = frozenset({"accelerate", "bitsandbytes", "deepspeed", "peft", "torch", "transformers", "trl", "wandb"})


def loaded_arguments(model: object, options: Mapping[str, object]) -> LocalArguments:
    """Return the arguments of a loaded model; `pretrained` is its name, by default that of its source.

    Raises: UsageError for an option that only has an effect while loading.
    """
    late = [name for name in TOO_LATE if options.get(name) is not None]
    if late:
        raise UsageError(f"{', '.join(late)} cannot be changed on a model that is already loaded; set it when loading")
    name = options.get("pretrained") or getattr(model, "name_or_path", "") or type(model).__name__
    arguments = local_arguments({**options, "pretrained": name})
    for unknown in arguments.model_kwargs:
        raise UnknownName("option of a loaded model", unknown, nearest(unknown, KNOWN - set(TOO_LATE)))
    return arguments


def parameters_digest(model: "PreTrainedModel") -> str:
    """Return the SHA-256 over every parameter and buffer with its name, and the configuration."""
    whole = hashlib.sha256()
    config = getattr(model, "config", None)
    settings: dict[str, JsonValue] = dict(config.to_dict()) if config is not None else {}
    for name in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
        settings.pop(name, None)
    own = getattr(model, "generation_config", None)
    if own is not None:
        defaults = own.to_dict()
        settings["generation_config"] = {k: v for k, v in defaults.items() if k != "transformers_version"}
    whole.update(canonical_json(settings).encode())
    for name, tensor in sorted(model.state_dict().items()):
        plain = tensor.detach().cpu()
        if plain.is_floating_point() and str(plain.dtype) != "torch.float64":
            plain = plain.float()  # holds every half-precision number exactly
        whole.update(f"{name}\x00{tensor.dtype}\x00{tuple(tensor.shape)}\n".encode())
        whole.update(plain.contiguous().numpy().tobytes())
    return f"sha256:{whole.hexdigest()}"


def _tokenizer_hash(tokenizer: "PreTrainedTokenizerBase") -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        return content_hash([backend.to_str(), tokenizer.bos_token_id, tokenizer.eos_token_id])
    return content_hash([type(tokenizer).__name__, tokenizer.get_vocab(), tokenizer.bos_token_id])


def _hooks(model: "PreTrainedModel") -> tuple[tuple[str, JsonValue], ...]:
    """Return an option that no other model has where hooks of the caller may change what the modules compute.

    What a hook does cannot be read from it, so answers of a model with one are never those of another run. Hooks of
    libraries, as of gradient checkpointing, change no answer.
    """
    hooked = [
        name or "model"
        for name, module in model.named_modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())  # noqa: SLF001 - no reader
        if (getattr(hook, "__module__", None) or "").partition(".")[0] not in _HOOKING
    ]
    return (("hooks", f"{', '.join(dict.fromkeys(hooked))} ({uuid4().hex[:12]})"),) if hooked else ()


def identify_loaded(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", arguments: LocalArguments
) -> ModelIdentity:
    """Return the identity of a loaded model and tokenizer.

    Raises: UsageError if they are not transformers objects.
    """
    if not hasattr(model, "state_dict") or not hasattr(tokenizer, "encode"):
        raise UsageError(
            f"pretrained is of type {type(model).__name__}, and the tokenizer of type {type(tokenizer).__name__}; "
            "expected a model's name or folder, or a transformers model and its tokenizer"
        )
    tokenizer_length = getattr(tokenizer, "model_max_length", None)
    if tokenizer_length is not None and int(tokenizer_length) == UNSET_TOKENIZER_LENGTH:
        tokenizer_length = None
    max_length = arguments.max_length or length_of_config(model.config) or tokenizer_length or DEFAULT_MAX_LENGTH
    template = getattr(tokenizer, "chat_template", None)
    return ModelIdentity(
        name=os.fspath(arguments.pretrained),
        kind="hf",
        content_hash=parameters_digest(model),
        tokenizer_hash=_tokenizer_hash(tokenizer),
        template_hash=content_hash(template) if template else None,
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
        numerics=arguments.numerics,
        max_length=int(max_length),
        n_parameters=sum(int(p.numel()) for p in model.parameters()),
        options=(*arguments.options, *_hooks(model)),
    )
