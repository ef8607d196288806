"""Parse `--model_args` of a local model into one typed record.

The spelling is lm-evaluation-harness's (`pretrained=DIR,dtype=float32`), so that its command lines work unchanged.
Arguments without an effect here are accepted and ignored. Arguments that we do not know are passed to transformers:
each must be one of `from_pretrained`'s or a setting of the model's configuration, which `passed_arguments` checks once
the files are there. Anything else is refused with the nearest names: a silently ignored argument is a wrong result.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from assaymark.engine.options import AttentionPath, DTypeName, Numerics
from assaymark.errors import UnknownName, UsageError
from assaymark.records import JsonValue
from assaymark.records.json_values import dataclass_of
from assaymark.registry import nearest

T = TypeVar("T")

DTYPES: Mapping[str, DTypeName] = {
    "auto": "auto",
    "float32": "float32",
    "float": "float32",
    "fp32": "float32",
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}

# Accepted for compatibility with existing command lines; none of them can change an output here.
WITHOUT_EFFECT = frozenset({"batch_size", "max_batch_size", "logits_cache", "truncation", "low_cpu_mem_usage"})
OF_A_RUN = frozenset({  # options of a run, or of other kinds, that every kind of model may be handed
    "pretrained", "add_bos_token", "numerics", "workers", "cluster", "batch_size", "max_batch_size", "device",
    "too_long", "dtype", "write_out", "tokenizer", "max_length", "n_threads", "chat_template",
})  # fmt: skip
QUANTISATION = re.compile(r"load_in_[48]bit|llm_int8_\w+|bnb_4bit_\w+")
Backend = Literal["default", "causal", "seq2seq"]
MISTYPED = 0.8  # difflib ratio from which an unknown argument counts as a misspelling of one of ours
PLACEMENT = frozenset({  # arguments of `from_pretrained` on where and how weights are read and stored
    "attn_implementation", "device_map", "disable_mmap", "experts_implementation", "force_download", "max_memory",
    "offload_buffers", "offload_folder", "offload_state_dict", "proxies", "use_safetensors",
    "weights_only",
})  # fmt: skip
GENERATION = (("max_gen_toks", 1), ("n_slots", 1))
REFUSED: Mapping[str, str] = {
    "autogptq": "GPTQ checkpoints name their own quantisation; omit autogptq",
    "gptqmodel": "GPTQ checkpoints name their own quantisation; omit gptqmodel",
    "delta": "add the delta weights to their base once and save the sum",
    "tp_plan": "it divides a model among processes of torchrun, which are workers with a whole model here; use "
    "device_map=auto, or --model vllm with tensor_parallel_size",
    "tp_size": "use device_map=auto, or --model vllm with tensor_parallel_size",
    "mixed_precision_dtype": "choose the precision with dtype=",
    "softmax_dtype": "scores are computed in float32 already; model rounding is numerics=model-dtype",
}


@dataclass(frozen=True, slots=True)
class LocalArguments:
    """The arguments of a local model.

    model_kwargs: arguments of `from_pretrained`, and settings that replace those of the model's configuration.
    """

    pretrained: str
    revision: str | None = None
    subfolder: str = ""
    tokenizer: str | None = None
    peft: str | None = None
    backend: Backend = "default"  # decided by the configuration
    base: str | None = None  # of a trainer's checkpoint: the model it was trained from
    lora_alpha: float | None = None  # of a trainer's LoRA checkpoint
    dtype: DTypeName = "auto"
    numerics: Numerics = "float32"
    device: str = "auto"
    max_length: int | None = None
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    trust_remote_code: bool = False
    use_fast_tokenizer: bool = True
    chat_template: str | None = None  # name of the template if the tokenizer has several
    chat_template_args: Mapping[str, JsonValue] = field(default_factory=dict)
    enable_thinking: bool | None = None
    think_end_token: str | int | None = None
    max_gen_toks: int | None = None  # for tasks that do not set it; lm-eval's default is 256
    generation_config: Literal["model", "none"] = "model"  # whether the model's own defaults apply
    n_slots: int | None = None
    too_long: Literal["cut", "drop_shots", "error"] = "cut"
    window_tokens: int | None = None
    attention: AttentionPath = "auto"
    n_threads: int | None = None
    token: str | bool | None = field(default=None, repr=False)  # for the Hub; True: the logged-in user's
    cache_dir: str | None = None
    local_files_only: bool = False
    model_kwargs: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def gguf_file(self) -> str | None:
        """The name of the GGUF file in the folder; None where the weights are in another format."""
        name = self.model_kwargs.get("gguf_file")
        return None if name is None else str(name)

    @property
    def template_variables(self) -> dict[str, JsonValue]:
        """The variables of the chat template besides the messages."""
        thinking = {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}
        return {**self.chat_template_args, **thinking}

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an output and are not part of the model's identity otherwise."""
        values: dict[str, JsonValue] = {
            "add_bos_token": self.add_bos_token,
            "prefix_token_id": self.prefix_token_id,
            "use_fast_tokenizer": None if self.use_fast_tokenizer else False,
            "chat_template": self.chat_template,
            "chat_template_args": self.template_variables or None,
            "think_end_token": self.think_end_token,
            "max_gen_toks": self.max_gen_toks,
            "generation_config": None if self.generation_config == "model" else self.generation_config,
            "base": self.base,
            "lora_alpha": self.lora_alpha,
            "attention": None if self.attention == "auto" else self.attention,
            **{name: value for name, value in self.model_kwargs.items() if name not in PLACEMENT},
        }
        return tuple(sorted((name, value) for name, value in values.items() if value is not None))


KNOWN = frozenset(each.name for each in fields(LocalArguments)) - {"model_kwargs"}


def typed_value(text: str) -> JsonValue:
    """Return the value of a text: quoted text, true/false, none, a number, JSON in brackets, else the text itself."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    named = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    if text[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"'{text}' starts like JSON but is not: {error}; expected double quotes") from error
    if re.fullmatch(r"[+-]*\d+", text):
        try:
            return int(text)
        except ValueError:
            return text
    try:
        return float(text)
    except ValueError:
        return text


def split_outside_brackets(text: str) -> list[str]:
    """Return the parts between commas outside brackets and quotes; empty parts are dropped."""
    parts, start, depth, quote = [], 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and (depth or text[at - 1 : at] in {"=", ",", ""}):
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


_EXAMPLES = {
    "model_args": "pretrained=DIR,dtype=float32",
    "gen_kwargs": "temperature=0.7,max_gen_toks=64",
    "metadata": "max_seq_lengths=4096",
    "wandb_args": "project=my-evaluations,name=first",
    "wandb_config_args": "learning_rate=0.001",
}


def parse_arguments(arguments: str | Mapping[str, object] | None, option: str = "model_args") -> dict[str, object]:
    """Return `a=b,c=d`, a JSON object, or a mapping, as a dictionary of typed values.

    Raises: UsageError for a part that is not `name=value`, with the option's name.
    """
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return dict(arguments)
    if arguments.lstrip().startswith("{"):
        return cast("dict[str, object]", typed_value(arguments))
    values = {}
    for part in split_outside_brackets(arguments):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            if option == "model_args" and ("/" in part or Path(part).is_dir()):
                raise UsageError(f"model_args: '{part}' is not name=value; write --model_args pretrained={arguments}")
            raise UsageError(f"{option}: '{part}' is not name=value; expected e.g. {_EXAMPLES[option]}")
        values[name.strip()] = typed_value(value)
    return values


def known_arguments(
    arguments: Mapping[str, object], known: Collection[str], noun: str = "model argument"
) -> dict[str, JsonValue]:
    """Return the arguments that a kind of model has; those in `OF_A_RUN` that it does not have are left out.

    Args:
        arguments: as a factory of a model receives them: those of `--model_args`, and options of the run.
        known: the names that the kind has.
        noun: of an argument, for the message.

    Raises: UnknownName with the nearest names for any other argument.
    """
    values = {
        name: value for name, value in arguments.items() if value is not None and name not in OF_A_RUN - set(known)
    }
    for name in values:
        if name not in known:
            raise UnknownName(noun, name, nearest(name, known), f"it has: {', '.join(known) or 'none'}")
    return values


def arguments_record(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """Return a dataclass of arguments from the values of its fields.

    Raises: UsageError for a value of another type than its field's.
    """
    try:
        return dataclass_of(kind, values)
    except TypeError as error:
        raise UsageError(f"argument {error}") from None


def boolean(name: str, value: object) -> bool:
    """Return the value of a boolean model argument.

    Raises: UsageError.
    """
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name}={value!r} is neither True nor False")


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return the value of a model argument that is an integer of at least `least`.

    Raises: UsageError.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise UsageError(f"{name}={value!r}; expected a whole number from {least}")


def _take_model_kwargs(values: dict[str, object], known: frozenset[str]) -> dict[str, object]:
    """Remove the arguments that are not `known` from `values` and return them in transformers' present form.

    Raises: UnknownName for a misspelling of one of our arguments.
    """
    kwargs: dict[str, object] = {}
    quantisation = {name: values.pop(name) for name in sorted(values) if QUANTISATION.fullmatch(name)}
    if any(quantisation.get(name) for name in ("load_in_4bit", "load_in_8bit")):
        # transformers 5 takes these only inside a quantization_config
        kwargs["quantization_config"] = {"quant_method": "bitsandbytes", **quantisation}
    spread = [values.pop(name, None) for name in ("parallelize", "use_accelerate")]
    per_device, on_cpu = values.pop("max_memory_per_gpu", None), values.pop("max_cpu_memory", None)
    if any(spread):
        kwargs.setdefault("device_map", "auto")
        if per_device is not None or on_cpu is not None:
            raise UsageError("max_memory_per_gpu and max_cpu_memory are not supported; pass max_memory={...} instead")
    for name in sorted(values.keys() - known):
        if name not in PLACEMENT and (near := get_close_matches(name, known | PLACEMENT | WITHOUT_EFFECT, 3, MISTYPED)):
            raise UnknownName("model argument", name, near)
        value = values.pop(name)
        if value is not None:
            kwargs[name] = value
    return kwargs


def _refuse(values: dict[str, object]) -> None:
    """Remove and refuse arguments that are not supported.

    Raises: UsageError.
    """
    for name, remedy in REFUSED.items():
        value = values.pop(name, None)
        if value not in (None, False) and not (name == "softmax_dtype" and value == "float32"):
            raise UsageError(f"model argument {name}={value} is not supported: {remedy}")
    if values.get("backend", "default") not in ("default", "causal", "seq2seq", None):
        raise UsageError(f"backend={values['backend']} is unknown; expected default, causal or seq2seq")
    if values.get("pretrained") is None:
        close = get_close_matches("pretrained", list(values), 1, MISTYPED)
        hint = f" (was {close[0]}= meant as pretrained=?)" if close else ""
        raise UsageError(f"no model was given; expected model_args pretrained=<folder or Hub id>{hint}")


def _check_types(values: Mapping[str, object]) -> None:
    """Check the types and ranges of values.

    Raises: UsageError.
    """
    for name in ("trust_remote_code", "use_fast_tokenizer", "add_bos_token", "enable_thinking", "local_files_only"):
        if name in values:
            boolean(name, values[name])
    for name, least in (("max_length", 1), ("prefix_token_id", 0), ("window_tokens", 1), ("n_threads", 1), *GENERATION):
        if name in values:
            whole_number(name, values[name], least)
    for name, choices in (("numerics", get_args(Numerics)), ("attention", get_args(AttentionPath))):
        if name in values and values[name] not in choices:
            raise UsageError(f"{name}={values[name]!r} is unknown; expected one of {', '.join(choices)}")
    if values.get("generation_config", "model") not in ("model", "none"):
        raise UsageError(f"generation_config={values['generation_config']!r}; expected model or none")
    if values.get("too_long", "cut") not in ("cut", "drop_shots", "error"):
        raise UsageError(f"too_long={values['too_long']!r}; expected cut, drop_shots or error")
    if not isinstance(values.get("chat_template_args", {}), Mapping):
        raise UsageError(f"chat_template_args={values['chat_template_args']!r} is not a JSON object")
    alpha = values.get("lora_alpha", 1.0)
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not alpha > 0:
        raise UsageError(f"lora_alpha={alpha!r}; expected a number above 0")
    if not isinstance(values.get("token", ""), str | bool):
        raise UsageError("token is neither text nor True or False; expected the Hub's token, or set HF_TOKEN")


def _rename_dtype(values: dict[str, object]) -> None:
    """Replace transformers' old name of dtype by the new one.

    Raises: UsageError if both names are given with different values.
    """
    old, new = values.pop("torch_dtype"), values.get("dtype")
    named = {DTYPES.get(str(name).removeprefix("torch."), name) for name in (old, new) if name is not None}
    if len(named) > 1:
        raise UsageError(f"dtype={new} and torch_dtype={old} are two names of one setting; give one of them")
    values["dtype"] = new if old is None else old


def local_arguments(model_args: Mapping[str, object]) -> LocalArguments:
    """Parse the arguments of a local model.

    Raises: UsageError for an invalid value; UnknownName for a misspelling of one of our arguments.
    """
    values: dict[str, JsonValue] = dict(model_args)
    _refuse(values)
    if "torch_dtype" in values:
        _rename_dtype(values)
    values = {name: value for name, value in values.items() if name not in WITHOUT_EFFECT}
    kwargs = _take_model_kwargs(values, KNOWN)
    values = {name: value for name, value in values.items() if value is not None}
    _check_types(values)
    dtype = str(values.pop("dtype", "auto")).removeprefix("torch.")
    if dtype not in DTYPES:
        raise UnknownName("dtype", dtype, nearest(dtype, DTYPES) or sorted(set(DTYPES.values())))
    texts = ("pretrained", "revision", "subfolder", "tokenizer", "peft", "base", "device", "chat_template", "cache_dir")
    for name in texts:
        if name in values:
            values[name] = str(values[name])
    return arguments_record(LocalArguments, {**values, "dtype": DTYPES[dtype], "model_kwargs": kwargs})
