"""A training run on made-up images, as python epoch_standin.py FOLDER OUT [EPOCH BATCH].

It is killed at that batch of that epoch, if any.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from attnrate.models.vit import ViT
from attnrate.training.epochs import EpochRecipe, train_epochs
from attnrate.training.feed import Batch, Images
from attnrate.training.history import Training

SIZES = {"image": 8, "patch": 4, "width": 16, "layers": 2, "heads": 2, "m_h": 4, "m_ff": 16}


class Deadly(Images):
    """Images one of which is the last that is asked for: the process is killed, as by kill -9."""

    def batches(self, epoch: int) -> Iterator[Batch]:
        for number, batch in enumerate(super().batches(epoch)):
            if sys.argv[3:] == [str(epoch), str(number)]:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch


def feed(kind: type[Images] = Images, **changes: object) -> Images:
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 320)
    images = random.integers(0, 100, (320, 8, 8, 3)) + 15 * labels[:, None, None, None]
    return kind(images.astype(np.uint8), labels, **({"batch": 16} | changes))


def recipe(**changes: object) -> EpochRecipe:
    return EpochRecipe(**({"epochs": 4, "threads": 1, "precision": "float32"} | changes))


def run(folder: Path | None, **more: object) -> Training:
    torch.manual_seed(1)
    model = ViT("cpu", **SIZES, dropout=0.1)
    return train_epochs(model, feed(Deadly), recipe(), folder=folder, **more)


if __name__ == "__main__":
    from safetensors.torch import save_file

    done = run(Path(sys.argv[1]))
    save_file(dict(done.model.state_dict()), sys.argv[2])
