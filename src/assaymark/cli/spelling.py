"""Convert lm-eval's spellings of a command line into the one that our parser accepts.

Its users type `--tasks a b c`, `--model_args a=1 b=2`, `--apply_chat_template` without a value, and no sub-command at
all. These are converted on the list of words, so that the commands need not know about them.
"""

from collections.abc import Collection, Sequence

# options that take several words, and what joins the words
SEVERAL = {
    "--tasks": ",", "-t": ",", "--model_args": ",", "-a": ",", "--gen_kwargs": ",", "--wandb_args": ",",
    "--wandb_config_args": ",", "--trackio_args": ",", "--hf_hub_log_args": ",", "--metadata": ",",
}  # fmt: skip
# options whose value is optional -> the value if there is none
OPTIONAL = {"--apply_chat_template": "true", "--fewshot_as_multiturn": "true", "--cache_requests": "true"}


def is_option(word: str) -> bool:
    """Return whether a word is an option, and not a value such as -1."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def with_underscores(word: str) -> str:
    """Return a long option spelled with underscores, its value unchanged: --num-fewshot=5 -> --num_fewshot=5."""
    if not word.startswith("--") or word == "--":
        return word
    name, equals, value = word.partition("=")
    return "--" + name[2:].replace("-", "_") + equals + value


def normalise(words: Sequence[str]) -> list[str]:
    """Return the words of one command (without its name) in our parser's spelling."""
    result: list[str] = []
    rest = [with_underscores(word) for word in words]
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in OPTIONAL and not equals:
            value = rest.pop(0) if rest and not is_option(rest[0]) else OPTIONAL[name]
            result += [name, value]
        elif name in SEVERAL:
            values = [value] if equals else []
            while rest and not is_option(rest[0]):
                values.append(rest.pop(0))
            result += [name, *([SEVERAL[name].join(v.strip(",") for v in values)] if values else [])]
        else:
            result.append(word)
    return result


def without_debug(words: Sequence[str], as_typed: Collection[str]) -> tuple[list[str], bool]:
    """Return the words without `--debug`, and whether it was among them.

    It is accepted anywhere before `--`, but after a command in `as_typed` it belongs to another program.
    """
    end = next((i for i, word in enumerate(words) if word == "--"), len(words))
    first = next((i for i, word in enumerate(words[:end]) if not is_option(word)), end)
    end = first if first < end and words[first] in as_typed else end
    kept = [word for word in words[:end] if word != "--debug"]
    return [*kept, *words[end:]], len(kept) < end


def with_command(words: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Return the words with `run` prepended if they have no sub-command, as in older versions of lm-eval."""
    first = words[0] if words else ""
    old_form = is_option(first) and first not in {"--help", "-h", "--version"} and first not in commands
    return ["run", *words] if old_form else list(words)
