"""Registration of the applications feature: targets, their scorers, and judged scores as a kind of stored audit."""

from assaymark.registry import Place

_SCORERS = "assaymark.applications.scorers"

PLACES = {
    "targets": {"application": "assaymark.applications.command:application_kind"},
    "scorers": {
        "exact": Place(f"{_SCORERS}.plain:Exact", "the answer equals the expected value"),
        "contains": Place(f"{_SCORERS}.plain:Contains", "the answer contains a text"),
        "regex": Place(f"{_SCORERS}.plain:Regex", "a regular expression is found in the answer"),
        "json_schema": Place(f"{_SCORERS}.plain:JsonSchema", "the answer is valid JSON"),
        "levenshtein": Place(f"{_SCORERS}.plain:Levenshtein", "similarity of texts"),
        "number": Place(f"{_SCORERS}.plain:Number", "similarity of numbers"),
        "json": Place(f"{_SCORERS}.plain:JsonDiff", "similarity of JSON values"),
        "list": Place(f"{_SCORERS}.plain:ListMatch", "similarity of lists in any order"),
        "embedding": Place(f"{_SCORERS}.plain:Embedding", "similarity of embeddings"),
        "latency": Place(f"{_SCORERS}.plain:Latency", "seconds of the call"),
        "cost": Place(f"{_SCORERS}.plain:Cost", "cost of the call"),
        "tokens": Place(f"{_SCORERS}.plain:Tokens", "tokens of the call"),
        "assertions": Place(f"{_SCORERS}.assertions:Assertions", "the row's own assertions hold (promptfoo)"),
        "tool_calls": Place(f"{_SCORERS}.tools:ToolCalls", "the tool calls are the expected ones"),
        "tool_schema": Place(f"{_SCORERS}.tools:ToolSchema", "tool calls fit the schemas of tools that exist"),
        "steps": Place(f"{_SCORERS}.tools:Steps", "steps that the answer took"),
        "pii": Place(f"{_SCORERS}.personal_data:PersonalData", "the answer has personal data"),
        "faithfulness": Place(
            f"{_SCORERS}.judged:Faithfulness", "share of the answer's claims that the contexts support"
        ),
        "groundedness": Place(f"{_SCORERS}.judged:Groundedness", "the contexts support everything in the answer"),
        "answer_relevance": Place(
            f"{_SCORERS}.judged:AnswerRelevance", "share of the answer's statements that are relevant"
        ),
        "context_precision": Place(f"{_SCORERS}.judged:ContextPrecision", "the useful contexts come first"),
        "context_recall": Place(
            f"{_SCORERS}.judged:ContextRecall", "share of the expected answer that the contexts support"
        ),
        "context_relevance": Place(f"{_SCORERS}.judged:ContextRelevance", "share of the contexts that help"),
        "context_sufficiency": Place(
            f"{_SCORERS}.judged:ContextSufficiency", "the contexts hold all that the expected answer needs"
        ),
        "question_similarity": Place(
            f"{_SCORERS}.judged:QuestionSimilarity", "similarity of the question and of questions made from the answer"
        ),
        "tool_choice": Place(f"{_SCORERS}.judged:ToolChoice", "the called tools are the right ones"),
        "factuality": Place(f"{_SCORERS}.judged:Factuality", "the answer's facts beside the expected ones"),
        "correctness": Place(f"{_SCORERS}.judged:Correctness", "the answer states every expected fact"),
        "guidelines": Place(f"{_SCORERS}.judged:Guidelines", "the answer follows every guideline"),
        "refusal": Place(f"{_SCORERS}.judged:Refusal", "the answer refuses"),
        "toxicity": Place(f"{_SCORERS}.judged:Toxicity", "the answer is toxic"),
        "safety": Place(f"{_SCORERS}.judged:Safety", "the answer has nothing harmful"),
    },
    "commands": {
        "outcomes": Place(
            "assaymark.applications.commands.outcomes:outcomes",
            "Compare variants by what their users did.",
            "Applications and code",
        ),
        "traces": Place(
            "assaymark.applications.traces.commands:traces",
            "Show, export and remove traces; make projects.",
            "Applications and code",
        ),
    },
    "served": {"traces": "assaymark.applications.traces.serving:served_traces"},
    "report_sections": {"beside people": "assaymark.applications.human_labels:people_section"},
    "graders": {"model_graded": "assaymark.applications.model_graded:add_model_grades"},
    "audits": {"judged scores": "assaymark.applications.judging_scores:judged_kind"},
    "tables": {
        "traces": "assaymark.applications.traces.trace_log:TABLES",
        "live": "assaymark.applications.live.dataset_log:TABLES",
        "alarms": "assaymark.applications.watch.alarm_log:TABLES",
    },
}
