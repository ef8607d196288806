"""Make the connection to a server of its arguments and the key: headers, TLS, limits."""

import ssl

from assaymark.errors import ModelUnavailable, UsageError
from assaymark.models.server.arguments import OpenAIArguments, is_header_value
from assaymark.models.server.http_calls import Server
from assaymark.models.server.key_hiding import KeyHider
from assaymark.models.server.reading import ResponseLimits
from assaymark.settings import read

__all__ = ["server_of"]


def server_of(arguments: OpenAIArguments) -> Server:
    """Return where requests are sent; nothing is sent.

    Raises: ModelUnavailable without a key that is required; UsageError for a key or a certificate that cannot be used.
    """
    key = (read("OPENAI_API_KEY") or "").strip() or None
    if key is None and (arguments.is_openai or arguments.provider.name not in ("other", "openai")):
        raise ModelUnavailable(f"{arguments.server} requires a key; set it as OPENAI_API_KEY")
    if key is not None and not is_header_value(key):
        raise UsageError(
            "OPENAI_API_KEY contains a character that HTTP headers do not allow; expected printable ASCII, one line"
        )
    headers = {**arguments.header, **(arguments.provider.headers(key) if key else {})}
    verify: ssl.SSLContext | bool = arguments.verify_certificate
    if arguments.verify_certificate and arguments.ca_cert_path:
        try:
            verify = ssl.create_default_context(cafile=arguments.ca_cert_path)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"ca_cert_path={arguments.ca_cert_path} cannot be read: {error}") from error
    limits = ResponseLimits(arguments.max_response_mib, arguments.max_response_depth)
    return Server(arguments.url, headers, arguments.timeout, verify, KeyHider((key,) if key else ()), limits)
