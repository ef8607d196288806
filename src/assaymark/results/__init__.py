"""Results of runs, with their uncertainty: estimates, tables, comparisons, documents.

`evidence` holds the records that everything here takes: rows of scores, what a task's numbers mean, one run's view.
Numbers are kept in [0, 1]; only drawn tables show per cent. Nothing here calls a model. The entry points:

    from_store.save_summary(store, run_id, selection, bound) -> tuple[Estimate, ...]   after a run
    from_store.run_view(store, run_id) -> RunView                     stored estimates under a heading
    from_store.run_evidence(store, run_id) -> RunEvidence             scores and set-up, for compare
    summarise.summarise(rows, tasks, groups) -> tuple[Estimate, ...]  the same, pure
    views.run_document.run_document(views) -> Document                one run, or several side by side
    views.subjects.subject_document(view, group), views.run_list.run_list(rows)
    views.samples.sample_example(turns), from_store.is_wrong(record)
    compare.compare_runs([evidence, ...]) -> Comparison               who is better, by how much, how sure
    comparison.document.comparison_document(comparison) -> Document, flips_blocks, comparison_to_json
    gates.check_gates(comparison, [gates.parse_gate("mmlu >= -0.01")]), gates.junit_xml
    report.contents.report_contents(store, run_ids) -> ReportContents   all that a report says of runs
    report.document.write_document("report.html", contents)    or .md, .pdf: a document that stands alone
"""
