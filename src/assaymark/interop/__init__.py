"""Other tools' formats: export of runs as lm-evaluation-harness's files and tables, and import of other tools' results.

lm_eval_files.write_lm_eval_files(store, run_id, output_path, log_samples=...) -> list[Path]
lm_eval_table.lm_eval_table(results) -> str
read_lm_eval.read_lm_eval(folder or results file) -> RunEvidence
"""
