"""One-line messages for a command line that cannot be parsed: removed flags, misspelt flags, values of a wrong type."""

import click

__all__ = ["line_of"]

# Flags of earlier lm-eval versions and their forks -> what to use instead.
REMOVED = {
    "--decontamination_ngrams_path": "look for test data in the training data with: assaymark audit contamination",
    "--description_dict_path": "write the description into the task file, as `description:`",
    "--huggingface_token": "set HF_TOKEN, or write --model_args token=...",
    "--output_base_path": "the folder for result files is --output_path",
    "--provide_description": "write the description into the task file, as `description:`",
    "--tasks_list": "list tasks with: assaymark ls tasks",
    "--use_accelerate": "write --model_args device_map=auto",
}


def line_of(error: click.ClickException) -> str:
    """Return what is wrong with a command line and what to do, in one line."""
    context = getattr(error, "ctx", None)
    help_line = f"see `{context.command_path} --help`" if context is not None else "see `assaymark --help`"
    if isinstance(error, click.NoSuchOption):
        if error.option_name in REMOVED:
            return f"{error.option_name} is not supported: {REMOVED[error.option_name]}"
        near = f"; nearest: {', '.join(sorted(error.possibilities))}" if error.possibilities else ""
        return f"no such option {error.option_name}{near}; {help_line}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if not isinstance(error, click.UsageError) or "see `assaymark" in message:
        return message
    return f"{message}; {help_line}"
