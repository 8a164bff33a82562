"""Holm's correction, by hand."""

from __future__ import annotations

import pytest

from ablate.core.holm import holm


def test_holm() -> None:
    """By hand: 0.01 * 3; max of that and 0.02 * 2; max of that and 0.04 * 1."""
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
