"""Services with an OpenAI-compatible interface, and the fields of their own that they expect in a request.

A service is recognised by its host, or named with `provider=`. Fields that a service refuses or ignores are not sent; a
setting that the user gave for a run always is, so that a refusal is seen.

Source: Azure OpenAI REST API reference (api-key, api-version); Anthropic, OpenAI SDK compatibility (seed and logprobs
    are ignored, stop texts must not be white space only); Gemini API, OpenAI compatibility (an unknown field, seed
    among them, is refused with 400).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """One service.

    hosts: what its host names end with. key_header: the header of the key; None: `Authorization: Bearer`.
    takes_new_limit: chats are limited by max_completion_tokens; max_tokens is deprecated there.
    lists_models: `GET /models` accepts the key as a chat does, so that it can be checked before the run.
    """

    name: str
    hosts: tuple[str, ...] = ()
    key_header: str | None = None
    takes_seed: bool = True
    takes_blank_stops: bool = True
    takes_new_limit: bool = False
    gives_logprobs: bool = True
    lists_models: bool = True

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key."""
        return {"Authorization": f"Bearer {key}"} if self.key_header is None else {self.key_header: key}


OTHER = Provider("other")
PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("openai", ("api.openai.com",), takes_new_limit=True),
        Provider(
            "azure",
            (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
            key_header="api-key",
            takes_new_limit=True,
            lists_models=False,
        ),
        Provider(
            "anthropic",
            ("api.anthropic.com",),
            takes_seed=False,
            takes_blank_stops=False,
            gives_logprobs=False,
            lists_models=False,
        ),
        Provider("gemini", ("generativelanguage.googleapis.com",), takes_seed=False),
        OTHER,
    )
}


def provider_of(host: str) -> Provider:
    """Return the service of a host; `OTHER` for all that need nothing special."""
    return next(
        (provider for provider in PROVIDERS.values() if provider.hosts and host.lower().endswith(provider.hosts)), OTHER
    )
