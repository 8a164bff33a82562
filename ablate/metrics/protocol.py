"""How a number was measured. Numbers with different protocols are not to be ranked together."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from ablate.errors import UserError


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


def require_same(first: Protocol, second: Protocol) -> None:
    """Refuse to compare what was measured differently, and say what differs."""
    pairs = zip(Protocol._fields, first, second, strict=True)
    different = [f"{name}: {a} against {b}" for name, a, b in pairs if a != b]
    if different:
        raise UserError(f"protocols differ and cannot be ranked together ({'; '.join(different)})")
