"""A connection to Ray, and what it has. The one module that imports Ray."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ablate.core.errors import PassingError, UserError, first_line, hide_secrets, keep_secret

ANSWER = 5.0
"""Seconds to wait for an address to answer."""


SETTINGS = 4
"""Type of the first frame that each side of HTTP/2 sends."""


class Needs(NamedTuple):
    """What Ray reserves for a job."""

    cpus: float
    gpus: float

    @property
    def threads(self) -> int:
        """Of torch."""
        return max(1, int(self.cpus))


def find_ray() -> Any:
    """The module; an error if it is not installed."""
    try:
        import ray
    except ImportError:
        raise UserError("--ray: Ray is not installed; pip install 'ablate-gbm[ray]'") from None
    return ray


class Cluster:
    """A connection to Ray."""

    def __init__(
        self, address: str, cpus: float | None, gpus: float | None, device: str = "auto"
    ) -> None:
        """address: host:port, ray://host:port, or auto for the cluster of this machine, which is
        started if there is none; device: auto takes GPUs if there are any."""
        ray = find_ray()
        handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
        keep_secret(address if "://" in address else f"//{address}")
        try:
            _connect(ray, address)
        finally:
            for number, handler in handlers.items():  # Ray has put in its own
                signal.signal(number, handler)
        try:
            self.needs = _needs(ray, cpus, gpus, device)
        except BaseException:
            ray.shutdown()
            raise
        self.device = "cuda" if self.needs.gpus else "cpu"

    def close(self) -> None:
        """Disconnect; a cluster that was started for this process ends."""
        find_ray().shutdown()


def _connect(ray: Any, address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address != "auto":
            _require_answer(address)
            ray.init(address, **options)
            return
        try:
            ray.init("auto", **options)
        except ConnectionError:
            ray.init("local", include_dashboard=False, **options)
    except (ConnectionError, TimeoutError) as error:
        raise PassingError(
            f"--ray {hide_secrets(address)}: does not answer as a Ray cluster ({said(error)})"
        ) from None
    except (RuntimeError, ValueError, ray.exceptions.RayError) as error:
        what = "has another version" if "ersion mismatch" in str(error) else "cannot be used"
        raise UserError(f"--ray {hide_secrets(address)}: {what} ({said(error)})") from None


def said(error: BaseException) -> str:
    """An error's message in one line, without the advice that follows it."""
    return hide_secrets(" ".join(str(error).split()))[:300]


def _require_answer(address: str) -> None:
    """Raise an error if nobody listens at an address: Ray itself would wait for minutes."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("", "ray"):
        raise UserError(f"--ray {hide_secrets(address)}: not auto, host:port or ray://host:port")
    try:
        with socket.create_connection((host, port), ANSWER) as connection:
            speaks = os.environ.get("RAY_USE_TLS") == "1" or _greets(connection)
    except OSError as error:
        raise PassingError(
            f"--ray {hide_secrets(address)}: nobody answers there ({first_line(error)})"
        ) from None
    if not speaks:
        raise UserError(f"--ray {hide_secrets(address)}: what answers there is not Ray")


def _greets(connection: socket.socket) -> bool:
    """Whether the other side speaks HTTP/2, as Ray does: it answers with its settings."""
    connection.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
    )
    return connection.recv(4)[3:] == bytes([SETTINGS])


def _needs(ray: Any, cpus: float | None, gpus: float | None, device: str) -> Needs:
    """What a job reserves: as asked, else a GPU each if the cluster has any, else a core each."""
    alive = nodes(ray)
    most = max((node.get("GPU", 0.0) for node in alive), default=0.0)
    if gpus is None:
        gpus = 1.0 if device.startswith("cuda") or (device == "auto" and most >= 1) else 0.0
    if gpus and device == "cpu":
        raise UserError(f"--gpus-per-cell {gpus:g}: cells on --device cpu need none")
    if gpus > most:
        there = "no node has one" if not most else f"no node has more than {most:g}"
        raise UserError(f"--gpus-per-cell {gpus:g}: {there}")
    if gpus > 1 and not gpus.is_integer():
        raise UserError(f"--gpus-per-cell {gpus:g}: above 1, whole GPUs only")
    cpus = 1.0 if cpus is None else cpus
    cores = max((node.get("CPU", 0.0) for node in alive), default=0.0)
    if cpus > cores:
        raise UserError(f"--cpus-per-cell {cpus:g}: no node has more than {cores:g}")
    return Needs(cpus, gpus)


def nodes(ray: Any) -> list[dict[str, float]]:
    """The resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
