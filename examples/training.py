"""Train a classifier on shuffled batches of images in a Zarr array.

Run it with ``python examples/training.py FOLDER``. If PyTorch is installed, two worker processes of
its ``DataLoader`` read the batches; otherwise this process reads them. Running it again replaces
its output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz

COUNT, EDGE, SIZE = 4000, 16, 64  # images, pixels along each side, images of a batch
TORCH: Any = import_module("torch.utils.data") if find_spec("torch") else None


def pictures() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return noisy images with a bright stripe that is horizontal (0) or vertical (1)."""
    random = np.random.default_rng(5)
    images = random.integers(0, 160, (COUNT, EDGE, EDGE), np.uint8)
    labels = random.integers(0, 2, COUNT, np.uint8)
    for image, label in zip(images, labels, strict=True):
        stripe = image if label == 0 else image.T
        stripe[EDGE // 2 - 1 : EDGE // 2 + 1] += 60
    return images, labels


def loaded(images: oz.Array, labels: oz.Array, epoch: int) -> Iterable[Any]:
    """Return the batches of an epoch, by way of PyTorch where it is installed."""
    if TORCH is None:
        return oz.batches((images, labels), SIZE, seed=epoch)
    dataset = import_module("omnizarr.interop.torch").BatchDataset((images, labels), SIZE, seed=0)
    dataset.set_epoch(epoch)
    loader: Iterable[Any] = TORCH.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    return loader


def predict(weights: npt.NDArray[np.float64], images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the probability that each image is of class 1, by logistic regression."""
    flat = images.reshape(len(images), -1) / 255 - 0.35
    return 1 / (1 + np.exp(-(flat @ weights)))


def main(folder: Path) -> float:
    """Write the images, train for some epochs and return the share that is classified right."""
    pixels, classes = pictures()
    group = oz.open(folder / "stripes.zarr", "w")
    chunk = (50, EDGE, EDGE)
    images = group.create_array("images", data=pixels, chunks=chunk, shards=(500, EDGE, EDGE))
    labels = group.create_array("labels", data=classes)
    weights, seen = np.zeros(EDGE * EDGE), 0
    for number in range(4):
        for batch, label in loaded(images, labels, number):
            x, y = np.asarray(batch), np.asarray(label)
            slope = predict(weights, x) - y
            weights -= 0.05 * (x.reshape(len(x), -1) / 255 - 0.35).T @ slope
            seen += len(x)
    right = float(np.mean((predict(weights, pixels) > 0.5) == classes))
    print(f"{seen} images in batches, {right:.0%} classified right")
    return right


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
