"""Secrets, recognised by their names or their form: keys of providers, JWTs, private keys, headers, passwords in URLs.

A name (`db.password.value` and `openaiApiKey`, not `input_tokens`) is divided into words at dots, underscores, dashes
and changes of case. The words are those of gitleaks' rule `generic-api-key` and more, and the shapes of keys are those
of its rules, whose lengths are approximate lower bounds here. Every expression is linear in the text: no repeat is
within a repeat.

Source: https://github.com/gitleaks/gitleaks, config/gitleaks.toml at b58d3f1.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

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
        return len(text) < 6 or (len(text) <= 16 and text.replace(".", "", 1).isdigit())
    return kind == "path" and len(text) <= 300 and text.startswith(("/", "~", "C:\\", "D:\\"))


class Shape(NamedTuple):
    """A kind of secret. marks: texts, with one of which each match begins, or which is in each if `is_within`."""

    name: str
    marks: tuple[str, ...]  # in lower case if case does not matter
    pattern: re.Pattern[str]
    is_within: bool = False
    is_caseless: bool = False
    is_one: Callable[[str], bool] = lambda _text: True  # of what matched


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _is_bearer(text: str) -> bool:
    """Return whether the text after `bearer` is a token rather than a word of a sentence."""
    token = text.split(None, 1)[1]
    return _has_digit(token) or (len(token) >= 20 and token.lower() != token)


def _is_basic(text: str) -> bool:
    """Return whether the text after `basic` is a name and a password, in base64."""
    packed = text.split(None, 1)[1]
    try:
        plain = base64.b64decode(packed + "=" * (-len(packed) % 4))
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and all(byte >= 32 for byte in plain)


def _of(name: str, marks: str, pattern: str) -> Shape:
    return Shape(name, tuple(marks.split()), re.compile(pattern))


def _within(name: str, marks: str, pattern: str) -> Shape:
    return Shape(name, tuple(marks.split()), re.compile(pattern), is_within=True)


SHAPES = (
    _of("AWS key", "A3T AKIA ASIA ABIA ACCA", r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _of("AWS key", "ABSK", r"\bABSK[A-Za-z0-9+/]{100,300}={0,2}"),
    _of("AWS key", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{20,2000}={0,2}"),
    Shape("provider's key", ("sk-", "pk-", "rk-"), re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,300}"),
          is_one=lambda text: _has_digit(text) or "-" not in text[3:]),
    _within("Stripe key", "_test_ _live_ _prod_", r"\b(?:sk|rk|pk)_(?:test|live|prod)_[A-Za-z0-9]{10,99}"),
    _of("webhook secret", "whsec_", r"\bwhsec_[A-Za-z0-9+/=]{16,100}"),
    _of("Hugging Face token", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{20,60}"),
    _of("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,255}"),
    _of("GitLab token", "glpat- gldt- glrt- glptt- glft- glsoat- gloas- glcbt- glimt- glagent- glffct-",
        r"\bgl(?:pat|dt|rt|ptt|ft|soat|oas|cbt|imt|agent|ffct)-[A-Za-z0-9_.-]{20,300}"),
    _of("Slack token", "xox xapp-", r"\b(?:xox[abeoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9-]{10,250}"),
    _of("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,80}"),
    _of("Teams webhook", ".webhook.office.com/", r"\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{40,250}"),
    _within("Discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{10,25}/[\w-]{30,100}"),
    _of("Google key", "AIza", r"\bAIza[\w-]{30,50}"),
    _of("Google token", "ya29. GOCSPX-", r"\b(?:ya29\.|GOCSPX-)[\w-]{20,1000}"),
    _of("SendGrid key", "SG.", r"\bSG\.[\w=-]{16,40}\.[\w=-]{16,60}"),
    _of("Mailgun key", "key-", r"\bkey-[0-9a-f]{32}\b"),
    _within("Mailchimp key", "-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    _of("Brevo key", "xkeysib-", r"\bxkeysib-[a-f0-9]{40,64}-[A-Za-z0-9]{10,20}"),
    _of("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{30,60}"),
    _of("PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{50,1000}"),
    _of("RubyGems key", "rubygems_", r"\brubygems_[a-f0-9]{40,60}"),
    _within("DigitalOcean token", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{40,80}"),
    _of("Databricks token", "dapi", r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    _of("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,40}"),
    _of("Square token", "sq0", r"\bsq0(?:atp|csp)-[\w-]{20,60}"),
    _of("Twilio key", "SK", r"\bSK[0-9a-f]{32}\b"),
    _of("Postman key", "PMAK-", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{30,40}"),
    _of("Pulumi token", "pul-", r"\bpul-[a-f0-9]{40}\b"),
    _of("Linear key", "lin_api_", r"\blin_api_[A-Za-z0-9]{30,50}"),
    _of("Notion token", "ntn_", r"\bntn_[0-9]{8,14}[A-Za-z0-9]{30,40}"),
    _of("provider's key", "pplx- gsk_ xai- r8_", r"\b(?:pplx-|gsk_|xai-|r8_)[A-Za-z0-9]{30,100}"),
    _of("Vault token", "hvs. hvb.", r"\bhv[sb]\.[\w-]{24,300}"),
    _of("Sentry token", "sntrys_ sntryu_", r"\bsntry[su]_[A-Za-z0-9+/=_]{30,500}"),
    _of("Grafana token", "glc_ glsa_", r"\bgl(?:c|sa)_[A-Za-z0-9+/=_]{30,420}"),
    _of("Alibaba key", "LTAI", r"\bLTAI[A-Za-z0-9]{16,24}\b"),
    _of("Atlassian token", "ATATT3", r"\bATATT3[\w=-]{50,300}"),
    _of("Doppler token", "dp.pt.", r"\bdp\.pt\.[A-Za-z0-9]{30,60}"),
    _within("Azure secret", "Q~", r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    _within("Telegram token", ":AA", r"\b\d{8,10}:AA[\w-]{32,34}"),
    _of("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,70}"),
    _of("Assaymark token", "asm_", r"\basm_[A-Za-z0-9_-]{30,60}"),
    _within("JWT", ".ey", r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.ey[A-Za-z0-9_-]{8})"  # once for each run of letters
        r"(?P<before>[A-Za-z0-9_-]*?)\bey[A-Za-z0-9_-]{12,}+\.ey[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,4000}={0,2})?"),
    _within("private key", "PRIVATE KEY", r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?=[^<>]{48})"
        r"[^-]*+(?:-(?!----)[^-]*+)*(?:-----END[ A-Z0-9_-]{0,100}-----)?"),
    _within("signature of a URL", "sig= ignature= redential=",
        r"(?<=[?&;])(?:sig|[A-Za-z-]{0,20}[Ss]ignature|[A-Za-z-]{0,20}[Cc]redential)=[\w%+/=.~-]{12,2000}"),
    Shape("SQL password", ("identified",), is_caseless=True,
          pattern=re.compile(r"\bidentified by(?: password)? {1,4}\\*'[^']{1,200}'", re.IGNORECASE)),
    Shape("bearer", ("bearer",), is_caseless=True, is_one=_is_bearer,
          pattern=re.compile(r"\bbearer\s{1,4}[A-Za-z0-9._~+/-]{8,8000}={0,2}", re.IGNORECASE)),
    Shape("basic", ("basic",), is_caseless=True, is_one=_is_basic,
          pattern=re.compile(r"\bbasic\s{1,4}[A-Za-z0-9+/]{4,2000}={0,2}", re.IGNORECASE)),
)  # fmt: skip
_URL_PASSWORD = re.compile(r"(://[^\s/?#:@\"'<>\\]{0,200}:)(?![*$<{\[]|%s)[^\s/?#\"'<>\\]{1,300}(@)(?=[\w\[.-])")
_DATABASE_PASSWORD = re.compile(  # often written with slashes and question marks that a URL would escape
    r"\b((?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle)(?:\+\w{1,20})?"
    r"://[^\s/:@\"'<>\\]{0,200}:)(?![*$<{\[]|%s)[^\s\"'<>\\]{1,300}(@)(?=[\w\[.-])"
)
_CURL = re.compile(
    r"((?:\s-u|--user|--proxy-user)(?:\s{1,4}|=)\\*[\"']?[^\s:\"'\\]{1,100}:)(?![*$<{])[^\s\"'\\]{1,200}()"
)


def _anchored(letter: str) -> tuple[re.Pattern[str], list[str]]:
    """Return an expression for all marks that have this rare letter, which is sought first, and the mark of each group.

    At most one fits a place: of their parts before the letter none ends with another.
    """
    marks = sorted(mark for shape in SHAPES for mark in shape.marks if _anchor(mark) == letter)
    parts = [(before + letter, after) for before, _, after in (mark.partition(letter) for mark in marks)]
    groups = "|".join(f"((?<={re.escape(before)})(?={re.escape(after)}))" for before, after in parts)
    return re.compile(f"{re.escape(letter)}(?:{groups})"), marks


def _anchor(mark: str) -> str:
    return next((letter for letter in "_-.=" if mark.find(letter) > 0), "")


_ANCHORED = tuple(map(_anchored, "_-.="))
_BARE_MARKS = tuple((mark, shape.is_caseless) for shape in SHAPES for mark in shape.marks if not _anchor(mark))


def shapes_in(text: str, lower: str) -> tuple[Shape, ...]:
    """Return the kinds of which a text has a mark, in one search. lower: the text in lower case."""
    marks = {mark for mark, is_caseless in _BARE_MARKS if mark in (lower if is_caseless else text)}
    for pattern, of_groups in _ANCHORED:
        marks.update({of_groups[(found.lastindex or 0) - 1] for found in pattern.finditer(text)})
    return tuple(shape for shape in SHAPES if not marks.isdisjoint(shape.marks))


def without_shapes(text: str, shapes: Iterable[Shape], mark: Callable[[str], str]) -> str:
    """Return a text in which values of these shapes are replaced by `mark(kind)`, and passwords in URLs."""
    for shape in shapes:
        text = _without(text, shape, mark(shape.name))
    if "://" in text and "@" in text:
        for pattern in (_URL_PASSWORD, _DATABASE_PASSWORD):
            text = pattern.sub(rf"\1{mark('password of a URL')}\2", text)
    if "-u " in text or "-user" in text:
        text = _CURL.sub(rf"\1{mark('password')}\2", text)
    return text


def _without(text: str, shape: Shape, replacement: str) -> str:
    if shape.is_within:
        if not any(mark in text for mark in shape.marks):
            return text
        kept = r"\g<before>" if "before" in shape.pattern.groupindex else ""
        return shape.pattern.sub(kept + replacement, text)
    within = in_lower_case(text) if shape.is_caseless else text
    places: list[int] = []
    for mark in shape.marks:
        at = within.find(mark)
        while at >= 0:
            places.append(at)
            at = within.find(mark, at + len(mark))
    pieces: list[str] = []
    done = 0
    for place in sorted(places):
        found = shape.pattern.match(text, place) if place >= done else None
        if found is not None:
            pieces += (text[done:place], replacement if shape.is_one(found[0]) else found[0])
            done = found.end()
    return "".join((*pieces, text[done:])) if pieces else text


def in_lower_case(text: str) -> str:
    """Return a text in lower case, of the same length."""
    return text.replace("\u0130", "i").lower()
