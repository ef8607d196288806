"""Prompts from rows: templates, few-shot draws by published rules, turns, chat messages and prompt styles."""
