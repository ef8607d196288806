"""The transport that connects to checked addresses: real servers, and a resolver that changes its answer."""

import ssl
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from assaymark.models.server.public_only import PublicTransport, RefusedAddress
from tests.http_servers import JsonHandler, LoopbackServer, serving

FIRST = ip_network("127.0.0.1/32")  # stands for the public network; all else of this machine stays refused


class Names(JsonHandler):
    """Says under which name it was called, and counts."""

    server: LoopbackServer

    n_called = 0

    def do_GET(self) -> None:
        """Say the Host header."""
        Names.n_called += 1
        if self.path == "/inside":
            self.send_json({}, 302, {"Location": f"http://inside.example:{self.server.server_address[1]}/"})
        else:
            self.send_json({"host": self.headers["Host"]})


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """Return a server on 127.0.0.1."""
    Names.n_called = 0
    with serving(LoopbackServer(Names)) as started:
        yield started


class Resolver:
    """Answers what is next, and counts how often it is asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.n_asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        """Return the next answer; the last one again and again."""
        self.n_asked += 1
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


def client_of(resolver: Resolver, **options: object) -> httpx.Client:
    """Return a client for which 127.0.0.1 is public."""
    return httpx.Client(transport=PublicTransport(resolver, [FIRST], **options), trust_env=False)  # type: ignore[arg-type]


def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to(server: LoopbackServer) -> None:
    """The server sees the name; the system's resolver, which does not know it, is never asked."""
    resolver = Resolver("127.0.0.1", "127.0.0.2")
    port = server.server_address[1]
    with client_of(resolver) as client:
        response = client.get(f"http://app.example:{port}/")
    assert response.json() == {"host": f"app.example:{port}"}
    assert resolver.n_asked == 1


def test_a_resolver_that_changes_its_answer_is_refused(server: LoopbackServer) -> None:
    """The second request is checked again, although a connection to the first address is open."""
    resolver = Resolver("127.0.0.1", "127.0.0.2")
    with client_of(resolver) as client:
        client.get(f"http://app.example:{server.server_address[1]}/")
        with pytest.raises(RefusedAddress, match=r"app\.example \(127\.0\.0\.2\) is a loopback address"):
            client.get(f"http://app.example:{server.server_address[1]}/")
    assert Names.n_called == 1


def test_a_redirect_to_a_private_address_is_refused(server: LoopbackServer) -> None:
    """A client that follows redirects has each of them checked."""
    resolver = Resolver("127.0.0.1", "10.0.0.1")
    with client_of(resolver) as client, pytest.raises(RefusedAddress, match=r"inside\.example \(10\.0\.0\.1\)"):
        client.get(f"http://app.example:{server.server_address[1]}/inside", follow_redirects=True)


def test_the_system_resolver_is_the_default(server: LoopbackServer) -> None:
    """Without an exception this machine is refused, by name and by address, and nothing is sent."""
    port = server.server_address[1]
    with httpx.Client(transport=PublicTransport(), trust_env=False) as client:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"):
            with pytest.raises(RefusedAddress):
                client.get(f"http://{host}:{port}/")
        with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
            client.get("http://no-such-name.invalid/")
    assert Names.n_called == 0


def test_certificates_are_checked_against_the_name(tmp_path: Path) -> None:
    """A connection to an address has SNI and certificate of the name, and another name's certificate is refused."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=app.example",
         "-addext", "subjectAltName=DNS:app.example", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    server = LoopbackServer(Names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    trusted = ssl.create_default_context(cafile=str(certificate))
    with serving(server), client_of(Resolver("127.0.0.1"), verify=trusted) as client:
        assert client.get(f"https://app.example:{port}/").json() == {"host": f"app.example:{port}"}
        with pytest.raises(httpx.ConnectError, match=r"[Hh]ostname mismatch"):
            client.get(f"https://other.example:{port}/")
