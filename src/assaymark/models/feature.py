"""The kinds of models that `--model` names."""

from assaymark.registry import Place

_CREATE = "assaymark.models.create:"
_LOCAL = Place(f"{_CREATE}local", "a folder, checkpoint or Hub id, on this machine")
_GGUF = Place(f"{_CREATE}gguf", "a GGUF file, run by llama.cpp in this process")
_FAKE = Place(f"{_CREATE}fake", "made-up answers, to try a task without a model")
_SERVERS = {
    "local-completions": "a server's /v1/completions: texts, log-probabilities",
    "local-chat-completions": "a server's /v1/chat/completions: generated answers",
    "openai-completions": "OpenAI's completions (needs OPENAI_API_KEY)",
    "openai-chat-completions": "OpenAI's chat models (needs OPENAI_API_KEY)",
}

PLACES = {
    "models": {
        **dict.fromkeys(("hf", "huggingface", "hf-auto", "hf-causal", "hf-causal-experimental"), _LOCAL),
        "hf-multimodal": Place(f"{_CREATE}image_text", "a model of images and text, run by transformers"),
        "vllm": Place(f"{_CREATE}vllm", "a folder or Hub id, run by vLLM in this process"),
        **dict.fromkeys(("gguf", "ggml"), _GGUF),
        **{name: Place(f"{_CREATE}{name.replace('-', '_')}", text) for name, text in _SERVERS.items()},
        **dict.fromkeys(("fake", "dummy"), _FAKE),
    }
}
