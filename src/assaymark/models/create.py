"""Create a model from the name of its kind and its arguments: used by the command line, the API and the queue."""

import re
from collections.abc import Callable, Mapping
from functools import partial

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import local_arguments, parse_arguments
from assaymark.models.checkpoint.identity import arguments_of_name
from assaymark.models.model import Model
from assaymark.models.server.arguments import KINDS, openai_arguments
from assaymark.records import JsonValue, ModelIdentity
from assaymark.registry import Registry, nearest

Factory = Callable[[Mapping[str, object]], Model]

_COUNT = re.compile(r"[1-9]\d*")
_BATCH_SIZE = re.compile(r"[1-9]\d*|auto(:\d*\.?\d+)?")  # as lm-eval reads it: auto:N measures N times

MODELS: Registry[Factory] = Registry("models", "model")

# Kinds that only lm-evaluation-harness has, and what to use here instead.
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys((
        "vllm-vlm", "sglang", "sglang-generate", "openvino", "ipex", "habana", "neuronx", "onnxruntime",
        "onnxruntime-genai", "winml", "nemo", "nemo_lm", "megatron_lm", "trtllm", "mamba_ssm", "steered",
        "hf-mistral3", "hf-audiolm-qwen",
    ), "run it with lm-eval itself, assaymark lm-eval --model {name} ..., and import its results; or run the same "
       "weights with --model hf --model_args pretrained=<folder or Hub id>"),
    **dict.fromkeys((
        "azure-openai-chat-completions", "sglang-generate-api", "anthropic", "anthropic-completions",
        "anthropic-chat", "anthropic-chat-completions", "litellm", "litellm-chat", "litellm-chat-completions",
        "textsynth", "watsonx_llm",
    ), "name its OpenAI-compatible interface: --model local-chat-completions --model_args model=...,base_url=..."),
}  # fmt: skip


def create_model(
    name: str,
    model_args: str | Mapping[str, object] | None = None,
    *,
    declared: Mapping[str, Factory] | None = None,
    **overrides: object,
) -> Model:
    """Return a model; no heavy library is imported and no weights are loaded before it is used.

    `overrides` apply where the arguments leave a value unset (a profile's BOS rule, --device). `declared` are further
    kinds, which cannot replace those that are registered.

    Raises: UnknownName with the nearest names; UsageError for invalid arguments.
    """
    arguments = parse_arguments(model_args)
    for key, value in overrides.items():
        if value is not None and arguments.get(key) is None:
            arguments[key] = value
    check_batch_sizes(arguments)
    factory = MODELS.load(name) if name in MODELS else (declared or {}).get(name)
    if factory is None:
        raise _unknown(name)
    return factory(arguments)


def check_batch_sizes(arguments: Mapping[str, object]) -> None:
    """Raise UsageError for a batch size that lm-eval would refuse; valid ones have no effect here."""
    for name in ("batch_size", "max_batch_size"):
        value = arguments.get(name)
        forms = _BATCH_SIZE if name == "batch_size" else _COUNT
        if value is not None and not forms.fullmatch(str(value)):
            expected = "a number from 1, auto, or auto:N" if name == "batch_size" else "a number from 1"
            raise UsageError(f"{name} is {value!r:.40}; expected {expected} (without effect: batches follow memory)")


def _unknown(name: str) -> UnknownName:
    """Return the error for an unknown kind of model, with the arguments to use instead."""
    here = ", ".join(MODELS.names())
    if name in ELSEWHERE:
        remedy = ELSEWHERE[name].format(name=name)
        return UnknownName("model", name, (), f"it is lm-eval's; {remedy} (kinds here: {here})")
    if "/" in name or name.startswith("."):
        remedy = f"pass a model's folder or Hub id in the arguments: --model hf --model_args pretrained={name}"
    else:
        remedy = f"kinds of model: {here}; for a model from the Hub: --model hf --model_args pretrained={name}"
    return UnknownName("model", name, nearest(name, [*MODELS, *ELSEWHERE]), remedy)


def _instead_of_gguf(server: str) -> str:
    """Return the arguments to use instead for a llama.cpp server."""
    url = server.rstrip("/")
    url = url if url.endswith("/completions") else f"{url.removesuffix('/v1')}/v1/completions"
    return (
        "the server of llama.cpp implements OpenAI's API: --model local-completions --model_args "
        f"model=gguf,base_url={url},tokenizer=FOLDER (the model's own tokenizer)"
    )


def arguments_of(identity: ModelIdentity) -> dict[str, JsonValue]:
    """Return the arguments that create this model again."""
    arguments = dict(identity.options)
    if identity.kind == "fake":
        return arguments
    if identity.kind == "gguf":
        return arguments | {"pretrained": identity.name, "max_length": identity.max_length}
    if identity.kind in KINDS:
        return arguments | {"max_length": identity.max_length}
    arguments |= {"numerics": identity.numerics, **arguments_of_name(identity.name), "dtype": identity.dtype}
    arguments |= {"max_length": identity.max_length}
    return arguments | ({"revision": identity.revision} if identity.revision else {})


def local(arguments: Mapping[str, object]) -> Model:
    """Return a local model, run by one process or several (`workers`), here or on a Ray cluster (`cluster`).

    Raises: UsageError.
    """
    values = dict(arguments)
    n_workers = values.pop("workers", None) or 1
    cluster = values.pop("cluster", None)
    from assaymark.models.local.local_model import LocalModel

    if values.get("pretrained") is not None and not isinstance(values["pretrained"], str):
        tokenizer = values.pop("tokenizer", None)
        return LocalModel.from_loaded(values.pop("pretrained"), tokenizer, workers=n_workers, cluster=cluster, **values)
    if not isinstance(n_workers, int) or n_workers < 1:
        raise UsageError(f"workers={n_workers!r}; expected a whole number from 1")
    return LocalModel(local_arguments(values), n_workers=n_workers, cluster=None if cluster is None else str(cluster))


def image_text(arguments: Mapping[str, object]) -> Model:
    """Return a local model of images and text.

    Raises: UsageError.
    """
    from assaymark.models.multimodal.image_text_model import ImageTextModel, image_text_arguments

    return ImageTextModel(image_text_arguments(arguments))


def vllm(arguments: Mapping[str, object]) -> Model:
    """Return a model run by vLLM.

    Raises: UsageError.
    """
    from assaymark.models.vllm.arguments import vllm_arguments
    from assaymark.models.vllm.vllm_model import VllmModel

    return VllmModel(vllm_arguments(arguments))


def gguf(arguments: Mapping[str, object]) -> Model:
    """Return a model in a GGUF file, run by llama.cpp.

    Raises: UsageError; UnknownName, with what to use instead, for lm-eval's arguments of a server of llama.cpp;
        ModelUnavailable if the file does not exist.
    """
    from assaymark.models.gguf.arguments import gguf_arguments
    from assaymark.models.gguf.gguf_model import GgufModel

    if arguments.get("base_url") is not None:
        raise UnknownName("argument of gguf", "base_url", (), _instead_of_gguf(str(arguments["base_url"])))
    return GgufModel(gguf_arguments(arguments))


def behind_server(kind: str, arguments: Mapping[str, object]) -> Model:
    """Return a model behind an OpenAI-compatible server.

    Raises: UsageError.
    """
    from assaymark.models.server.openai_compatible import OpenAIModel

    return OpenAIModel(openai_arguments(kind, arguments))


local_completions = partial(behind_server, "local-completions")
local_chat_completions = partial(behind_server, "local-chat-completions")
openai_completions = partial(behind_server, "openai-completions")
openai_chat_completions = partial(behind_server, "openai-chat-completions")


def fake(arguments: Mapping[str, object]) -> Model:
    """Return the fake model.

    Raises: UsageError.
    """
    from assaymark.models.fake import FakeModel, fake_arguments

    return FakeModel(fake_arguments(arguments))
