"""A user's classifier of texts: a folder with a sequence-classification model of transformers.

It is read from disk only, without code of its own, and runs on the processor.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from assaymark.errors import DataError, MissingExtra, UsageError

BATCH = 16  # texts at a time


class TextClassifier:
    """The probability of one label of a classifier for each of many texts."""

    def __init__(self, folder: Path, label: str | None = None) -> None:
        """Load the classifier.

        Args:
            folder: as `save_pretrained` writes it, with the tokenizer.
            label: whose probability is returned; None: the label named toxic or toxicity.

        Raises: DataError for a folder that is no such model; UsageError for a label that it does not have.
        """
        try:
            from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline
        except ImportError as error:
            raise MissingExtra("a classifier of texts", "hf") from error
        if not folder.is_dir():
            raise DataError(f"{folder} is not a directory; expected a folder with a sequence-classification model")
        if not (folder / "config.json").is_file():
            raise DataError(f"{folder} has no config.json; expected a folder with a sequence-classification model")
        known: dict[str, object] = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = AutoConfig.from_pretrained(folder, **known)
            if not any("SequenceClassification" in str(name) for name in config.architectures or ()):
                raise DataError(
                    f"{folder} is {', '.join(config.architectures or ('no architecture',))}; expected a model "
                    "for sequence classification"
                )
            model = AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True, **known)
            tokenizer = AutoTokenizer.from_pretrained(folder, **known)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise DataError(f"{folder} cannot be loaded as a classifier: {str(error).splitlines()[0]:.200}") from error
        self.label = _label(list(config.id2label.values()), label, folder)
        self.digest = sha256((folder / "config.json").read_bytes()).hexdigest()[:8]
        self._pipeline = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, device="cpu")

    def probabilities(self, texts: Sequence[str]) -> list[float]:
        """Return the label's probability for each text; a text beyond the model's length is cut on the right."""
        scored = self._pipeline(list(texts), truncation=True, batch_size=BATCH)
        return [next(each["score"] for each in of_text if each["label"] == self.label) for of_text in scored]


def _label(labels: Sequence[str], wanted: str | None, folder: Path) -> str:
    if wanted is not None:
        if wanted not in labels:
            raise UsageError(f"{folder} has no label '{wanted}'; its labels are {', '.join(labels[:20])}")
        return wanted
    exact = [label for label in labels if label.lower() in {"toxic", "toxicity"}]
    if len(exact) == 1:
        return exact[0]
    raise UsageError(
        f"{folder} has the labels {', '.join(labels[:20])}, and none of them is named toxic; name the one that counts "
        "with --label"
    )
