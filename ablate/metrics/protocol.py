"""Protocols: how a number was measured. Numbers with different protocols cannot be ranked."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple


class Protocol(NamedTuple):
    """Everything that the value of a metric depends on besides the samples."""

    extractor: str
    extractor_hash: str
    resize: str  # none, or how images are resized to the extractor's size
    quantised: bool  # whether samples are rounded to uint8 first
    reference: str  # dataset/split
    reference_hash: str
    reference_count: int
    samples: int  # per seed
    seeds: int = 1  # number of seeds that the value averages
    streams: int = 0  # version of the random numbers that drew the samples; 0: not drawn here

    @property
    def hash(self) -> str:
        """The hash of all fields; what has its default is left out, so that older hashes hold."""
        defaults = self._field_defaults
        fields = {k: v for k, v in self._asdict().items() if v != defaults.get(k)}
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]
