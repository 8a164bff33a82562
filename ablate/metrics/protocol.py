"""How a number was measured. Numbers with different protocols are not to be ranked together."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple


class Protocol(NamedTuple):
    extractor: str
    extractor_hash: str
    resize: str  # none, or how images are brought to the extractor's size
    quantised: bool  # samples rounded to uint8 before they are measured
    reference: str  # dataset/split
    reference_hash: str
    reference_count: int
    samples: int  # per seed
    seeds: int = 1  # that a value is the mean over

    @property
    def hash(self) -> str:
        """Of all that counts; one seed goes without saying, so that older hashes hold."""
        told = {k: v for k, v in self._asdict().items() if k != "seeds" or v != 1}
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]
