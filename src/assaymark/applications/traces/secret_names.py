"""Names of secrets, recognised by their words: `db.password.value` and `openaiApiKey`, not `input_tokens`.

A name is divided at dots, underscores, dashes and changes of case. The words are those of gitleaks' rule
`generic-api-key` and more; source: https://github.com/gitleaks/gitleaks, config/gitleaks.toml at b58d3f1.
"""

import re
from functools import lru_cache

LONGEST_NAME = 100  # characters; what is longer is no name
STEMS = ("pass", "pwd", "secret", "token", "key", "cred", "authorization", "cookie", "jwt", "pw")
"""In lower case; every name of a secret has one of them, which is what a text is searched for."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDINGS = (
    *("password", "passwords", "passwd", "passwrd", "passphrase", "passcode", "secret", "secrets", "credential"),
    *("credentials", "authorization", "cookie", "cookies", "apikey", "apikeys", "secretkey", "accesskey", "privatekey"),
    *("accesstoken", "authtoken", "refreshtoken", "sessiontoken", "idtoken", "bearertoken", "apitoken", "pwd"),
)
_WHOLE = frozenset({"creds", "cred", "jwt", "pw"})
_PASS_OF = _words("db database user smtp mail email mysql pg postgres redis ftp ssh admin root auth http proxy")
_KEY_OF = _words(
    "api access private secret signing signature encryption decryption master account storage auth authentication "
    "subscription ssh rsa pgp gpg service admin deploy consumer webhook shared hmac jwt openai anthropic azure aws gcp "
    "google gemini mistral cohere groq huggingface hf together replicate pinecone stripe twilio sendgrid github gitlab "
    "slack deepseek perplexity serper tavily langchain langsmith langfuse wandb datadog sentry algolia mapbox nvidia "
    "openrouter xai fireworks elevenlabs voyage jina weaviate qdrant supabase cloudflare firebase assaymark"
)
_NOT_TOKEN = _words(  # words before `token` that make it a piece of text, a count or a place in a list
    "input output prompt completion cached reasoning total max min new first last per next page continuation sync "
    "resume cursor eos bos pad unk mask sep cls stop start end special added image audio video text vocab sub current "
    "prev previous target draft predicted generated sampled top single each every this the a of think tool n"
)
_TOKENS_OF = _words("access refresh auth bearer session api id secret")
_VALUE = _words("value values header raw plain text string data content secret hash base64 encoded new old")
_ABOUT = _words(  # last words of what is told of a secret
    "id name names type length len count counts hint policy enabled required expires expiry expiration expired ttl "
    "rotation rotated version arn url uri path file filename field fields format algorithm strength valid present min "
    "max age at in created updated status changed provider usage limit size error source location manager consent "
    "accepted domain endpoint method scheme label description title placeholder visible reset attempts retries index "
    "kind mode stdin needed set used store ref reference"
)
_PLACEHOLDER = re.compile(
    r"(?:\[redacted.*|[*x.•\-_ ]*|\$\{[^{}]*\}|\$[A-Za-z_]\w*|\{\{?[^{}]*\}?\}|<[^<>]*>|%\(?\w*\)?s?|"
    r"true|false|none|null|nil|undefined|yes|no|n/a|str|string|int|integer|number|bytes|bool|boolean|object|any|"
    r"optional|required|password|include|omit|same-origin)",
    re.IGNORECASE | re.DOTALL,
)


@lru_cache(maxsize=8192)
def secret_name(name: str) -> str:
    """Return the kind of secret with this name: "secret", "token" (numbers are not secret), "path" or "" for none."""
    if len(name) > LONGEST_NAME:
        return ""
    words = [word.lower() for word in _WORD.findall(name)]
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        after = words[at + 1 :]
        if after and after[-1] in _ABOUT:
            continue
        if word in _WHOLE or word.endswith(_ENDINGS) or f"{before}{word}" in _ENDINGS:
            return "path" if word.endswith("pwd") else "secret"
        if word in {"key", "keys"} and before in _KEY_OF:
            return "secret"
        if word == "pass" and before in _PASS_OF and not after:
            return "secret"
        is_value = all(each in _VALUE or each.isdigit() for each in after)
        if is_value and ((word == "token" and before not in _NOT_TOKEN) or (word == "tokens" and before in _TOKENS_OF)):
            return "token"
    return ""


def is_harmless(kind: str, value: str) -> bool:
    """Return whether a text under such a name reveals no secret: a placeholder, a count, a folder."""
    text = value.strip()
    if len(text) <= 200 and _PLACEHOLDER.fullmatch(text):
        return True
    if kind == "token":  # pieces of text, as in log-probabilities, and their numbers
        return len(text) < 6 or _is_number(text)
    return kind == "path" and len(text) <= 300 and text.startswith(("/", "~", "C:\\", "D:\\"))


def _is_number(text: str) -> bool:
    return len(text) <= 16 and text.replace(".", "", 1).isdigit()
