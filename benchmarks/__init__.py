"""Speed beside lm-evaluation-harness: same machine, same run, same model, same real data, same samples."""
