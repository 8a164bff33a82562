"""The FID Inception's weights as torch-fidelity looks for them, without its download."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ablate.metrics.extractors.inception import PARTS, STATE_DICT, _published, names


def publish_for_torch_fidelity(folder: Path) -> Path:
    """Write our copy under their names; what only logits need stays as it was initialised."""
    import torch_fidelity.feature_extractor_inceptionv3 as fidelity

    weights = _published()
    theirs = {
        f"{name}.{PARTS[part]}": weights[f"{layer}.{part}"]
        for layer, name in names()
        for part in PARTS
    }
    own = _untrained(fidelity).state_dict()
    fixed = {key: torch.ones_like(own[key]) for key in own if key.endswith("bn.weight")}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(own | fixed | theirs, folder / STATE_DICT)
    return folder / STATE_DICT


def _untrained(fidelity: object) -> nn.Module:
    """torch-fidelity's network without its weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "load_state_dict", lambda self, state, *args, **more: None)
        patch.setattr(torch, "load", lambda *args, **more: {})
        make = fidelity.FeatureExtractorInceptionV3  # type: ignore[attr-defined]
        net: nn.Module = make(
            "inception-v3-compat", ["2048"], feature_extractor_weights_path="none"
        )
        return net
