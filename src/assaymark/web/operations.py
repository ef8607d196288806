"""Endpoints and logs for operators of a server: whether it is alive and ready, metrics, request log, and robots.txt.

`/health` and `/ready` are answered under any host name, since load balancers ask by address, and say nothing about the
server. Metrics are served at an address of their own (`serve_metrics`), so that no visitor reads them.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assaymark.errors import AssaymarkError, UsageError
from assaymark.web.clients import network_behind
from assaymark.web.security import plain_response

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

ROBOTS = """User-agent: *
Disallow: /api/
Disallow: /chat
Disallow: /compare
Disallow: /sign-in
Disallow: /submit
"""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
OTHER = "none"  # the route of requests that no route matches: visitors may choose any number of paths


@dataclass(frozen=True, slots=True)
class AccessLog:
    """One line for each answered request. Lines have the visitor's address, so the log is off by default."""

    form: Literal["text", "json"]
    file: TextIO | None = None  # None: standard output
    proxies: frozenset[str] = frozenset()  # addresses of proxies whose X-Forwarded-For is believed

    def write(self, scope: Message, status: int, n_bytes: int, seconds: float) -> None:
        """Write a request's line; control characters of its path are escaped."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        peer = scope["client"][0] if scope.get("client") else ""
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": network_behind(peer, headers.get("x-forwarded-for", ""), self.proxies),
            "method": scope["method"],
            "path": (scope.get("raw_path") or b"").partition(b"?")[0].decode("latin-1"),
            "status": status,
            "bytes": n_bytes,
            "ms": round(seconds * 1000, 1),
            "agent": headers.get("user-agent", ""),
        }
        if self.form == "json":
            line = json.dumps(record)
        else:
            words = [str(record[name]) for name in ("time", "client", "method", "path", "status", "bytes", "ms")]
            line = " ".join([*words, json.dumps(record["agent"])]).encode("ascii", "backslashreplace").decode()
            line = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in line)
        print(line, file=self.file or sys.stdout, flush=True)


class RequestMetrics:
    """Counts and times of requests, and the gauges of features, in Prometheus' format."""

    def __init__(self, collect: Sequence[Callable[[], Mapping[str, Mapping[str, float]]]] = ()) -> None:
        """Args: collect: functions that return gauge -> label -> value when the metrics are read."""
        import prometheus_client as prometheus

        self.registry = prometheus.CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = prometheus.Counter("assaymark_requests", "Answered requests.", labels, registry=self.registry)
        self._seconds = prometheus.Histogram(
            "assaymark_request_seconds",
            "Time until the last byte.",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._in_progress = prometheus.Gauge(
            "assaymark_requests_in_progress", "Requests that are being answered.", registry=self.registry
        )
        prometheus.ProcessCollector(registry=self.registry)
        self.registry.register(_Collector(collect))

    def begin(self) -> None:
        """Count a request that is being answered."""
        self._in_progress.inc()

    def end(self, scope: Message, status: int, seconds: float) -> None:
        """Count an answered request; its route is the pattern, such as `/run/{name}`."""
        route = getattr(scope.get("route"), "path", OTHER)
        method = scope["method"] if scope["method"] in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._in_progress.dec()


class _Collector:
    """Asks features for their gauges whenever the metrics are read."""

    def __init__(self, collect: Sequence[Callable[[], Mapping[str, Mapping[str, float]]]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable["GaugeMetricFamily"]:
        """Yield the gauges, without those of a store that is unavailable."""
        from prometheus_client.core import GaugeMetricFamily

        for read in self._collect:
            try:
                gauges = read()
            except AssaymarkError:
                continue
            for name, values in gauges.items():
                family = GaugeMetricFamily(f"assaymark_{name}", name.replace("_", " "), labels=["state"])
                for label, value in values.items():
                    family.add_metric([label], value)
                yield family


class Operations:
    """The outermost application: answers what load balancers and robots ask, and observes all other requests."""

    def __init__(
        self,
        app: ASGIApp,
        checks: Sequence[Callable[[], object]] = (),
        log: AccessLog | None = None,
        metrics: RequestMetrics | None = None,
    ) -> None:
        """Wrap an application.

        Args:
            checks: raise if pages cannot be answered now.
            log: of requests; None for none.
            metrics: None for none.
        """
        self._app, self._checks, self._log, self._metrics = app, checks, log, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] in {"/health", "/ready", "/robots.txt"} and scope["method"] in {"GET", "HEAD"}:
            await self._answer(scope, send)
        elif self._log is None and self._metrics is None:
            await self._app(scope, receive, send)
        else:
            await self._observed(scope, receive, send)

    async def _answer(self, scope: Scope, send: Send) -> None:
        status, text = 200, "ok\n"
        if scope["path"] == "/robots.txt":
            text = ROBOTS
        elif scope["path"] == "/ready":
            try:
                for check in self._checks:
                    await run_in_threadpool(check)
            except Exception:  # noqa: BLE001 - whatever it is, the server is not ready; pages log the reason
                status, text = 503, "the store cannot be used now\n"
        await plain_response(send, status, text if scope["method"] == "GET" else "", {"cache-control": "no-store"})

    async def _observed(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = time.perf_counter()
        status, n_bytes = 500, 0
        scope = dict(scope)  # routing writes the route into it

        async def observed(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                n_bytes += len(message.get("body", b""))
            await send(message)

        if self._metrics is not None:
            self._metrics.begin()
        try:
            await self._app(scope, receive, observed)
        finally:
            seconds = time.perf_counter() - begun
            if self._metrics is not None:
                self._metrics.end(scope, status, seconds)
            if self._log is not None:
                self._log.write(scope, status, n_bytes, seconds)


def metrics_address(text: str) -> tuple[str, int]:
    """Return address and port of `[ADDRESS:]PORT`; without an address, this machine only. Raises: UsageError."""
    address, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"--metrics {text!r} names no port; expected PORT or ADDRESS:PORT, for example 127.0.0.1:9100")
    return address.strip("[]") or "127.0.0.1", int(port)


def serve_metrics(metrics: RequestMetrics, address: tuple[str, int]) -> Callable[[], None]:
    """Serve the metrics at `/metrics` of an address of their own, in a thread; return the function that ends it.

    Raises: UsageError where the address cannot be had.
    """
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(address[1], address[0], metrics.registry)
    except OSError as error:
        raise UsageError(f"cannot serve metrics on {address[0]}, port {address[1]}: {error}; choose another") from error

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end
