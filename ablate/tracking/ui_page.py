"""The web application of `ablate ui`: MLflow's, whose page opens as one of model training.

MLflow's page opens as one of language models unless the browser has chosen otherwise. So a line of
script makes that choice for a browser that has not, before the page starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mlflow.server.fastapi_app import app as mlflow_app

SCRIPT = b"""<script>
try {
  const choices = {
    "mlflow.workflowType_v1": "machine_learning",
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": true,
  };
  for (const [key, value] of Object.entries(choices))
    localStorage.getItem(key) ?? localStorage.setItem(key, JSON.stringify(value));
} catch {}
</script>"""
"""The kind of experiments, and that the panel of the assistant has been seen, which covers a
quarter of the page."""

LEFT_OUT = (b"content-length", b"etag", b"last-modified")
"""Headers that describe the page without the script."""

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


async def app(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
    """Pass everything on to MLflow, and add the script to the page."""
    if scope["type"] != "http" or scope["path"] != "/":
        await mlflow_app(scope, receive, send)
        return
    asked = [(k, v) for k, v in scope["headers"] if not k.startswith(b"if-")]  # always the page
    start: Message = {}
    body = b""

    async def collect(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start":
            start = message
            return
        body += message.get("body", b"")
        if message.get("more_body"):
            return
        page = body.replace(b"<head>", b"<head>" + SCRIPT, 1)
        headers = [(k, v) for k, v in start["headers"] if k.lower() not in LEFT_OUT]
        length = (b"content-length", str(len(page)).encode())
        await send({**start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": page})

    await mlflow_app({**scope, "headers": asked}, receive, collect)
