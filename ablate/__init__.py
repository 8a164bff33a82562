"""Ablation studies for diffusion models with multiplicative noise."""

from ablate.core.version import VERSION

__version__ = VERSION

__all__ = ["__version__"]
