"""Other tools' formats: lm-evaluation-harness's result files and tables, written from a run and read into records.

lm_eval_files.write_lm_eval_files(store, run_id, output_path, log_samples=...) -> list[Path]
lm_eval_table.lm_eval_table(results) -> str
read_lm_eval.read_lm_eval(folder or results file) -> RunEvidence
"""
