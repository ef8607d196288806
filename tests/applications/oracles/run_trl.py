"""Run in the environment of `trl.txt`: train on a file with TRL, and read it with torchtune, as the page says.

Reads {"site": folder of torch and transformers, "model": folder, "rows": content of train.jsonl in this folder, "trl":
the page's program, "torchtune": the page's configuration of a data set}; writes what TRL trained on and its losses, and
what torchtune read.
"""

import json
import sys
from functools import partial
from typing import Any

given = json.load(sys.stdin)
sys.path.append(given["site"])

import trl  # noqa: E402
import yaml  # noqa: E402

import datasets  # noqa: E402

datasets.disable_progress_bars()
trl.SFTConfig = partial(trl.SFTConfig, bf16=False, use_cpu=True, disable_tqdm=True)  # the tests' machine has no GPU


class Texts:
    """In the place of torchtune's tokenizers: keeps each message, with whether it is learnt."""

    def __call__(self, sample: dict[str, Any], inference: bool = False) -> dict[str, Any]:
        """Keep an example's messages, and return some token."""
        messages = sample["messages"]
        self.read.append([[m.role, m.text_content, not m.masked] for m in messages])
        return {"tokens": [1], "mask": [False]}

    def __init__(self) -> None:
        self.read: list[list[Any]] = []


def read_by_torchtune(configuration: str) -> list[list[Any]]:
    """Return the messages of each example."""
    from omegaconf import OmegaConf
    from torchtune.config import instantiate

    tokenizer = Texts()
    made = instantiate(OmegaConf.create(yaml.safe_load(configuration))["dataset"], tokenizer)
    for at in range(len(made)):
        made[at]
    return tokenizer.read


def trained_by_trl(program: str) -> dict[str, Any]:
    """Return the losses, and the text of each example as TRL tokenized it."""
    names: dict[str, Any] = {"MODEL": given["model"]}
    exec(compile(program, "docs/fine_tuning.md", "exec"), names)
    trainer = names["trainer"]
    texts = [trainer.processing_class.decode(row["input_ids"]) for row in trainer.train_dataset]
    return {"texts": texts, "losses": [each["loss"] for each in trainer.state.log_history if "loss" in each]}


answer = {"torchtune": read_by_torchtune(given["torchtune"]), "trl": trained_by_trl(given["trl"])}
sys.stdout.write("\n" + json.dumps(answer) + "\n")
