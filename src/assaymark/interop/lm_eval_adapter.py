"""Our engine inside lm-evaluation-harness: a model named `assaymark` with the arguments of its `hf`.

Importing this module registers the name with lm-eval. Tasks, filters, metrics and files remain lm-eval's own; only the
model changes. All requests of a kind are passed at once, so that shared prefixes are computed once. lm-eval cannot
represent a failed request, so the first failure ends the run, as it does with `hf`.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from assaymark.errors import MissingExtra, ModelError, UsageError
from assaymark.models.create import local
from assaymark.models.local.local_model import LocalModel
from assaymark.records import (
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    Output,
    Progress,
    Query,
    Request,
    RollingQuery,
    TextPart,
    canonical_json,
)
from assaymark.tasks.generation import settings_of

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

try:
    from lm_eval.api.model import LM, TemplateLM
    from lm_eval.api.registry import model_registry, register_model
    from tqdm import tqdm  # type: ignore[import-untyped]
except ImportError:
    raise MissingExtra("our model inside lm-eval", "lm-eval") from None

NAME = "assaymark"
UNCHOSEN_DEVICES = ("cuda:0", "cuda")  # lm-eval's default, which its `hf` treats as "a GPU if there is one"
T = TypeVar("T", tuple[float, bool], float, str)


class AssaymarkLM(LM):  # type: ignore[misc]  # lm-eval has no types
    """A local model with lm-eval's interface; answers equal those of `hf` up to the rounding of float32."""

    chat_template = TemplateLM.chat_template  # lm-eval's own rule for the template that a results file names

    def __init__(self, **model_args: object) -> None:
        super().__init__()
        if model_args.get("pretrained") is None:
            raise UsageError(f"no model was named; expected --model {NAME} --model_args pretrained=<folder or Hub id>")
        device = model_args.get("device")
        made = local({**model_args, "device": "auto" if device in UNCHOSEN_DEVICES else device})
        if not isinstance(made, LocalModel):
            raise UsageError(f"{type(made).__name__} is not a local model; expected pretrained=<folder or Hub id>")
        self.model = made

    # ------------------------------------------------------------------------------------ what lm-eval looks at

    @property
    def tokenizer(self) -> object:
        """The transformers tokenizer: lm-eval writes its special tokens into the results."""
        return self.model.tokenizer

    @property
    def tokenizer_name(self) -> str:
        """The name by which lm-eval's cache of rendered requests distinguishes tokenizers."""
        return str(self.model.tokenizer.name_or_path).replace("/", "__")

    @property
    def max_length(self) -> int:
        """The context length in tokens."""
        return self.model.max_length

    @property
    def eot_token_id(self) -> int | None:
        """The token that ends a text."""
        return self.model.tokenizer.eos_token_id  # type: ignore[no-any-return]

    def get_model_info(self) -> dict[str, object]:
        """Return the model's entries of `config` in lm-eval's results."""
        identity = self.model.identity
        return {
            "model_num_parameters": -1 if identity.n_parameters is None else identity.n_parameters,
            "model_dtype": f"torch.{identity.dtype}",
            "model_revision": identity.revision or "main",
            "model_sha": identity.content_hash or "",
        }

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Return a chat as one text under the model's template."""
        messages = [Message(turn["role"], (TextPart(turn["content"]),)) for turn in chat_history]  # type: ignore[arg-type]
        return self.model.render(messages, continue_final=not add_generation_prompt)

    # ------------------------------------------------------------------------------------------------ answering

    def loglikelihood(self, requests: Sequence["Instance"], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return log-probability and greediness of each continuation, in nats."""
        arguments = [instance.args for instance in requests]
        own = [
            _request(position, context, LoglikelihoodQuery(0, continuation))
            for position, (context, continuation) in enumerate(arguments)
        ]
        return self._answers(
            "loglikelihood",
            arguments,
            own,
            lambda output: (_nats_of(output), bool(output.is_greedy)),
            quiet=disable_tqdm,
        )

    def loglikelihood_rolling(self, requests: Sequence["Instance"], disable_tqdm: bool = False) -> list[float]:
        """Return the log-probability of each complete text, in nats."""
        arguments = [instance.args for instance in requests]
        own = [_request(position, "", RollingQuery(0, args[0])) for position, args in enumerate(arguments)]
        return self._answers("loglikelihood_rolling", arguments, own, _nats_of, quiet=disable_tqdm)

    def generate_until(self, requests: Sequence["Instance"], disable_tqdm: bool = False) -> list[str]:
        """Return the text generated after each prompt.

        lm-eval represents repeats as equal requests; these become one request with repeats, so that sampled answers
        differ.
        """
        arguments = [instance.args for instance in requests]
        same: dict[tuple[str, str], list[int]] = {}
        for position, (context, kwargs) in enumerate(arguments):
            same.setdefault((context, canonical_json(kwargs)), []).append(position)
        own = []
        for (context, _), positions in same.items():
            settings = settings_of("lm-eval's request", arguments[positions[0]][1], len(positions))
            own.append(_request(positions[0], context, GenerateQuery(0, settings)))
        repeats = {positions[0]: positions for positions in same.values()}
        return self._answers(
            "generate_until", arguments, own, lambda output: output.text or "", repeats=repeats, quiet=disable_tqdm
        )

    def _answers(
        self,
        kind: str,
        arguments: Sequence[tuple[JsonValue, ...]],
        own: Sequence[Request],
        read: Callable[[Output], T],
        *,
        repeats: Mapping[int, Sequence[int]] | None = None,
        quiet: bool = False,
    ) -> list[T]:
        """Return one answer per request of lm-eval's, in its order.

        Args:
            kind: lm-eval's name of the request type, under which its cache stores answers.
            arguments: lm-eval's requests.
            own: our requests.
            read: converts an output to lm-eval's type.
            repeats: our request's position -> positions of lm-eval's requests for its repeats; None: one each.
            quiet: whether to hide the progress bar.

        Raises: ModelError if a request cannot be answered.
        """
        answers: dict[int, T] = {}
        with self.model.lent(), tqdm(total=len(arguments), desc=f"Running {kind} requests", disable=quiet) as bar:

            def observe(progress: Progress) -> None:
                bar.update(progress.n_outputs_done - bar.n)

            for output in self.model.answer(own, observe=observe):
                first = int(output.request_id.split("/")[-2])
                position = first if repeats is None else repeats[first][output.repeat]
                if output.error is not None:
                    text = str(arguments[position][0])
                    beginning = text if len(text) <= 60 else text[:60] + "…"
                    raise ModelError(f"request {position} of {kind}: {output.error}; it begins {beginning!r}")
                answers[position] = read(output)
                self.cache_hook.add_partial(kind, arguments[position], answers[position])
        return [answers[position] for position in range(len(arguments))]


def register() -> None:
    """Register `--model assaymark` with lm-eval. Calling it twice is not an error.

    lm-eval fills its registry with its own models only while that is empty, so they are imported first.
    """
    import_module("lm_eval.models")
    if NAME not in model_registry:
        register_model(NAME)(AssaymarkLM)


def _request(position: int, context: str, query: Query) -> Request:
    return Request("lm-eval", position, "", (context,), (query,))


def _nats_of(output: Output) -> float:
    if output.total_nats is None:
        raise ModelError(f"request {output.request_id} was answered without a log-likelihood; expected a number")
    return float(output.total_nats)


register()
