"""What people write after `--model local-completions --model_args`, in lm-evaluation-harness's spelling, as one record.

Every argument is known by name: what changes nothing here is accepted and left out, anything else is refused with the
nearest names. A key is never an argument: what is typed is kept with the run, so it comes from OPENAI_API_KEY.

Source: lm-evaluation-harness 0.4.13, models/api_models.py (TemplateAPI), models/openai_completions.py.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from evalstone.errors import UnknownName, UsageError
from evalstone.models.checkpoint.arguments import boolean, whole_number
from evalstone.records import JsonValue
from evalstone.registry import nearest

__all__ = ["KINDS", "OpenAIArguments", "is_header_value", "openai_arguments"]

COMPLETIONS = "/completions"
CHAT = "/chat/completions"
OPENAI = "https://api.openai.com/v1"
MODELS_WITH_PROMPT_LOGPROBS = ("babbage-002", "davinci-002")  # of OpenAI's own; of all others it gives none
KINDS: Mapping[str, str] = {  # kind -> the end of its URL
    "local-completions": COMPLETIONS,
    "local-chat-completions": CHAT,
    "openai-completions": COMPLETIONS,
    "openai-chat-completions": CHAT,
}
SECRET = re.compile(r"auth|key|token|secret|password|cookie", re.IGNORECASE)
# Accepted for the sake of old command lines. `num_concurrent` does the work of a batch size.
WITHOUT_EFFECT = frozenset({"batch_size", "device", "max_batch_size", "max_images", "truncate"})
OF_TOKENIZERS = ("tokenizer", "tokenizer_backend", "tokenized_requests", "add_bos_token", "prefix_token_id")
WHOLE = (("num_concurrent", 1), ("max_retries", 1), ("max_gen_toks", 1), ("max_length", 4), ("prefix_token_id", 0),
         ("seed", 0), ("max_response_mib", 1), ("max_response_depth", 10))  # fmt: skip
DEEPEST = 500  # of nested JSON: Python's parser recurses once for each level
TRUTHS = ("tokenized_requests", "add_bos_token", "verify_certificate", "trust_remote_code", "use_fast_tokenizer")


@dataclass(frozen=True, slots=True)
class OpenAIArguments:
    """A model behind an OpenAI-compatible server, as it was asked for.

    base_url: what is posted to. tokenizer: a folder or Hub id; None: texts are sent, and the server cuts them.
    Units: timeout of one request and retry_budget in seconds.
    """

    kind: str
    model: str
    base_url: str
    tokenizer: str | None = None
    tokenized_requests: bool = False
    num_concurrent: int = 1  # the most requests under way at once
    max_retries: int = 3  # attempts in all, as in lm-eval
    retry_budget: float = 120.0  # how long nothing may be answered before the rest is not asked
    timeout: float = 300.0
    max_response_mib: int = 32  # of one response, as received and as decompressed
    max_response_depth: int = 100  # of the nested arrays and objects of one response
    max_gen_toks: int | None = None
    max_length: int = 2048  # lm-eval's; a prompt and what is written after it
    seed: int = 1234
    add_bos_token: bool = False
    prefix_token_id: int | None = None
    eos_string: str | None = None
    think_end_token: str | None = None
    chat_template: str | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    use_fast_tokenizer: bool = True
    too_long: str = "cut"
    weights: str | None = None  # what the user vouches these weights are; answers are then kept across runs

    @property
    def is_chat(self) -> bool:
        """Whether messages are sent, and the server puts them into the model's template."""
        return KINDS[self.kind] == CHAT

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service, with its limits."""
        return self.kind.startswith("openai-")

    @property
    def server(self) -> str:
        """The URL without the end that says what is asked of it."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(KINDS[self.kind]), "", ""))

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an answer and have no place of their own in the model's identity."""
        values: dict[str, JsonValue] = {
            "base_url": self.base_url if self.weights is None else None,
            "weights": self.weights,
            "seed": self.seed,
            "max_gen_toks": self.max_gen_toks,
            "eos_string": self.eos_string,
            "think_end_token": self.think_end_token,
            "chat_template": self.chat_template,
        }
        if not self.is_chat:
            values |= {
                "tokenizer": self.tokenizer if self.tokenizer != self.model else None,
                "tokenizer_backend": None if self.tokenizer else "none",
                "tokenized_requests": self.tokenized_requests if self.tokenizer else None,
                "add_bos_token": self.add_bos_token or None,
                "prefix_token_id": self.prefix_token_id,
            }
        return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def openai_arguments(kind: str, given: Mapping[str, Any]) -> OpenAIArguments:
    """Return the record of the arguments of a model behind HTTP.

    Raises: UsageError for a value that cannot be; UnknownName for an argument nobody knows.
    """
    values = {name: value for name, value in given.items() if value is not None and name not in WITHOUT_EFFECT}
    _refuse(values)
    pretrained = values.pop("pretrained", None)
    values["model"] = str(values.get("model") or pretrained or "")
    if not values["model"]:
        raise UsageError(f"no model was named; expected --model {kind} --model_args model=<name at the server>,...")
    values["base_url"] = _endpoint(kind, values.get("base_url"))
    if "custom_prefix_token_id" in values:
        values["prefix_token_id"] = values.pop("custom_prefix_token_id")
    _check(values)
    if KINDS[kind] == CHAT:  # the server does all that a tokenizer would
        values = {name: value for name, value in values.items() if name not in OF_TOKENIZERS}
    else:
        _settle_tokenizer(kind, values)
    known = {each.name for each in fields(OpenAIArguments)} - {"kind"}
    for name in sorted(values.keys() - known):
        raise UnknownName(f"argument of {kind}", name, nearest(name, known | WITHOUT_EFFECT | set(OF_TOKENIZERS)))
    for name in ("tokenizer", "eos_string", "think_end_token", "chat_template", "weights", "revision", "ca_cert_path"):
        if name in values:
            values[name] = str(values[name])
    for name in ("timeout", "retry_budget"):
        if name in values:
            values[name] = float(values[name])
    return OpenAIArguments(kind, **values)


def _refuse(values: dict[str, Any]) -> None:
    """Remove what says the usual, and refuse what cannot be done here.

    Raises: UsageError.
    """
    for name in ("api_key", "auth_token"):
        if name in values:
            raise UsageError(
                f"{name} is no argument here: what is typed is kept with the run; set the key as OPENAI_API_KEY"
            )
    if values.pop("workers", 1) != 1 or values.pop("cluster", None) is not None:
        raise UsageError("a server takes several requests at once: name num_concurrent in --model_args, not --workers")
    if values.pop("numerics", "float32") != "float32":
        raise UsageError("numerics other than float32 need --model hf: the numbers of a server are its own")
    header = values.get("header", {})
    if not isinstance(header, Mapping) or not all(isinstance(value, str) for value in header.values()):
        raise UsageError('header is no mapping of texts; expected header={"X-Name": "value"}')
    for name, value in header.items():
        if not is_header_value(str(name)) or not is_header_value(value):
            raise UsageError(f"header {name!r} holds a character that HTTP cannot carry; expected printable ASCII")
        if SECRET.search(str(name)):
            raise UsageError(f"header {name} looks like a secret; what is typed is kept with the run: OPENAI_API_KEY")


def is_header_value(text: str) -> bool:
    """Whether a text can be sent as (the name or value of) a header of HTTP."""
    return text.isascii() and text.isprintable()


def _check(values: Mapping[str, Any]) -> None:
    """Refuse values of the wrong type.

    Raises: UsageError.
    """
    for name in TRUTHS:
        if name in values:
            boolean(name, values[name])
    for name, least in WHOLE:
        if name in values:
            whole_number(name, values[name], least)
    if values.get("max_response_depth", 0) > DEEPEST:
        raise UsageError(f"max_response_depth={values['max_response_depth']}; expected at most {DEEPEST}")
    for name in ("timeout", "retry_budget"):
        value = values.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise UsageError(f"{name}={value!r}; expected seconds, above 0")
    if values.get("too_long", "cut") not in ("cut", "error"):
        raise UsageError(f"too_long={values['too_long']!r}; expected cut or error")


def _settle_tokenizer(kind: str, values: dict[str, Any]) -> None:
    """Put in place of lm-eval's `tokenizer_backend` which tokenizer there is, and whether its tokens are sent.

    OpenAI's own tokenizer is not needed: it answers with the texts of its tokens, which show where a choice begins.
    Raises: UsageError.
    """
    default = "tiktoken" if kind == "openai-completions" and "tokenizer" not in values else "auto"
    backend = str(values.pop("tokenizer_backend", default)).lower()
    if backend == "remote":
        raise UsageError(
            "tokenizer_backend=remote is not supported: name the same tokenizer here, tokenizer=<folder or Hub id>, "
            "or send texts with tokenizer_backend=none"
        )
    if backend not in ("auto", "huggingface", "tiktoken", "none"):
        raise UsageError(f"tokenizer_backend={backend}; expected huggingface or none")
    if backend in ("tiktoken", "none"):
        if values.get("tokenized_requests"):
            raise UsageError(f"tokenized_requests needs a tokenizer here, and tokenizer_backend is {backend}")
        values.pop("tokenizer", None)
        values["tokenized_requests"] = False
        return
    values.setdefault("tokenizer", values["model"])
    values.setdefault("tokenized_requests", True)


def _endpoint(kind: str, given: Any) -> str:
    """Return the URL that is posted to; one that ends before the endpoint is completed.

    Raises: UsageError for none, one that is no URL, one of another kind, or one that holds a secret.
    """
    if given is None and kind.startswith("openai-"):
        return OPENAI + KINDS[kind]
    example = f"base_url=http://localhost:8000/v1{KINDS[kind]}"
    if given is None:
        raise UsageError(f"no server was named; expected {example}")
    parts = urlsplit(str(given))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"base_url={given} is no URL; expected {example}")
    if parts.username or parts.password or any(SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError("base_url holds a user, password or key; what is typed is kept with the run: OPENAI_API_KEY")
    path = parts.path.rstrip("/")
    if path.endswith(CHAT) != (KINDS[kind] == CHAT) and path.endswith(COMPLETIONS):
        right = next(other for other, end in KINDS.items() if path.endswith(CHAT) == (end == CHAT))
        raise UsageError(f"base_url={given} is not for {kind}; expected {example}, or --model {right}")
    if not path.endswith(COMPLETIONS):
        path = (path or "/v1") + KINDS[kind]
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
