"""Protocols: every field counts, and their hash is pinned."""

from __future__ import annotations

import pytest

from ablate.core.errors import UserError
from ablate.metrics.protocol import Protocol
from ablate.results import require_same

PROTOCOL = Protocol("digits-features", "6fe1", "none", True, "digits/train", "ca7d", 1438, 1000, 1)
OTHER = Protocol(
    "inception", "abcd", "tf-bilinear-299", False, "digits/test", "0000", 359, 999, 3, 2
)


@pytest.mark.parametrize("field", Protocol._fields)
def test_every_field_counts(field: str) -> None:
    changed = PROTOCOL._replace(**{field: getattr(OTHER, field)})
    assert changed.hash != PROTOCOL.hash
    with pytest.raises(UserError) as caught:
        require_same(PROTOCOL._asdict(), changed._asdict())
    text = str(caught.value)
    assert f"{field}: {getattr(PROTOCOL, field)} against {getattr(OTHER, field)}" in text
    assert not any(f"{other}: " in text for other in Protocol._fields if other != field)


def test_equal_protocols_are_let_through_and_the_hash_is_pinned() -> None:
    """MLflow holds the hash beside old numbers, so it must not change between versions."""
    require_same(PROTOCOL._asdict(), Protocol(*PROTOCOL)._asdict())
    assert Protocol(*PROTOCOL).hash == PROTOCOL.hash == "270537cd"


def test_all_that_differs_is_said_at_once() -> None:
    with pytest.raises(UserError) as caught:
        require_same(PROTOCOL._asdict(), OTHER._asdict())
    assert str(caught.value).count(" against ") == len(Protocol._fields)
    assert "\n" not in str(caught.value)
