"""Run in the environment of `ragas.txt`: score the cases on standard input with RAGAS' own code, without a model.

Reads a JSON list of [scorer, arguments]; writes the JSON list of scores. Verdicts of judges are given.
"""

import asyncio
import json
import sys
from typing import Any

import numpy as np
from ragas.dataset_schema import MultiTurnSample
from ragas.messages import AIMessage, ToolCall
from ragas.metrics import ToolCallAccuracy
from ragas.metrics._answer_relevance import ResponseRelevanceOutput, ResponseRelevancy
from ragas.metrics._context_precision import LLMContextPrecisionWithReference, Verification
from ragas.metrics._context_recall import ContextRecallClassification, LLMContextRecall
from ragas.metrics._faithfulness import Faithfulness, NLIStatementOutput, StatementFaithfulnessAnswer


class Vectors:
    """Embeddings that are given with a case."""

    def __init__(self, by_text: dict[str, list[float]]) -> None:
        self.by_text = by_text

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self.by_text[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.by_text[text] for text in texts]


def calls_of(values: list[dict[str, Any]]) -> list[ToolCall]:
    """Return tool calls."""
    return [ToolCall(name=each["name"], args=each["args"]) for each in values]


def score(name: str, given: Any) -> Any:
    """Return RAGAS' score of a case."""
    if name == "tool_calls":
        made, expected = given
        sample = MultiTurnSample(
            user_input=[AIMessage(content="", tool_calls=calls_of(made))], reference_tool_calls=calls_of(expected)
        )
        return asyncio.run(ToolCallAccuracy().multi_turn_ascore(sample))
    if name == "context_precision":
        verdicts = [Verification(reason="", verdict=int(each)) for each in given]
        return LLMContextPrecisionWithReference()._calculate_average_precision(verdicts)
    if name == "context_recall":
        results = [ContextRecallClassification(statement="s", reason="", attributed=int(each)) for each in given]
        return LLMContextRecall()._compute_score(results)
    if name == "faithfulness":
        answers = [StatementFaithfulnessAnswer(statement="s", reason="", verdict=int(each)) for each in given]
        return Faithfulness()._compute_score(NLIStatementOutput(statements=answers))
    questions, vectors, is_evasive = given
    metric = ResponseRelevancy(embeddings=Vectors(vectors))
    outputs = [ResponseRelevanceOutput(question=each, noncommittal=int(is_evasive)) for each in questions]
    return metric._calculate_score(outputs, {"user_input": "the question"})


def main() -> None:
    """Score every case."""
    scores = [float(score(name, entry)) for name, entry in json.load(sys.stdin)]
    json.dump([None if np.isnan(each) else each for each in scores], sys.stdout)


if __name__ == "__main__":
    main()
