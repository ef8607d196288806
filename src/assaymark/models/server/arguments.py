"""Parse `--model_args` of a model behind a server, in lm-evaluation-harness's spelling, into one record.

Every argument is known by name: those without an effect here are accepted and ignored, unknown ones are refused with
the nearest names. An API key is never an argument: arguments are stored with the run, so the key comes from
OPENAI_API_KEY.

A service with an OpenAI-compatible interface is recognised by its host, or named with `provider=`. Fields that a
service refuses or ignores are not sent; a setting that the user gave for a run always is, so that a refusal is seen.

Source: lm-evaluation-harness 0.4.13, models/api_models.py (TemplateAPI), models/openai_completions.py; Azure OpenAI
    REST API reference (api-key, api-version); Anthropic, OpenAI SDK compatibility (seed and logprobs are ignored, stop
    texts must not be white space only); Gemini API, OpenAI compatibility (an unknown field, seed among them, is refused
    with 400).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import arguments_record, boolean, whole_number
from assaymark.records import JsonValue
from assaymark.records.json_values import float_of
from assaymark.registry import nearest

TOP_LOGPROBS = "top_logprobs"
API_VERSION = "api-version"
COMPLETIONS = "/completions"
CHAT = "/chat/completions"
OPENAI = "https://api.openai.com/v1"
REASONING = re.compile(r"^(o\d|gpt-5)")  # OpenAI's models that accept neither stop texts nor a temperature
MODELS_WITH_PROMPT_LOGPROBS = ("babbage-002", "davinci-002")  # the only OpenAI models with log-probabilities of prompts
KINDS: Mapping[str, str] = {  # kind -> the end of its URL
    "local-completions": COMPLETIONS,
    "local-chat-completions": CHAT,
    "openai-completions": COMPLETIONS,
    "openai-chat-completions": CHAT,
}
SECRET = re.compile(r"auth|key|token|secret|password|cookie", re.IGNORECASE)
# Accepted for compatibility with existing command lines. `num_concurrent` replaces a batch size.
WITHOUT_EFFECT = frozenset({"batch_size", "device", "max_batch_size", "max_images", "truncate"})
OF_TOKENIZERS = ("tokenizer", "tokenizer_backend", "tokenized_requests", "add_bos_token", "prefix_token_id")
INTEGERS = (("num_concurrent", 1), ("max_retries", 1), ("max_gen_toks", 1), ("max_length", 4), ("prefix_token_id", 0),
         ("seed", 0), (TOP_LOGPROBS, 1), ("max_response_mib", 1), ("max_response_depth", 10))  # fmt: skip
DEEPEST = 500  # levels of nested JSON: Python's parser recurses once per level
BOOLEANS = ("tokenized_requests", "add_bos_token", "verify_certificate", "trust_remote_code", "use_fast_tokenizer")


@dataclass(frozen=True, slots=True)
class _Provider:
    """One service.

    hosts: what its host names end with. key_header: the header of the key; None: `Authorization: Bearer`.
    takes_new_limit: chats are limited by max_completion_tokens; max_tokens is deprecated there.
    lists_models: `GET /models` accepts the key as a chat does, so that it can be checked before the run.
    """

    name: str
    hosts: tuple[str, ...] = ()
    key_header: str | None = None
    takes_seed: bool = True
    takes_blank_stops: bool = True
    takes_new_limit: bool = False
    gives_logprobs: bool = True
    lists_models: bool = True

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key."""
        return {"Authorization": f"Bearer {key}"} if self.key_header is None else {self.key_header: key}


OTHER = _Provider("other")
_PROVIDERS: Mapping[str, _Provider] = {
    provider.name: provider
    for provider in (
        _Provider("openai", ("api.openai.com",), takes_new_limit=True),
        _Provider(
            "azure",
            (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
            key_header="api-key",
            takes_new_limit=True,
            lists_models=False,
        ),
        _Provider(
            "anthropic",
            ("api.anthropic.com",),
            takes_seed=False,
            takes_blank_stops=False,
            gives_logprobs=False,
            lists_models=False,
        ),
        _Provider("gemini", ("generativelanguage.googleapis.com",), takes_seed=False),
        OTHER,
    )
}


def provider_of(host: str) -> _Provider:
    """Return the service of a host; `OTHER` for all that need nothing special."""
    return next(
        (provider for provider in _PROVIDERS.values() if provider.hosts and host.lower().endswith(provider.hosts)),
        OTHER,
    )


@dataclass(frozen=True, slots=True)
class OpenAIArguments:
    """The arguments of a model behind an OpenAI-compatible server.

    base_url: the URL that requests are posted to. tokenizer: a folder or Hub id; None: texts are sent, and the server
        tokenises them.
    Units: timeout of one request and retry_budget in seconds.
    """

    kind: str
    model: str
    base_url: str
    tokenizer: str | None = None
    tokenized_requests: bool = False
    num_concurrent: int = 1  # maximum number of requests in flight
    max_retries: int = 3  # attempts in all, as in lm-eval
    retry_budget: float = 120.0  # how long no request may succeed before the rest is not sent
    timeout: float = 300.0
    max_response_mib: int = 32  # limit of one response, both as received and as decompressed
    max_response_depth: int = 100  # limit of nested arrays and objects in one response
    max_gen_toks: int | None = None
    max_length: int = 2048  # lm-eval's default; tokens of a prompt and the generated text
    seed: int = 1234
    top_logprobs: int | None = None  # score letters by the first generated token, with this many alternatives
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
    service: str | None = None  # the name of a provider; None: by the host
    api_version: str | None = None  # Azure's query parameter
    weights: str | None = None  # the user's own name for the weights; outputs are then cached across runs

    @property
    def is_chat(self) -> bool:
        """Whether messages are sent, to which the server applies the model's template."""
        return KINDS[self.kind] == CHAT

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service, with its limits."""
        return self.kind.startswith("openai-")

    @property
    def provider(self) -> _Provider:
        """The service whose rules requests follow."""
        if self.service is not None:
            return _PROVIDERS[self.service]
        return _PROVIDERS["openai"] if self.is_openai else provider_of(urlsplit(self.base_url).hostname or "")

    @property
    def url(self) -> str:
        """The URL to which requests are sent, with the version of the interface where one was given."""
        if self.api_version is None:
            return self.base_url
        parts = urlsplit(self.base_url)
        version = urlencode({API_VERSION: self.api_version})
        return urlunsplit(parts._replace(query=f"{parts.query}&{version}" if parts.query else version))

    @property
    def server(self) -> str:
        """The URL without the endpoint's path."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(KINDS[self.kind]), "", ""))

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an output and are not part of the model's identity otherwise."""
        values: dict[str, JsonValue] = {
            "base_url": self.base_url if self.weights is None else None,
            "weights": self.weights,
            "seed": self.seed,
            "max_gen_toks": self.max_gen_toks,
            "eos_string": self.eos_string,
            "think_end_token": self.think_end_token,
            "chat_template": self.chat_template,
            TOP_LOGPROBS: self.top_logprobs,
            "provider": self.service,
            "api_version": self.api_version,
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


def openai_arguments(kind: str, model_args: Mapping[str, object]) -> OpenAIArguments:
    """Parse the arguments of a model behind a server.

    Raises: UsageError for an invalid value; UnknownName for an unknown argument.
    """
    values: dict[str, JsonValue] = {
        name: value for name, value in model_args.items() if value is not None and name not in WITHOUT_EFFECT
    }
    if "tokenizer_backend" in model_args and model_args["tokenizer_backend"] is None:
        values["tokenizer_backend"] = "none"  # as the command line's `none` is parsed
    _refuse(values)
    pretrained = values.pop("pretrained", None)
    values["model"] = str(values.get("model") or pretrained or "")
    if not values["model"]:
        raise UsageError(f"no model was given; expected --model {kind} --model_args model=<name at the server>,...")
    values["base_url"] = _endpoint(kind, values.get("base_url"))
    if "custom_prefix_token_id" in values:
        values["prefix_token_id"] = values.pop("custom_prefix_token_id")
    _check(values)
    if KINDS[kind] == CHAT:  # the server tokenises
        values = {name: value for name, value in values.items() if name not in OF_TOKENIZERS}
    else:
        _settle_tokenizer(kind, values)
    known = {each.name for each in fields(OpenAIArguments)} - {"kind", "service"} | {"provider"}
    for name in sorted(values.keys() - known):
        raise UnknownName(f"argument of {kind}", name, nearest(name, known | WITHOUT_EFFECT | set(OF_TOKENIZERS)))
    for name in ("tokenizer", "eos_string", "think_end_token", "chat_template", "weights", "revision", "ca_cert_path",
                 "api_version"):  # fmt: skip
        if name in values:
            values[name] = str(values[name])
    for name in ("timeout", "retry_budget"):
        if name in values:
            values[name] = float_of(values[name], name)
    values |= {"kind": kind, "service": values.pop("provider", None)}
    arguments = arguments_record(OpenAIArguments, values)
    _check_service(arguments)
    return arguments


def _check_service(arguments: OpenAIArguments) -> None:
    """Raise UsageError for arguments that the service behind the URL does not support, or requires."""
    provider, url = arguments.provider, urlsplit(arguments.url)
    if arguments.top_logprobs is not None and not provider.gives_logprobs:
        raise UsageError(
            f"top_logprobs: {provider.name} gives no log-probabilities; omit it, and have multiple choice answered by "
            "generation (--prompt_style cot)"
        )
    if arguments.top_logprobs is not None and arguments.provider.takes_new_limit and REASONING.match(arguments.model):
        raise UsageError(f"top_logprobs: {arguments.model} gives no log-probabilities; omit it")
    if provider.name == "azure" and "/deployments/" in url.path and API_VERSION not in dict(parse_qsl(url.query)):
        raise UsageError("a deployment of Azure needs the version of its interface: api_version=2024-10-21")


def _refuse(values: dict[str, object]) -> None:
    """Remove arguments that only state the default, and refuse those that are not supported.

    Raises: UsageError.
    """
    for name in ("api_key", "auth_token"):
        if name in values:
            raise UsageError(
                f"{name} is not accepted: arguments are stored with the run; set the key as OPENAI_API_KEY"
            )
    if values.pop("workers", 1) != 1 or values.pop("cluster", None) is not None:
        raise UsageError("a server takes several requests at once: set num_concurrent in --model_args, not --workers")
    if values.pop("numerics", "float32") != "float32":
        raise UsageError("numerics other than float32 need --model hf: a server decides its own numerics")
    header = values.get("header", {})
    if not isinstance(header, Mapping) or not all(isinstance(value, str) for value in header.values()):
        raise UsageError('header is not a mapping of strings; expected header={"X-Name": "value"}')
    for name, value in header.items():
        if not is_header_value(str(name)) or not is_header_value(value):
            raise UsageError(f"header {name!r} contains a character that HTTP does not allow; expected printable ASCII")
        if SECRET.search(str(name)):
            raise UsageError(
                f"header {name} looks like a secret; arguments are stored with the run; set the key as OPENAI_API_KEY"
            )


def is_header_value(text: str) -> bool:
    """Return whether a text can be sent as the name or value of an HTTP header."""
    return text.isascii() and text.isprintable()


def _check(values: Mapping[str, JsonValue]) -> None:
    """Check the types and ranges of values.

    Raises: UsageError.
    """
    for name in BOOLEANS:
        if name in values:
            boolean(name, values[name])
    for name, least in INTEGERS:
        if name in values:
            whole_number(name, values[name], least)
    depth = values.get("max_response_depth")
    if isinstance(depth, int) and depth > DEEPEST:
        raise UsageError(f"max_response_depth={depth}; expected at most {DEEPEST}")
    for name in ("timeout", "retry_budget"):
        value = values.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise UsageError(f"{name}={value!r}; expected seconds, above 0")
    provider = values.get("provider")
    if provider is not None and provider not in _PROVIDERS:
        raise UnknownName(
            "provider", str(provider), nearest(str(provider), _PROVIDERS), f"known: {', '.join(_PROVIDERS)}"
        )
    if values.get("too_long", "cut") not in ("cut", "error"):
        raise UsageError(f"too_long={values['too_long']!r}; expected cut or error (drop_shots is for local models)")


def _settle_tokenizer(kind: str, values: dict[str, object]) -> None:
    """Replace lm-eval's `tokenizer_backend` by the tokenizer itself and whether its tokens are sent.

    OpenAI's own tokenizer is not needed: the server returns the texts of its tokens, which show where a choice begins.
    Raises: UsageError.
    """
    default = "tiktoken" if kind == "openai-completions" and "tokenizer" not in values else "auto"
    backend = str(values.pop("tokenizer_backend", default)).lower()
    if backend == "remote":
        raise UsageError(
            "tokenizer_backend=remote is not supported: set the same tokenizer with tokenizer=<folder or Hub id>, "
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


def _endpoint(kind: str, base_url: object) -> str:
    """Return the URL to which requests are sent; a base URL is completed with the endpoint.

    Raises: UsageError if it is missing, not a URL, of another kind, or contains a secret.
    """
    if base_url is None and kind.startswith("openai-"):
        return OPENAI + KINDS[kind]
    example = f"base_url=http://localhost:8000/v1{KINDS[kind]}"
    if base_url is None:
        raise UsageError(f"no server was given; expected {example}")
    parts = urlsplit(str(base_url))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"base_url={base_url} is not a URL; expected {example}")
    if parts.username or parts.password or any(SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            "base_url contains a user, password or key; arguments are stored with the run; set OPENAI_API_KEY"
        )
    path = parts.path.rstrip("/")
    if path.endswith(CHAT) != (KINDS[kind] == CHAT) and path.endswith(COMPLETIONS):
        right = next(other for other, end in KINDS.items() if path.endswith(CHAT) == (end == CHAT))
        raise UsageError(f"base_url={base_url} is not for {kind}; expected {example}, or --model {right}")
    if not path.endswith(COMPLETIONS):
        path = (path or "/v1") + KINDS[kind]
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
