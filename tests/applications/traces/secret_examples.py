"""Two sets of examples: secrets where applications leave them, and harmless values that look like them."""
# ruff: noqa: E501 - tables

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.applications.traces.sending import pairs, span, value

PASSWORDS = ("hunter2", "Tr0ub4dor&3", "correct-horse-battery", "x7!pQz_9vLm")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _drawn(draw: random.Random, letters: str, n: int) -> str:
    return "".join(draw.choices(letters, k=n))


def shaped_secrets(draw: random.Random) -> list[str]:
    """Return a key of each of many providers."""
    hexes, capitals = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    part = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "1234567890"}).encode()).decode().rstrip("=")
    body = base64.b64encode(draw.randbytes(120)).decode()
    return [
        f"AKIA{_drawn(draw, capitals, 16)}", f"ASIA{_drawn(draw, capitals, 16)}",
        f"sk-proj-{_drawn(draw, LETTERS, 74)}T3BlbkFJ{_drawn(draw, LETTERS, 74)}",
        f"sk-ant-api03-{_drawn(draw, LETTERS, 93)}AA", f"sk_live_{_drawn(draw, LETTERS, 24)}",
        f"hf_{_drawn(draw, LETTERS, 34)}", f"ghp_{_drawn(draw, LETTERS, 36)}", f"github_pat_{_drawn(draw, LETTERS, 82)}",
        f"glpat-{_drawn(draw, LETTERS, 20)}", f"xoxb-{_drawn(draw, '0123456789', 12)}-{_drawn(draw, LETTERS, 24)}",
        f"AIza{_drawn(draw, LETTERS, 35)}", f"SG.{_drawn(draw, LETTERS, 22)}.{_drawn(draw, LETTERS, 43)}",
        f"npm_{_drawn(draw, LETTERS, 36)}", f"pypi-AgEIcHlwaS5vcmc{_drawn(draw, LETTERS, 60)}",
        f"dop_v1_{_drawn(draw, hexes, 64)}", f"dapi{_drawn(draw, hexes, 32)}", f"SK{_drawn(draw, hexes, 32)}",
        f"hvs.{_drawn(draw, LETTERS, 95)}", f"pplx-{_drawn(draw, LETTERS, 48)}", f"gsk_{_drawn(draw, LETTERS, 52)}",
        f"shpat_{_drawn(draw, hexes, 32)}", f"{part}.{claims}.{_drawn(draw, LETTERS, 43)}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----",
        f"ya29.{_drawn(draw, LETTERS, 60)}",
    ]  # fmt: skip


def _nested(made: object, depth: int) -> str:
    """Return JSON in JSON, so many deep."""
    text = json.dumps(made)
    for _ in range(depth):
        text = json.dumps({"arguments": text})
    return text


def secret_spans() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield 200 secrets, each with a span and with attributes of a resource one of which has it."""
    draw = random.Random(50)
    number = 0

    def made(
        secret: str, resource: dict[str, Any] | None = None, **more: Any
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        nonlocal number
        number += 1
        return secret, span(number, **more), resource or {}

    names = (
        *(
            "aws_secret_access_key",
            "secret_key",
            "access_key",
            "token",
            "OPENAI_KEY",
            "openaiApiKey",
            "pwd",
            "passwords",
        ),
        *("db.password.value", "http.request.header.authorization", "http.request.header.cookie", "x-api-key"),
        *(
            "stripe.secret",
            "AccountKey",
            "PGPASSWORD",
            "clientSecret",
            "auth.token",
            "accessToken",
            "db.pass",
            "credentials",
        ),
    )
    for name in names:
        for password in PASSWORDS:
            yield made(password, attributes={name: password})  # 80
    for at, name in enumerate(("password", "apiKey", "secret_key", "token")):
        password = PASSWORDS[at]
        yield made("12345678", attributes={"input.value": json.dumps({"password": 12345678})})
        yield made(password, attributes={"input.value": json.dumps({"a": [1, {name: [password, "b"]}]})})
        yield made(password, attributes={"input.value": repr({"user": "ada", name: password})})
        yield made(password, attributes={"input.value": f"Settings(user='ada', {name}='{password}')"})
        for depth in (0, 1, 2, 3, 4):
            text = _nested({"user": "ada", name: f"{password}9'x"}, depth)
            yield made(
                password, attributes={"llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments": text}
            )
        yield made(password, attributes={"input.value": f'the call was {{"{name}": "{password}'})  # cut off
        yield made(password, events=[{"name": "call", "timeUnixNano": "1",
                   "attributes": pairs({"body": _nested({name: password}, 1)})}])  # fmt: skip
        yield made(password, resource={f"deployment.{name}": password})
        yield made(
            password,
            attributes={"exception.stacktrace": f"File a.py, line 3\n    login({name}='{password}')\nKeyError"},
        )
        yield made(
            "p4ssw0rd!" + password, attributes={"db.connection_string": f"postgresql://ada:p4ssw0rd!{password}@host/db"}
        )
        yield made(password, attributes={"url.full": f"https://example.org/v1?a=1&api_key={password}"})  # 15 * 4
    for at, secret in enumerate(shaped_secrets(draw)):
        attribute = value(secret)
        if at % 6 == 0:
            yield made(secret, name=f"call with {secret}", events=[{"name": secret, "timeUnixNano": "1"}])
        elif at % 6 == 1:
            yield made(secret, traceState=f"vendor={secret}", attributes={f"seen {secret}": 1})
        elif at % 6 == 2:
            packed = base64.b64encode(f"raw {secret} raw".encode()).decode()
            sent = span(number + 1)
            sent["attributes"] = [{"key": "raw", "value": {"bytesValue": packed}}]
            number += 1
            yield secret, sent, {}
        elif at % 6 == 3:
            yield made(secret, status={"code": 2, "message": f"401: {secret} is unknown"})
        elif at % 6 == 4:
            nested = {"kvlistValue": {"values": [{"key": "note", "value": {"arrayValue": {"values": [attribute]}}}]}}
            sent = span(number + 1)
            sent["attributes"] = [{"key": "deep", "value": nested}]
            number += 1
            yield secret, sent, {}
        else:
            yield made(
                secret, links=[{"traceId": "1" * 32, "spanId": "1" * 16, "attributes": pairs({"with": f"a {secret}"})}]
            )
    basic = base64.b64encode(b"ada:open sesame").decode()
    others = (
        (basic, f"Authorization: Basic {basic}"), (basic, f"curl -H 'authorization: basic {basic}' https://a.example"),
        ("abcdef0123456789", "bearer abcdef0123456789"), ("abcdef0123456789", '["authorization", "Bearer abcdef0123456789"]'),
        ("s3cretpw", "curl -u ada:s3cretpw https://a.example"), ("s3cretpw", "mysql --user ada --password s3cretpw"),
        ("s3cretpw", '["mysql", "--password", "s3cretpw"]'), ("s3cretpw", "<user>ada</user><password>s3cretpw</password>"),
        ("s3cretpw", "host=db user=ada password=s3cretpw"), ("s3cretpw", "Server=db;User Id=ada;Pwd=s3cretpw;"),
        ("s3cretpw", "export DB_PASSWORD=s3cretpw"), ("swordfish", "user: ada\npassword: swordfish\nhost: db"),
        ("s3cretpw", "ALTER USER ada WITH PASSWORD 's3cretpw'"), ("s3cretpw", "create user ada identified by 's3cretpw'"),
        ("s3cretpw", "my password is s3cretpw, can you log in?"), ("s3cretpw", '[{"name": "X-Api-Key", "value": "s3cretpw"}]'),
        ("s3cretpw", "redis://:s3cretpw@cache:6379/0"), ("pa/s3cret?w", "postgres://ada:pa/s3cret?w@db/x"),
        ("s3cretpw", "https://a.example/?next=https%3A%2F%2Fb.example%3Fapi_key%3Ds3cretpw"),
        ("s3cretpw", '{"url": "https://a.example?user=ada\\u0026api_key=s3cretpw"}'),
        ("session=abc123", "Cookie: theme=dark; session=abc123; x=1"), ("s3cretpw", "your api key: s3cretpw"),
        ("s3cretpw", '{"password" : SecretStr("s3cretpw")}'), ("s3cretpw", "{b'password': b's3cretpw'}"),
        ("s3cretpw", '{"headers": {"Authorization": "s3cretpw"}}'), ("s3cretpw", "config[\"secret_key\"] = 's3cretpw'"),
        ("s3cretpw", "('password', 's3cretpw')"), ("s3cretpw", "X-Api-Key: s3cretpw"),
        ("s3cretpw", '{"secrets": {"db": {"value": "s3cretpw"}}}'), ("s3cretpw", "AccountName=a;AccountKey=s3cretpw=="),
        ("s3cretpw", "line one\\npassword=s3cretpw\\nline two"), ("s3cretpw", '{"pass\\u0077ord": 1, "refresh_token": "s3cretpw"}'),
        ("s3cretpwabcd", "https://a.blob.example/c?sv=2020&sig=s3cretpwabcd%3D"),
        ("s3cretpw", "password => 's3cretpw'"), ("s3cretpw", "ftp://ada:s3cretpw@files.example/x"),
        ("s3cretpw", "OPENAI_API_KEY='s3cretpw' python app.py"),
    )  # fmt: skip
    for secret, text in others:
        yield made(secret, attributes={"output.value": text})


def harmless_attributes() -> Iterator[tuple[str, Any]]:
    """Yield 2,000 attributes that have no secret."""
    draw = random.Random(51)
    words = "the model reads a question about rivers and answers with three short sentences in plain English".split(" ")  # noqa: SIM905
    counts = (
        *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "llm.token_count.prompt", "max_tokens", "tokens"),
        *("llm.token_count.prompt_details.cache_read", "max_new_tokens", "time_to_first_token", "tokens_per_second"),
        *("cost_per_token", "n_keys", "password_length", "secret_count", "token_id", "token", "eos_token_id"),
    )
    texts = (
        ("gen_ai.token.type", "input"), ("session.id", "9f3c-22"), ("author", "Ada Lovelace"), ("secretary", "Bob Cratchit"),
        ("cache_key", "user:17:profile"), ("primary_key", "id"), ("sort_key", "created"), ("key", "C sharp minor"),
        ("public_key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ"), ("next_page_token", "CAUQAA"), ("eos_token", "<|im_end|>"),
        ("keyboard", "qwerty"), ("monkey", "macaque"), ("passage", "It was the best of times"), ("compass", "north"),
        ("password_policy", "at least 12 letters"), ("api_key_name", "production"), ("aws_access_key_id_source", "profile"),
        ("secret_name", "prod/db"), ("token_type", "bearer"), ("bos_token", "<s>"), ("PWD", "/home/ada/app"),
        ("api_key", "${OPENAI_API_KEY}"), ("password", "********"), ("secret.version", "3"), ("authorization_url", "https://a.example/oauth"),
        ("input.value", "How do I reset my password? The page says the token is expired."),
        ("input.value", "What is the secret of good bread? The key is time."), ("output.value", "Password: a word that lets you pass."),
        ("input.value", "Explain basic understanding of bearer authentication and token bucket rate limits"),
        ("output.value", "Set the api_key parameter, then pass the token to the client."),
        ("input.value", "def login(user: str, password: str, token: Optional[str] = None) -> bool:"),
        ("input.value", "client = Client(api_key=os.environ['OPENAI_API_KEY'], password=password)"),
        ("input.value", "token = tokenizer.encode(text)[0]\nsecret = random.randint(1, 100)\nkey = lambda x: x[1]"),
        ("output.value", "for token in tokens:\n    print(token, tokens[token])"),
        ("llm.tools.0.tool.json_schema", json.dumps({"type": "object", "properties": {
            "password": {"type": "string", "description": "the user's password"}, "token": {"type": "string"}},
            "required": ["password", "token"]})),
        ("llm.invocation_parameters", json.dumps({"model": "gpt-4o", "max_tokens": 512, "stop": ["\n"], "logit_bias": {"50256": -100}})),
        ("logprobs", json.dumps([{"token": " antidisestablishmentarianism", "logprob": -0.5, "bytes": [32]}])),
        ("url.full", "https://a.example:8080/users/@ada?page=2&sort=key&token_type=x"), ("db.statement", "SELECT password, token FROM users WHERE key = ?"),
        ("url.full", "http://localhost:7500/v1/traces"), ("output.value", "Meet me at 10:30 @ the cafe, see https://a.example/a:b"),
        ("output.value", "Risk-assessment-of-the-disk-and-task-list is done"), ("css", "sk-button-primary-large-rounded"),
        ("exception.message", "401: the api key is invalid; the password is wrong"), ("code.function", "get_secret_value"),
        ("exception.stacktrace", "  File a.py, line 3, in check_token\n    raise TokenError(token)\nTokenError: token expired"),
        ("output.value", "The cookie: a small sweet biscuit. The secret: more butter."), ("http.cookie_consent", "accepted"),
        ("mail", "ada@example.org"), ("output.value", "keyword: rivers\nkeypoints: three\nauthor: Ada"),
        ("output.value", "PRIVATE KEY files begin with -----BEGIN PRIVATE KEY----- and are secret."),
    )  # fmt: skip
    for at in range(500):
        yield counts[at % len(counts)], draw.randrange(100_000) if at % 3 else draw.random()
    for at in range(500):
        name, text = texts[at % len(texts)]
        yield name, text
    for at in range(250):
        raw = draw.randbytes(32)
        kinds = (hashlib.sha256(raw).hexdigest(), hashlib.sha1(raw, usedforsecurity=False).hexdigest(), raw.hex()[:16],
                 f"{raw.hex()[:8]}-{raw.hex()[8:12]}-4{raw.hex()[13:16]}-a{raw.hex()[17:20]}-{raw.hex()[20:32]}",
                 f"chatcmpl-{_drawn(draw, LETTERS, 29)}", f"call_{_drawn(draw, LETTERS, 24)}")  # fmt: skip
        yield (
            ("content.hash", "commit", "id", "request.uuid", "gen_ai.response.id", "tool_call.id")[at % 6],
            kinds[at % 6],
        )
    for at in range(250):
        image = base64.b64encode(draw.randbytes(3000)).decode()
        yield "llm.input_messages.0.message.contents.1.image.url", f"data:image/png;base64,{image}" if at % 2 else image
    for _ in range(250):
        draw.shuffle(words)
        content = {
            "role": "user",
            "content": " ".join(words),
            "n_tokens": draw.randrange(5000),
            "key": draw.choice(words),
        }
        yield "input.value", _nested(content, draw.randrange(3))
    for _ in range(250):
        draw.shuffle(words)
        hint = draw.choice(("token", "password", "key", "secret", "cookie", "pass", "credential"))
        yield (
            "output.value",
            f"{' '.join(words[:6])} {hint} {' '.join(words[6:])}. The {hint} {words[0]}: {' '.join(words[:3])}",
        )
