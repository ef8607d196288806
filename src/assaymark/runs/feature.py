"""Registration of runs: the commands that evaluate models, and show, compare and export stored runs."""

from assaymark.registry import Place

_COMMANDS = "assaymark.runs.commands."
_EXPORTING = "assaymark.runs.exporting:"

PLACES = {
    "commands": {
        "run": Place(f"{_COMMANDS}run:run", "Evaluate a model on benchmarks; store and show the result.", "Evaluate"),
        "eval": Place(
            f"{_COMMANDS}eval:eval_",
            "Evaluate a trainer's checkpoint, with the options of torchtune's RFC.",
            "Evaluate",
        ),
        "plan": Place(
            f"{_COMMANDS}plan:plan", "Estimate tokens, memory and time of a run without running it.", "Evaluate"
        ),
        "ls": Place(f"{_COMMANDS}ls:ls", "List tasks, suites, models or stored runs.", "Evaluate"),
        "explain": Place(
            f"{_COMMANDS}explain:explain", "Explain what a task measures, its prompt and its scores.", "Evaluate"
        ),
        "show": Place(f"{_COMMANDS}show:show", "Show a stored run, or its samples.", "Read and compare"),
        "compare": Place(
            f"{_COMMANDS}compare:compare", "Compare stored runs, with intervals and tests.", "Read and compare"
        ),
        "tune-report": Place(
            f"{_COMMANDS}compare:tune_report", "Say what training changed, set-up apart.", "Read and compare"
        ),
        "race": Place(
            f"{_COMMANDS}race:race", "Find the better of two models with as few questions as that needs.", "Evaluate"
        ),
        "rescore": Place(
            f"{_COMMANDS}rescore:rescore",
            "Score stored outputs again with another filter or metric.",
            "Read and compare",
        ),
        "report": Place(
            f"{_COMMANDS}show:report", "Write a report of stored runs as HTML, Markdown or PDF.", "Read and compare"
        ),
        "diff-prompts": Place(
            f"{_COMMANDS}compare:diff_prompts",
            "Show how the prompts of two stored runs differ.",
            "Read and compare",
        ),
        "reproduce": Place(
            f"{_COMMANDS}reproduce:reproduce", "Run a stored plan again and report what differs.", "Read and compare"
        ),
        "export": Place(
            f"{_COMMANDS}export:export", "Export a stored run to a file for other tools.", "Files and this machine"
        ),
        "import": Place(
            f"{_COMMANDS}export:import_", "Import a run of another tool, or an exported run.", "Files and this machine"
        ),
        "verify": Place(f"{_COMMANDS}store:verify", "Check every stored hash and score.", "Files and this machine"),
        "store": Place(
            f"{_COMMANDS}store:store", "Back up and restore the database of stored runs.", "Files and this machine"
        ),
        "rm": Place(f"{_COMMANDS}store:rm", "Remove stored runs.", "Files and this machine"),
        "doctor": Place(
            f"{_COMMANDS}doctor:doctor", "Show what is installed and what can run here.", "Files and this machine"
        ),
        "demo": Place(f"{_COMMANDS}demo:demo", "Evaluate the two small models that come with the package.", "Evaluate"),
    },
    "exporters": {
        ".assaymark": Place(f"{_EXPORTING}write_run", "the whole run in one file, which `assaymark import` reads"),
        ".json": Place(f"{_EXPORTING}write_results", "lm-eval's results file"),
        ".csv": Place(f"{_EXPORTING}write_csv", "its estimates"),
        ".parquet": Place(f"{_EXPORTING}write_parquet", "its estimates"),
        ".md": Place(f"{_EXPORTING}write_markdown", "its estimates as a Markdown table"),
        ".tex": Place(f"{_EXPORTING}write_latex", "its estimates as a LaTeX table"),
        ".yaml": Place(f"{_EXPORTING}write_model_index", "`model-index` for a Hugging Face model card"),
    },
}
