"""Counters in Prometheus' text format, on a listener of their own.

On the authority's own listener they would be shown to operators of one pack, and name the jobs of all. Whoever runs the
server sees them, so the listener is the machine's own unless another address is named.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

from preaction.authority.server.watch import Seen
from preaction.errors import ConfigurationError

_SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The counters of one process, or of several that share a folder (see `shared_folder`)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "preaction_requests",
            "Requests by route and status; status 0: nobody waited for the answer.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "preaction_request_seconds",
            "From a request's first byte to its answer's last.",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._decisions = Counter(
            "preaction_decisions",
            "Decisions that were answered, by job and outcome; the outcome is empty for an undecided case.",
            ["pack", "job", "outcome"],
            registry=self._registry,
        )
        self._refusals = Counter(
            "preaction_refusals",
            "Requests that got a problem instead of an answer.",
            ["status"],
            registry=self._registry,
        )

    def count(self, seen: Seen) -> None:
        """Count one request."""
        status = str(seen.status)
        self._requests.labels(seen.method, seen.route, status).inc()
        self._seconds.labels(seen.route).observe(seen.seconds)
        if seen.status >= 400:
            self._refusals.labels(status).inc()
        if seen.decision is not None:
            outcome = seen.decision.outcome.id if seen.decision.outcome else ""
            self._decisions.labels(seen.decision.pack, seen.decision.job, outcome).inc()

    def text(self) -> str:
        """What a scrape gets."""
        return generate_latest(_readable(self._registry)).decode()

    @contextmanager
    def serving(self, host: str, port: int) -> Iterator[str]:
        """Answer scrapes in a thread while the block runs, at the URL that it gives; port 0 takes a free one."""
        try:
            server, thread = start_http_server(port, host, _readable(self._registry))
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigurationError(f"can't listen on {host}:{port}: {error}") from None
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _readable(registry: CollectorRegistry) -> CollectorRegistry:
    """What to read from: the processes' shared folder, where there is one."""
    if not os.environ.get(_SHARED):
        return registry
    shared = CollectorRegistry()
    MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
    return shared
