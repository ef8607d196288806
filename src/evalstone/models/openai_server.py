"""One look at a server before anything is asked of it: is it there, does it take the key, which models does it list."""

import httpx

from evalstone.errors import ModelUnavailable
from evalstone.models.http_calls import LONGEST_CONNECT_S, Server

__all__ = ["find_server"]


def find_server(server: Server, base: str) -> tuple[str, ...]:
    """Return the models that a server lists; none where it has no such list, which says nothing against it.

    Raises: ModelUnavailable where nobody answers, or the key is not taken.
    """
    limits = httpx.Timeout(min(server.timeout_s, LONGEST_CONNECT_S))
    try:
        answer = httpx.get(f"{base}/models", headers=dict(server.headers), timeout=limits, verify=server.verify)
    except httpx.ReadTimeout:  # it is there, and busy
        return ()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelUnavailable(
            f"no server answers at {base} ({str(error) or type(error).__name__}); start it, or correct base_url"
        ) from None
    if answer.status_code in (401, 403):
        said = server.hide(" ".join(answer.text.split())[:200])
        has_key = "the key in OPENAI_API_KEY is not taken" if server.secrets else "OPENAI_API_KEY is not set"
        raise ModelUnavailable(f"{base} refuses access ({answer.status_code}): {has_key}; it says: {said}")
    try:
        return tuple(str(each["id"]) for each in answer.json()["data"]) if answer.is_success else ()
    except (ValueError, KeyError, TypeError):
        return ()
