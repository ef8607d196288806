"""`assaymark chat MODEL`: talk with a model, or with two side by side, in the terminal."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, echo, examples
from assaymark.errors import UsageError
from assaymark.records.json_values import dataclass_of

if TYPE_CHECKING:
    from assaymark.hosting.chat import ChatSettings


@dataclass(frozen=True, slots=True)
class _ChatOptions:
    system: str | None
    system_prompt: str | None
    prompt_preset: str
    temperature: float
    top_p: float | None
    top_k: int | None
    min_p: float | None
    seed: int
    max_tokens: int
    stop: tuple[str, ...]


@click.command(cls=Command, epilog=examples("chat DIR", "chat http://127.0.0.1:8000/v1"))
@click.argument("model", metavar="MODEL|URL")
@click.option("--base_url", metavar="URL", help="Server that offers MODEL: `assaymark host`, or OpenAI-compatible.")
@click.option("--with", "other", metavar="MODEL|URL", help="Second model, which answers the same questions.")
@click.option("--system", metavar="TEXT", help="System prompt.")
@click.option("--system_prompt", metavar="NAME|FILE", help="System prompt of the library, or a text file.")
@click.option("--prompt_preset", default="none", metavar="NAME|FILE", help="Published prompt format, not the template.")
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(0, 100), help="0: greedy.")
@click.option("--top_p", type=click.FloatRange(0, 1, min_open=True), help="Sample among this share of probability.")
@click.option("--top_k", type=click.IntRange(0), help="Sample among this many tokens; 0: all.")
@click.option("--min_p", type=click.FloatRange(0, 1), help="Least probability, relative to the best token's.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the sampling.")
@click.option("--max_tokens", default=256, show_default=True, type=click.IntRange(1), help="Most tokens of an answer.")
@click.option("--stop", multiple=True, metavar="TEXT", help="Text that ends an answer; repeatable.")
@click.option("--model_args", metavar="A=1,B=2", help="Arguments of the model: dtype, device, max_length ...")
def chat(model: str, base_url: str | None, other: str | None, model_args: str | None, **options: object) -> None:
    """Talk with MODEL: a folder, a Hub id, or the URL of a host or of any OpenAI-compatible server.

    Ctrl-C stops an answer, Ctrl-D or /exit ends the program; /help lists the commands.
    """
    from assaymark.hosting.chat import Conversation, open_chat_model
    from assaymark.hosting.chat_session import ChatSession

    settings = _settings(dataclass_of(_ChatOptions, options))
    first = Conversation(open_chat_model(model, base_url, model_args), settings)
    sides = [first]
    if other is not None:
        sides.append(Conversation(open_chat_model(other, None, model_args if "://" not in other else None), settings))
    for side in sides:
        side.model.check()
        if side.why_plain is not None:
            echo(f"note: {side.why_plain.partition(';')[0]}; the conversation is sent as plain text", err=True)
    try:
        ChatSession(sides).run()
    finally:
        for side in sides:
            side.model.close()


def _settings(chosen: _ChatOptions) -> "ChatSettings":
    """Return the settings of the conversation. Raises: UsageError."""
    from assaymark.hosting.chat import ChatSettings
    from assaymark.records import GenerationSettings
    from assaymark.tasks.prompt_presets import find_preset, find_system_prompt

    system = chosen.system
    if chosen.system_prompt is not None:
        if system is not None:
            raise UsageError("--system and --system_prompt both set the system prompt; omit one")
        system = find_system_prompt(chosen.system_prompt)
    generation = GenerationSettings(max_tokens=chosen.max_tokens, stop=chosen.stop, seed=chosen.seed)
    if chosen.temperature > 0:
        generation = replace(generation, do_sample=True, temperature=chosen.temperature,
                             top_p=chosen.top_p, top_k=chosen.top_k, min_p=chosen.min_p)  # fmt: skip
    else:
        for name in ("top_p", "top_k", "min_p"):
            if getattr(chosen, name) is not None:
                raise UsageError(f"--{name} needs --temperature above 0: at 0 the most probable token is taken")
    return ChatSettings(system, find_preset(chosen.prompt_preset), generation)
