"""Whether torch can compile networks for a CPU on this machine."""

from __future__ import annotations

import sys

import torch

from ablate.core.errors import first_line


def can_compile() -> bool:
    """Try it on a small function; if that fails, print one line and return False.

    Inductor needs a C++ compiler, which many machines lack.
    """
    x = torch.ones(64)
    try:
        torch.compile(lambda x: (x + 1).sin() * 2)(x)
    except Exception as error:  # the compiler, its headers or its libraries: anything may fail
        reason = first_line(error)
        print(f"--compile: not possible here ({reason}); training without", file=sys.stderr)
        return False
    return True
