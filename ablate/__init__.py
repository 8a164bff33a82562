"""Ablation studies for diffusion models with multiplicative noise.

The package is a flow in one direction, layer by layer (`tests/test_architecture.py` enforces it):

    maths -> learnt -> measured -> experiment -> told -> cli
"""

__version__ = "0.1.0"
