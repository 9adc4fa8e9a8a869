"""What the paper's two protocols cost, from counted floating-point operations: no data and no training needed.

    python benchmarks/cost.py [TFLOPS]        sustained speed of a GPU in 10^12 operations a second; 10 unless told

A forward pass is counted by torch on tensors without storage, a multiplication and an addition as two; a training step
as three forward passes (forward, and backward to inputs and to weights).
"""

import sys
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import alexnet, vgg16

from outclass.networks.nin import NinSettings, network_in_network
from stages import params

PRESETS = Path(__file__).resolve().parents[1] / "presets"
STEP = 3
CALTECH_IMAGES = 29_780
"""Of 256 classes, clutter apart; our six near-duplicates hold some of them."""


def forward(network: torch.nn.Module, side: int) -> float:
    """Operations for one image."""
    with FlopCounterMode(display=False) as counter:
        network(torch.empty(1, 3, side, side, device="meta"))
    return float(counter.get_total_flops())


def cifar100(speed: float) -> None:
    chosen = params.load(PRESETS / "cifar100.yaml")
    assert chosen.backbone.nin is not None
    settings = NinSettings(**chosen.backbone.nin.model_dump())
    classes = 100 - chosen.split.novel_classes
    with torch.device("meta"):
        image = forward(network_in_network(3, classes, settings), 32)
    runs = len(chosen.repetitions) * len(chosen.folds)
    kept = classes - chosen.split.presumed_novel_classes
    trained = chosen.split.items.train * (classes + chosen.split.partitions * kept)
    epochs = STEP * image * trained * settings.epochs
    scored = image * 60_000 * (1 + chosen.split.partitions)
    # moments of 3,072 values an image, and an eigendecomposition (about 9 d^3) and a product (2 d^2) for each network
    whitening = 2 * 3072**2 * 60_000 * (2 + chosen.split.partitions) + (1 + chosen.split.partitions) * 9 * 3072**3
    print(f"cifar100: NIN {image / 1e9:.2f} GFLOP an image, {STEP * image / 1e9:.2f} a training step")
    show("one network (backbone)", STEP * image * chosen.split.items.train * classes * settings.epochs, speed)
    show("one run: 1 + L networks", epochs + scored + whitening, speed)
    show(f"all {runs} runs", runs * (epochs + scored + whitening), speed)
    show("one fold a repetition (folds: [0])", len(chosen.repetitions) * (epochs + scored + whitening), speed)


def caltech256(speed: float) -> None:
    chosen = params.load(PRESETS / "caltech256.yaml")
    assert chosen.backbone.flat is not None
    flat, classes = chosen.backbone.flat, 250 - chosen.split.novel_classes
    with torch.device("meta"):
        images = {name: forward(build().eval(), 224) for name, build in (("vgg16", vgg16), ("alexnet", alexnet))}
    print("caltech256: " + ", ".join(f"{name} {image / 1e9:.1f} GFLOP an image" for name, image in images.items()))
    for name, image in images.items():
        show(f"features by {name}, mirrored too, once", 2 * image * CALTECH_IMAGES, speed)
    head = 2 * flat.hidden * (4096 + classes)
    heads = 1 + chosen.split.partitions
    run = heads * (STEP * head * flat.steps * flat.batch + head * CALTECH_IMAGES)
    runs = len(chosen.repetitions) * len(chosen.folds)
    show("one run: 1 + L heads", run, speed)
    show(f"all {runs} runs", runs * run, speed)


def show(what: str, operations: float, speed: float) -> None:
    seconds = operations / speed / 1e12
    spent = (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.1f} min"
        if seconds >= 60
        else f"{seconds:.0f} s"
    )
    print(f"  {what:<40} {operations / 1e15:10.3f} PFLOP   {spent:>9} at {speed:g} TFLOPS", flush=True)


if __name__ == "__main__":
    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    cifar100(wanted)
    caltech256(wanted)
