"""Load a model from a folder or the Hub onto its device, or use the caller's, and read its configuration.

Other libraries' exceptions are translated here: any problem while loading becomes one clear line with a remedy.
"""

import math
import pickle
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from assaymark.engine.checkpoints.load import config_of, plan_tensors
from assaymark.engine.checkpoints.record import TrainerCheckpoint
from assaymark.engine.limits import LengthLimits, limits_of
from assaymark.engine.options import FROM_PRETRAINED, ROPE_SETTINGS, EngineSettings
from assaymark.errors import MissingExtra, ModelUnavailable, UsageError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedConfig, PreTrainedModel

# The package in a message of transformers, or of Python where a package lacks another one.
_PACKAGE = re.compile(r"pip install (?:-U |--upgrade )?([\w.-]+(?:[<>=]=?[\w.]*\w)?)|No module named '([\w.]+)'")
LIBRARIES = ("torch", "transformers", "peft", "numpy")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to be run.

    outer: the object that a caller would call (perhaps an adapter around the model). inner: the causal LM itself.
    limits: lengths at which it attends differently. vocab_size: rows of the input embedding.
        is_borrowed: whether the caller has loaded it and needs its state restored.
    """

    outer: "PreTrainedModel | PeftModel"
    inner: "PreTrainedModel"
    limits: LengthLimits
    vocab_size: int
    n_parameters: int
    is_borrowed: bool = False


def pick_device(wanted: str) -> torch.device:
    """Return the requested device; "auto" is CUDA if available.

    Raises: UsageError if the device does not exist.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise UsageError(f"device={wanted!r} is unknown; expected auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device={wanted!r}, but torch {torch.__version__} finds no CUDA here; use device=cpu")
    if device.type not in {"cpu", "cuda"}:
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise UsageError(
                f"device={wanted!r}, but torch {torch.__version__} cannot use it here; use device=cpu"
            ) from error
    return device


def load_model(path_or_model: object, settings: EngineSettings) -> LoadedModel:
    """Return the model of a local folder or Hub id, or the given loaded one.

    Raises: ModelUnavailable with a remedy; UsageError for an impossible device; MissingExtra without peft.
    """
    if isinstance(path_or_model, torch.nn.Module):
        outer: PreTrainedModel | PeftModel = path_or_model
    elif settings.checkpoint is not None:
        outer = _placed(_from_checkpoint(settings.checkpoint, settings), settings)
    else:
        outer = _placed(_from_pretrained(str(path_or_model), settings), settings)
    if settings.peft is not None:
        outer = _with_adapter(outer, settings.peft, settings.n_token_ids)
    outer.eval()
    inner = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    return LoadedModel(
        outer,
        inner,
        limits_of(inner, settings.max_length),
        int(inner.get_input_embeddings().weight.shape[0]),
        sum(parameter.numel() for parameter in outer.parameters()),
        is_borrowed=isinstance(path_or_model, torch.nn.Module),
    )


def _placed(model: "PreTrainedModel", settings: EngineSettings) -> "PreTrainedModel":
    """Return the model on its device; where device_map or a quantisation has placed it, it stays there."""
    device = pick_device(settings.device)
    return model if "device_map" in settings.model_kwargs or getattr(model, "is_quantized", False) else model.to(device)


_UNLOADABLE = (
    *(OSError, ValueError, ImportError, KeyError, RuntimeError, AttributeError, TypeError),
    *(EOFError, pickle.UnpicklingError, AssertionError, IndexError, ArithmeticError),
)


def _from_pretrained(name: str, settings: EngineSettings) -> "PreTrainedModel":
    """Return the language model of this folder or Hub id, in the requested dtype, on the CPU."""
    import transformers
    from safetensors import SafetensorError

    kinds = {"seq2seq": "AutoModelForSeq2SeqLM", "image-text": "AutoModelForImageTextToText"}
    kind = getattr(transformers, kinds.get(settings.backend, "AutoModelForCausalLM"))
    dtype = settings.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype)
    source = {"revision": settings.revision or "main", "trust_remote_code": settings.trust_remote_code}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)  # the error says what is wrong
            model, info = kind.from_pretrained(
                name, dtype=dtype, output_loading_info=True, **source, **_loading_arguments(name, settings, source)
            )
    except pickle.UnpicklingError as error:  # torch's own advice is to load it all the same
        refused = next((line for line in str(error).splitlines() if "GLOBAL" in line or "Unsupported" in line), "")
        refused = refused.rpartition("WeightsUnpickler error:")[2].strip()
        raise ModelUnavailable(
            f"model {name!r}: its weights are a pickle that contains more than tensors, and unpickling it would run "
            f"code{': ' if refused else ''}{refused:.160}; save the state dict alone, or as safetensors"
        ) from error
    except (*_UNLOADABLE, SafetensorError) as error:
        text = str(error).strip()
        first = text.splitlines()[0] if text else type(error).__name__
        if isinstance(error, ImportError) and (match := _PACKAGE.search(text)):
            package = match[1] or match[2]
            raise ModelUnavailable(
                f"model {name!r} needs the package {package}, which is not installed: pip install '{package}'"
            ) from error
        raise ModelUnavailable(
            f"model {name!r} cannot be loaded: {first} (expected a folder with config.json and weights, or a Hub id)"
            + _remedy(text, settings)
        ) from error
    if missing := sorted(info["missing_keys"]):
        raise ModelUnavailable(
            f"model {name!r} lacks {len(missing)} of its weights, the first {missing[0]}; they would be initialised at "
            f"random; expected all weights of a {type(model).__name__}"
        )
    return model


def _loading_arguments(name: str, settings: EngineSettings, source: Mapping[str, object]) -> dict[str, object]:
    """Return the other arguments of `from_pretrained`, with a changed configuration if the settings require it.

    The configuration is changed here rather than by `from_pretrained`, which would let `rope_scaling` replace all of
    transformers 5's `rope_parameters`, the base frequency too, and ignores a nested text configuration.
    """
    from transformers import AutoConfig, PreTrainedModel

    taken = FROM_PRETRAINED | signature(PreTrainedModel.from_pretrained).parameters.keys()
    passed = {key: value for key, value in settings.model_kwargs.items() if key in taken}
    changes = {key: value for key, value in settings.model_kwargs.items() if key not in taken}
    if not changes:
        return passed
    gguf = {"gguf_file": passed["gguf_file"]} if "gguf_file" in passed else {}
    config = AutoConfig.from_pretrained(name, **source, **gguf)
    _change_config(config, changes)
    return {**passed, "config": config}


def _change_config(config: "PreTrainedConfig", changes: dict[str, object]) -> None:
    """Replace settings of a configuration, those of its text model where it has one."""
    inner = config.get_text_config()
    kept = getattr(inner, "rope_parameters", None)
    if isinstance(kept, Mapping) and changes.keys() & set(ROPE_SETTINGS):
        if any(isinstance(value, Mapping) for value in kept.values()):
            raise UsageError(
                "this model has rope settings for each kind of layer, for which rope_scaling and rope_theta are "
                'ambiguous; expected rope_parameters={"full_attention": {...}, ...}, as in its config.json'
            )
        scaling = dict(cast("Mapping[str, object]", changes.pop("rope_scaling", {})))
        if "type" in scaling:  # its name before transformers 4.45
            scaling.setdefault("rope_type", scaling.pop("type"))
        theta = {"rope_theta": changes.pop("rope_theta")} if "rope_theta" in changes else {}
        inner.rope_parameters = {**kept, **scaling, **theta}
    for key, value in changes.items():
        setattr(inner if hasattr(inner, key) else config, key, value)


def _from_checkpoint(checkpoint: TrainerCheckpoint, settings: EngineSettings) -> "PreTrainedModel":
    """Return the causal LM of a trainer's checkpoint, in the requested dtype, on the CPU or as device_map says.

    Raises: ModelUnavailable, naming the tensor that is missing or does not fit.
    """
    from transformers import GenerationConfig, PreTrainedModel
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    config = config_of(checkpoint)
    taken = FROM_PRETRAINED | signature(PreTrainedModel.from_pretrained).parameters.keys()
    passed = {key: value for key, value in settings.model_kwargs.items() if key in taken}
    _change_config(config, {key: value for key, value in settings.model_kwargs.items() if key not in taken})
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelUnavailable(f"model_type {config.model_type} of {checkpoint.weights[0]} is not a causal LM")
    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with torch.device("meta"):
        empty = kind(config)
    tensors = plan_tensors(checkpoint, empty, config)
    dtype = getattr(torch, str(checkpoint.config["dtype"]) if settings.dtype == "auto" else settings.dtype)
    try:
        model, info = kind.from_pretrained(
            None, config=config, state_dict=tensors, dtype=dtype, output_loading_info=True, **passed
        )
        if checkpoint.generation_folder is not None:
            model.generation_config = GenerationConfig.from_pretrained(checkpoint.generation_folder)
    except _UNLOADABLE as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(f"{checkpoint.weights[0]} cannot be loaded: {first}") from error
    for problem, names in (("lacks", info["missing_keys"]), ("has no place for", info["unexpected_keys"])):
        if names:
            raise ModelUnavailable(
                f"{checkpoint.weights[0]} as a {kind.__name__} {problem} {min(names)} ({len(names)} such tensors)"
            )
    return model


def _remedy(text: str, settings: EngineSettings) -> str:
    """Return the remedy for a failure to load, as far as its text shows the cause."""
    if "trust_remote_code" in text and not settings.trust_remote_code:
        return "; the repository brings its own code: if you trust it, set trust_remote_code=True"
    if "gated" in text or "401" in text:
        return "; the repository may be gated: accept its terms and set HF_TOKEN"
    if "model_type" in text or "architectures" in text or "Unrecognized model" in text:
        return "; its config.json must name a model_type that transformers knows"
    if "deserializ" in text or "PytorchStreamReader" in text or "Ran out of input" in text:
        return "; a weights file is truncated or damaged: download it again"
    return "; check the spelling, the connection, and HF_HUB_OFFLINE"


def _with_adapter(model: "PreTrainedModel", adapter: str, n_token_ids: int | None) -> "PeftModel":
    """Return the model with a PEFT adapter.

    The embeddings are first resized to what the adapter has of them, else to the tokenizer's ids, as an adapter with
    added tokens needs it. Rows that the adapter does not bring are drawn as transformers draws them, from a fixed seed.

    Source: lm-evaluation-harness 0.4.13, models/huggingface.py (_create_model), resize_token_embeddings.
    Raises: MissingExtra if peft is not installed; ModelUnavailable if the adapter cannot be loaded.
    """
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtra("an adapter (peft=)", "hf") from error
    try:
        n_rows = _saved_rows(Path(adapter)) or n_token_ids
        if n_rows is not None and n_rows != model.get_input_embeddings().weight.shape[0]:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                model.resize_token_embeddings(n_rows)
        adapted = PeftModel.from_pretrained(model, adapter)
        problem = _unused_parts(adapted, adapter)
    except Exception as error:  # peft, safetensors and pickle raise many kinds of errors, each for an unusable file
        n_own = int(model.get_input_embeddings().weight.shape[0])
        raise ModelUnavailable(
            f"adapter {adapter!r} cannot be applied to the model, whose embeddings have {n_own} rows: {error}; for one "
            "with added tokens name its tokenizer with tokenizer=<the adapter's folder>"
        ) from error
    if problem:
        raise ModelUnavailable(
            f"adapter {adapter!r} {problem}; expected the base that it was trained from, and the adapter's whole file"
        )
    return adapted


def _unused_parts(adapted: "PeftModel", adapter: str) -> str:
    """Return which tensors the adapter lacks, or has no module for; empty if none.

    peft leaves lacking ones as they begin, mostly without effect, and ignores the others: the base would be measured.
    Loading the adapter again returns both.
    """
    if {"cpu", "disk"} & {str(place) for place in (getattr(adapted, "hf_device_map", None) or {}).values()}:
        return ""  # a second load would dispatch the model again
    result = adapted.load_adapter(adapter, "default", torch_device=str(adapted.device))
    missing = [name for name in result.missing_keys if ".default" in name and not _SHARED.search(name)]
    unused = [name for name in result.unexpected_keys if ".lora_" in name]  # others may be named twice by a tied head
    for names, fault in ((missing, "lacks"), (unused, "is for another base, which has no place for")):
        if names:
            return f"{fault} {len(names)} of its tensors, the first {min(names).replace('.default', '')}"
    return ""


_SHARED = re.compile("vblora_vector_bank|prompt_encoder|tinylora_v|unilora_theta_d")  # stored in one place, or nowhere


def _saved_rows(adapter: Path) -> int | None:
    """Return the rows of the embeddings or the head that an adapter replaces as a whole; None where it has none."""
    from safetensors import safe_open

    weights = adapter / "adapter_model.safetensors"
    if not weights.is_file():
        return None
    with safe_open(weights, "pt") as file:
        whole = [name for name in file.keys() if _WHOLE.search(name)]  # noqa: SIM118 - no mapping
        shapes = [file.get_slice(name).get_shape() for name in whole]
        return max((int(shape[0]) for shape in shapes if shape and math.prod(shape)), default=None)


_WHOLE = re.compile(r"(embed_tokens|wte|embed_in|word_embeddings|lm_head|embed_out)(\.(?!lora_)\w+)*\.weight$")


def probe_tokens(model: "PreTrainedModel", name: object, *, trust_remote_code: bool) -> Sequence[int]:
    """Return a piece of real text in the model's own tokens; empty if the model has no tokenizer of its own."""
    from transformers import AutoTokenizer

    source = name if isinstance(name, str) else getattr(model.config, "_name_or_path", "")
    if not source:
        return ()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=trust_remote_code)
        return list(tokenizer(PROBE_TEXT, verbose=False)["input_ids"])
    except Exception:  # noqa: BLE001 - any text suffices; a failure of the tokenizer is not a failure of the model
        return ()


PROBE_TEXT = (
    "Once upon a time there was a small harbour town whose lamp had gone dark. Question: who lights the lamp at "
    "dusk? Answer: the keeper's daughter, for her father is ill. They sailed at nine with 47 sacks of grain, two "
    "barrels of oil and a clock that ran backwards. The water was 3.5 metres deep (at low tide), so the captain said: "
    '"Wait until noon!" In 1887 the railway came, and with it newspapers, oranges, strangers and a piano.'
)


def library_versions() -> dict[str, str]:
    """Return the versions of the installed libraries that affect the numbers."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
