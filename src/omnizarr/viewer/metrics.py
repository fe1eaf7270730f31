"""Numbers about requests for those who run a server; slow requests are logged.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

REFUSED = "omnizarr.refused"  # in the scope of a request that was not let in
SLOW = 1.0  # seconds after which a request is logged
_log = logging.getLogger("omnizarr.serve")
_ROUTE = re.compile(
    r"/(?:(store|v2|v3|page)/|(api/(?:members|node|values|chunks)|health|metrics)?\Z)"
)
_BUCKETS = {"0.005": 0.005, "0.025": 0.025, "0.1": 0.1, "0.5": 0.5, "2.5": 2.5, "10": 10.0}
_METRICS = {  # type and meaning by name
    "requests_total": ("counter", "Requests that have ended, by route and status."),
    "requests_refused_total": ("counter", "Requests that were not let in, by status."),
    "requests_in_flight": ("gauge", "Requests that are being answered."),
    "sent_bytes_total": ("counter", "Bytes of the bodies of answers, by route."),
    "request_seconds": ("histogram", "Time from a request to the end of its answer, by route."),
}


class Metrics:
    """Counts the requests of an application."""

    def __init__(self) -> None:
        self._series = {name: defaultdict[str, float](float) for name in _METRICS}

    def _add(self, name: str, labels: str, amount: float = 1, part: str = "") -> None:
        shown = f"{{{labels}}}" if labels else ""
        self._series[name][f"omnizarr_{name}{part}{shown}"] += amount

    def measure(self, app: ASGIApp) -> ASGIApp:
        """Return an application that counts its requests."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            found, status, began = _ROUTE.match(scope["path"]), "aborted", time.perf_counter()
            name = "other" if found is None else f"/{found[1] or found[2] or ''}"
            route = f'route="{name}"'

            async def counted(message: Message) -> None:
                nonlocal status
                status = str(message.get("status", status))
                await send(message)
                self._add("sent_bytes_total", route, len(message.get("body", b"")))

            self._add("requests_in_flight", "")
            try:
                await app(scope, receive, counted)
            finally:
                seconds = time.perf_counter() - began
                self._add("requests_in_flight", "", -1)
                self._add("requests_total", f'{route},status="{status}"')
                if REFUSED in scope:
                    self._add("requests_refused_total", f'status="{status}"')
                for text, end in (*_BUCKETS.items(), ("+Inf", seconds)):
                    self._add("request_seconds", f'{route},le="{text}"', seconds <= end, "_bucket")
                self._add("request_seconds", route, part="_count")
                self._add("request_seconds", route, seconds, "_sum")
                if seconds > SLOW:
                    _log.info("answering %s (%s) took %.1f s", scope["path"], status, seconds)

        return measured

    def text(self) -> str:
        """Return all numbers in the text format of Prometheus."""
        lines: list[str] = []
        for name, (kind, meaning) in _METRICS.items():
            lines += [f"# HELP omnizarr_{name} {meaning}", f"# TYPE omnizarr_{name} {kind}"]
            lines += [f"{series} {number}" for series, number in self._series[name].items()]
        return "\n".join([*lines, ""])
