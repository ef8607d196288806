"""Registration of interop: the readers of other tools' files, and the command that runs lm-eval with our engine."""

from assaymark.registry import Place

PLACES = {
    "commands": {
        "lm-eval": Place(
            "assaymark.interop.commands.lm_eval:lm_eval",
            "Run lm-evaluation-harness, with our engine as `--model assaymark`.",
            "Evaluate",
        )
    },
    "importers": {  # asked in this order
        "hub-results": "assaymark.interop.read_hub_results:IMPORTER",
        "every-eval-ever": "assaymark.interop.read_every_eval:IMPORTER",
        "inspect": "assaymark.interop.read_inspect:IMPORTER",
        "helm": "assaymark.interop.read_helm:IMPORTER",
        "lighteval": "assaymark.interop.read_lighteval:IMPORTER",
        "simple-evals": "assaymark.interop.read_simple_evals:IMPORTER",
        "alpaca-eval": "assaymark.interop.read_alpaca_eval:IMPORTER",
        "opencompass": "assaymark.interop.read_opencompass:IMPORTER",
        "evalscope": "assaymark.interop.read_evalscope:IMPORTER",
        "yall": "assaymark.interop.read_yall:IMPORTER",
        "lm-eval-0.3": "assaymark.interop.read_lm_eval_03:IMPORTER",
    },
}
