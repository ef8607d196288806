"""Registration of audits: their commands, the kinds of stored audits, and the question-blind baseline."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "audit": Place(
            "assaymark.audit.commands.audit:audit",
            "Test for contamination, sensitivity to prompts, and calibration.",
            "Read and compare",
        ),
        "diagnose": Place(
            "assaymark.audit.commands.audit:diagnose",
            "Say why answers of a stored run are wrong: position bias, extraction, prompt, knowledge.",
            "Read and compare",
        ),
        "task": Place(
            "assaymark.audit.commands.task:task", "Check a task file before evaluating a model on it.", "Evaluate"
        ),
    },
    "audits": {
        "contamination": "assaymark.audit.auditing:contamination_kind",
        "contamination, control": "assaymark.audit.auditing:control_kind",
        "prompts": "assaymark.audit.auditing:prompts_kind",
        "calibration of answers": "assaymark.audit.answer_calibration:answers_kind",
        "efficiency": "assaymark.audit.auditing:efficiency_kind",
        "diagnosis": "assaymark.audit.diagnosing:diagnosis_kind",
    },
    "baselines": {"question_blind": "assaymark.audit.question_blind:add_question_blind"},
}
