"""Drawing: nothing is drawn that no one uses, and memory does not grow with float images."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ablate.diffusion.inits import Source
from ablate.generate import draw as drawing
from ablate.generate.draw import BATCH, Sampling, draw
from ablate.generate.settings import Settings
from ablate.models import bundle as bundles
from ablate.samplers.noise import StepNoise
from ablate.samplers.registry import SAMPLERS


def settings_of(sampler: str) -> Settings:
    chosen = {"sampler": sampler, "init": "class-average", "sigma": 0.8, "levels": 4}
    return Settings.model_validate(chosen)


@pytest.mark.parametrize("name", [name for name, each in SAMPLERS.items() if not each.stochastic])
def test_deterministic_samplers_draw_no_noise(
    name: str, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, settings = bundles.read(tiny_bundle), settings_of(name)
    score, source = bundle.score_model, Source(bundle.moments)

    def with_noise(*arguments: object) -> object:
        _, seed, indices, shape, device, steps = arguments
        return StepNoise(seed, indices, shape, device, steps)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(drawing, "_noise", with_noise)
        before = draw(score, source, settings, 0, 4).pixels
    monkeypatch.setattr(drawing, "StepNoise", None)
    assert torch.equal(draw(score, source, settings, 0, 4).pixels, before)


def test_a_sampling_continues_where_it_stopped(tiny_bundle: Path) -> None:
    """Rung by rung the images and rates are those of one call."""
    bundle, settings = bundles.read(tiny_bundle), settings_of("adls")
    score, source = bundle.score_model, Source(bundle.moments)
    sampling, counts = Sampling(score, source, settings, 0, BATCH + 9), (5, BATCH, BATCH + 9)
    for count in counts:
        rung, whole = sampling.up_to(count), draw(score, source, settings, 0, count)
        assert len(rung.pixels) == count
        for part, expected in zip(rung, whole, strict=True):
            same = torch.equal if isinstance(part, torch.Tensor) else lambda a, b: a == b
            assert same(part, expected)  # type: ignore[arg-type]


MEASURE = """
import json, resource, sys
import torch
from ablate.core.device import resolve
from ablate.diffusion.inits import Source
from ablate.diffusion.moments import Gaussian, Moments
from ablate.generate.draw import draw
from ablate.generate.settings import Settings
from ablate.models.score_model import ScoreModel
from ablate.nets.precondition import Model

class Half(Model):
    def forward(self, y, s, labels=None):
        return y / 2

def most():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

resolve("cpu")
torch.set_num_threads(1)
shape, d = (3, 32, 32), 3072
flat = Gaussian(torch.full((d,), 0.4), torch.zeros(0, d), torch.zeros(0), torch.tensor(0.02))
moments = Moments(flat, [flat], torch.full((1, d), 1.5), 3)
score = ScoreModel(Half(torch.nn.Identity()), moments, shape)
chosen = {"sampler": "adls", "init": "class-average", "sigma": 0.8, "levels": 4}
settings = Settings.model_validate(chosen)
draw(score, Source(moments), settings, 0, 2)
before = most()
drawing = draw(score, Source(moments), settings, 0, int(sys.argv[1]))
print(json.dumps([len(drawing.pixels), most() - before]))
"""


@pytest.mark.long
def test_memory_is_that_of_a_batch_and_the_pixels() -> None:
    """18,000 more images of 3 × 32 × 32 take 55 MB, a byte a pixel; as float32 they took 4 times
    that for each of the copies made. A fifth is left for the allocator and 16 bytes an image."""
    grown = {}
    for count in (2000, 20_000):
        command = [sys.executable, "-c", MEASURE, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        drawn, grown[count] = json.loads(done.stdout)
        assert drawn == count
    assert grown[20_000] - grown[2000] < 1.2 * 18_000 * 3 * 32 * 32
