"""An agent with one tool, bash: mini-swe-agent's protocol, its limits and its trajectories, in the sandbox.

Source: SWE-agent/mini-swe-agent, release 2.4.6 (MIT): protocol, limits and format; the prompt is our own.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from assaymark.errors import ModelError, UsageError
from assaymark.models.cost.bill import Bill, BillingRules
from assaymark.models.cost.prices import Price
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, GenerationSettings, Message, QueryKind, Request, TextPart, content_hash
from assaymark.stopping import raise_if_requested
from assaymark.swe.attempts import shown_generated, shown_interpreter, without_middle
from assaymark.swe.environments import Environment
from assaymark.swe.instances import LONGEST_PATCH, Instance
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

Turn = tuple[Literal["system", "user", "assistant"], str]
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
LONGEST_OUTPUT = 10_000  # characters; of a longer one the first and the last half are shown
_ACTION = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n?```", re.DOTALL)
_SYSTEM = (
    "You solve software issues in a repository by running bash commands. Each of your answers has a short thought and "
    "exactly one command in a block:\n\n```bash\nCOMMAND\n```\n\nEach command runs in a new shell in the repository's "
    "folder; changes of files stay, variables and folders do not. There is no network."
)
_TASK = (
    "Solve this issue by changing files of the repository in {folder}, but not its tests:\n\n"
    "<issue>\n{issue}\n</issue>\n"
    "\nWhen you are done, write the patch with `git diff -- FILES > /tmp/patch.txt`, look at it, and submit it "
    f"with this one command:\n\n```bash\necho {SUBMIT} && cat /tmp/patch.txt\n```\n"
)
_WRONG_FORMAT = "Your answer has {n} blocks of bash; expected exactly one:\n\n```bash\nCOMMAND\n```"


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. cost: of this call; None if the model's price is not known."""

    text: str
    cost: float | None


class Asker:
    """A model and how it is asked."""

    def __init__(self, model: Model, settings: GenerationSettings, price: Price | None) -> None:
        """Raises: UsageError for a model that generates no text."""
        if QueryKind.GENERATE not in model.answers:
            raise UsageError(f"{model.identity.name} generates no text; expected a model that does")
        self.model, self.settings, self.price = model, settings, price

    def ask(self, turns: Sequence[Turn]) -> Reply:
        """Return the model's answer to a conversation. Raises: ModelError where it gives none."""
        messages = tuple(Message(role, (TextPart(text),)) for role, text in turns)
        segments = () if self.model.takes_messages else (self._plain(messages),)
        digest = content_hash([list(turn) for turn in turns])
        request = Request("swe", 0, digest, segments, (GenerateQuery(0, self.settings),), messages, turn=len(turns))
        bill = None if self.price is None else Bill(self.price, BillingRules.of(self.model.identity), None)
        outputs = list(self.model.answer([request]))
        if not outputs or outputs[0].text is None:
            raise ModelError(outputs[0].error if outputs and outputs[0].error else "the model gave no answer")
        if bill is not None:
            bill.charge(request, outputs)
        return Reply(outputs[0].text, None if bill is None else bill.spent)

    def _plain(self, messages: Sequence[Message]) -> str:
        try:
            return self.model.render(messages)
        except UsageError:  # it has no template
            return "\n\n".join(message.text for message in messages) + "\n"


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of an agent."""

    n_steps: int = 250
    cost: float = 3.0  # where the model's price is known
    seconds: float = 3600.0
    command_seconds: float = 60.0
    n_format_errors: int = 3  # in a row


@dataclass(frozen=True, slots=True)
class AgentRun:
    """How an agent ended.

    Attributes:
        exit_status: Submitted, LimitsExceeded, TimeExceeded or RepeatedFormatError.
        patch: what it submitted; empty where it did not.
        n_calls: of the model.
        cost: of all; None where the price is not known.
        trajectory: in mini-swe-agent's format.
    """

    exit_status: str
    patch: str
    n_calls: int
    cost: float | None
    trajectory: Mapping[str, object]


def run_agent(
    asker: Asker, instance: Instance, folder: Path, environment: Environment, limits: AgentLimits, sandbox: SweLimits
) -> AgentRun:
    """Let a model solve an instance.

    Args:
        instance: whose issue; neither its patch nor its tests are shown.
        folder: has the copy that the agent changes, `work`, and an empty folder `scratch`.
        environment: whose interpreter the agent has.
        sandbox: of each command, beside its time.

    Raises: ModelError where the model gives no answer; PlanError without a sandbox.
    """
    variables = {"PAGER": "cat", "GIT_PAGER": "cat", "TQDM_DISABLE": "1", **environment.variables}
    variables["PATH"] = f"{Path(environment.python).parent}:/usr/bin:/bin"
    readable = {**shown_interpreter(environment), **shown_generated(environment, folder / "work")}
    place = Workplace(
        folder / "work", environment.folder, readable, variables, folder / "scratch",
        image=environment.image, engine=environment.where,
    )  # fmt: skip
    per_command = SweLimits(limits.command_seconds, sandbox.memory_bytes, sandbox.n_processes)
    turns: list[Turn] = [
        ("system", _SYSTEM),
        ("user", _TASK.format(folder=environment.folder, issue=instance.problem_statement)),
    ]
    messages: list[dict[str, object]] = [{"role": role, "content": text, "extra": {}} for role, text in turns]
    started, n_calls, n_errors, costs = time.monotonic(), 0, 0, [0.0]
    is_priced, status, patch = True, "", ""
    while not status:
        raise_if_requested()
        if n_calls >= limits.n_steps or sum(costs) > limits.cost:
            status = "LimitsExceeded"
            break
        if time.monotonic() - started > limits.seconds:
            status = "TimeExceeded"
            break
        reply = asker.ask(turns)
        n_calls += 1
        costs.append(reply.cost or 0.0)
        is_priced = is_priced and reply.cost is not None
        actions = _ACTION.findall(reply.text)
        extra = {"actions": [{"command": each} for each in actions], "cost": reply.cost, "timestamp": time.time()}
        messages.append({"role": "assistant", "content": reply.text, "extra": extra})
        turns.append(("assistant", reply.text))
        if len(actions) != 1:
            n_errors += 1
            observation, code = _WRONG_FORMAT.format(n=len(actions)), None
            if n_errors == limits.n_format_errors:
                status = "RepeatedFormatError"
        else:
            n_errors = 0
            ended = run_sandboxed(["/bin/bash", "-c", actions[0]], place, per_command)
            first, _, rest = ended.output.lstrip().partition("\n")
            if first.strip() == SUBMIT and ended.status == 0 and not ended.limit:
                status, patch = "Submitted", rest[:LONGEST_PATCH]
            code = ended.status
            shown = without_middle(ended.output, LONGEST_OUTPUT)
            observation = f"<returncode>{code}</returncode>\n<output>\n{shown}</output>"
            if ended.limit:
                observation = f"The command was ended: {ended.limit}.\n{observation}"
        messages.append(
            {"role": "user", "content": observation, "extra": {"returncode": code, "timestamp": time.time()}}
        )
        turns.append(("user", observation))
    cost = sum(costs) if is_priced and n_calls else None
    messages.append({"role": "exit", "content": patch, "extra": {"exit_status": status, "submission": patch}})
    trajectory = {
        "info": {
            "model_stats": {"instance_cost": cost or 0.0, "api_calls": n_calls},
            "config": {"agent": asdict(limits), "model": {"model_name": asker.model.identity.name}},
            "mini_version": "2.4.6",
            "exit_status": status,
            "submission": patch,
        },
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": instance.instance_id,
    }
    return AgentRun(status, patch, n_calls, cost, trajectory)
