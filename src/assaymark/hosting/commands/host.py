"""`assaymark host MODEL`: answer an OpenAI-compatible API with a local model."""

from pathlib import Path

import click

from assaymark.cli.output import Command, echo, examples
from assaymark.errors import MissingExtra, UsageError


@click.command(cls=Command, epilog=examples("host DIR --port 8000"))
@click.argument("model", metavar="MODEL")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", default=7600, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one.")
@click.option("--name", metavar="NAME", help="Name of the model in the API (default: that of its folder or id).")
@click.option("--max_tokens", type=click.IntRange(1), metavar="N", help="Most tokens of one answer.")
@click.option(
    "--chat_bos",
    is_flag=True,
    help="Begin chats with BOS as `run --apply_chat_template` does, also where the template writes none.",
)
@click.option("--queue", default=256, show_default=True, type=click.IntRange(1), help="Requests that may wait.")
@click.option(
    "--read_timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="How long an answer waits for a client that does not read it; then its connection is closed.",
)
@click.option("--api_key", multiple=True, metavar="KEY|@FILE", help="Key that requests need; repeatable.")
@click.option("--allow_host", multiple=True, metavar="NAME", help="Host name that clients may use; repeatable.")
@click.option("--model_args", metavar="A=1,B=2", help="Arguments of the model: dtype, device, max_length, n_slots ...")
def host(
    model: str, host: str, port: int, name: str | None, queue: int, model_args: str | None, *, max_tokens: int | None,
    chat_bos: bool, read_timeout: float, api_key: tuple[str, ...], allow_host: tuple[str, ...],
) -> None:  # fmt: skip
    """Answer an OpenAI-compatible API with MODEL, a folder or Hub id.

    POST /v1/chat/completions and /v1/completions, as streams too, with log-probabilities; GET /v1/models and /health.
    Without --host, only this machine can connect.
    """
    from importlib.util import find_spec

    for extra, packages in (("web", ("starlette", "uvicorn")), ("hf", ("torch", "transformers"))):
        if any(find_spec(package) is None for package in packages):
            raise MissingExtra("assaymark host", extra)
    from assaymark.hosting.app import HostSettings, create_app
    from assaymark.hosting.hosted_model import HostedModel
    from assaymark.hosting.serve import listen, names_for, serve
    from assaymark.models.create import create_model
    from assaymark.models.local.local_model import LocalModel

    keys = tuple(_key(key_text) for key_text in api_key)
    names = names_for(host, allow_host, has_key=bool(keys))
    created = create_model("hf", model_args, pretrained=model)
    if not isinstance(created, LocalModel):
        raise UsageError(f"{model} is not a local model")
    with listen(host, port) as listening:
        hosted = HostedModel(created, name or Path(model).name or model, max_tokens, chat_bos=chat_bos)
        app = create_app(hosted, HostSettings(keys, names, queue))
        address, number = listening.getsockname()[:2]
        host_text = f"[{address}]" if ":" in address else address
        info = hosted.engine.info
        echo(
            f"{hosted.name} at http://{host_text}:{number}/v1  ({info.device}, {info.dtype}, "
            f"attention {info.attention}, {hosted.max_length:,} positions; stop with Ctrl-C)"
        )
        serve(
            app,
            listening,
            lambda: echo("\nfinishing requests in progress; Ctrl-C again stops at once", err=True),
            read_seconds=read_timeout,
            log=lambda line: echo(line, err=True),
        )
    created.close()


def _key(argument: str) -> str:
    """Return a key, read from a file where one is named."""
    if not argument.startswith("@"):
        text = argument
    else:
        try:
            text = Path(argument[1:]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--api_key {argument}: {error}") from error
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            "--api_key is empty or has characters that HTTP headers do not allow; expected printable ASCII"
        )
    return text
