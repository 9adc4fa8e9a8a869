"""Network in Network (Lin, Chen & Yan 2014): convolutions with a small network at every place, no dense layer.

As published for CIFAR: three blocks, each a convolution and 1 x 1 convolutions, a rectifier after every one of them,
pooling and dropout in between, and each class's activity the mean of its own map. So the activities u are >= 0.

A *head* is one such network, for one subset of the classes. It fills a device by itself, so heads are trained one
after the other. The images live on the device, whole batches are cut, shifted and mirrored there in one gather, and
nothing in the loop waits for the device. Every operation has a deterministic gradient on a GPU.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import ceil, cos, pi

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outclass.arrays import Bools, Floats, Ints
from outclass.errors import OutclassError
from outclass.features.whitening import Scaling, Zca, fit_scaling, fit_zcas

WARM_UP = 0.1
"""Share of the steps in which the learning rate rises."""

FIRST_ACTIVITY = 3.0
"""Bias of every class before training. After it, the largest activity of a glyph is about 30."""

LONGEST_GRADIENT = 1.0
"""Longer ones are cut down to it. Without, a learning rate of 0.1 cost 10 to 30 points of accuracy on glyphs."""


@dataclass(frozen=True)
class NinSettings:
    width: int = 192  # channels of most layers
    blocks: int = 3  # of a convolution and its 1 x 1 convolutions
    pointwise: int = 2  # 1 x 1 convolutions in a block
    epochs: int = 160
    batch: int = 128  # images an update
    learning_rate: float = 0.1  # of SGD at its highest; rises in the first tenth, then falls to zero along a cosine
    momentum: float = 0.9  # Nesterov's
    weight_decay: float = 5e-4
    dropout: float = 0.5  # share of units silenced between blocks
    flip: bool = True  # every other image is mirrored
    shift: int = 4  # pixels that an image is moved by, at most, in each direction
    whitening: float | None = 0.1  # epsilon of the ZCA whitening; None: channels are only scaled


class GlobalAverage(nn.Module):
    """The mean of each map, in float32; nn.AdaptiveAvgPool2d has no deterministic gradient on a GPU."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.to(torch.float32).mean(dim=(2, 3))


def network_in_network(channels: int, classes: int, settings: NinSettings) -> nn.Sequential:
    """Images (n, channels, side, side) -> activities (n, classes), all >= 0; weights from torch's global stream."""
    layers: list[nn.Module] = []
    for block in range(settings.blocks):
        last = block == settings.blocks - 1
        widths = _widths(block, classes if last else None, settings)
        layers += _block(channels, widths, 3 if last else 5)
        if not last:
            pool = nn.MaxPool2d if block == 0 else nn.AvgPool2d
            layers += [pool(3, stride=2, ceil_mode=True), nn.Dropout(settings.dropout)]
        channels = widths[-1]
    network = nn.Sequential(*layers, GlobalAverage())
    _initialise(network)
    return network.to(memory_format=torch.channels_last)


def _widths(block: int, classes: int | None, settings: NinSettings) -> list[int]:
    """Channels after each convolution of a block: 192, 160, 96 as published in the first, else all the same."""
    width, between = settings.width, settings.pointwise - 1
    if classes is not None:
        return [width] * (1 + between) + [classes]
    if block == 0:
        return [width] + [max(1, width * 5 // 6)] * between + [max(1, width // 2)]
    return [width] * (2 + between)


def _block(channels: int, widths: list[int], kernel: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.ReLU(inplace=True)]
        channels, kernel = width, 1
    return layers


def _initialise(network: nn.Module) -> None:
    """Weights that keep the variance through rectifiers (He et al. 2015), biases of zero but for the last layer.

    A rectifier at the output that is zero for all images gets no gradient of its own; with biases of zero that is how
    one class in eight starts, and in trials some never came back. So every class starts active, by a positive bias that
    is the same for all and so leaves the softmax as it is.
    """
    for parameter in network.parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
        else:
            nn.init.zeros_(parameter)
    *_, output_bias = network.parameters()
    nn.init.constant_(output_bias, FIRST_ACTIVITY)


@dataclass(frozen=True)
class NinHead:
    """One trained network, with its own preparation of the images."""

    inputs: Zca | Scaling
    network: nn.Sequential
    absent: Tensor  # (k,): classes that it was not taught

    @torch.no_grad()
    def activities(self, images: Tensor) -> Tensor:
        """Images (n, side, side, channels) of 0..255 -> (n, k) in float32; -inf for absent classes."""
        activities: Tensor = self.network(self.inputs.apply(images).permute(0, 3, 1, 2))
        if not (activities.isfinite() | self.absent).all():
            raise OutclassError("training diverged: the network's activities are not finite; lower the learning rate")
        return activities.masked_fill(self.absent, -torch.inf)


@dataclass(frozen=True)
class NinHeads:
    heads: list[NinHead]

    def activities(self, images: Ints, block: int = 256) -> Floats:
        """The output activities u of all images (n, side, side, channels), (H, n, k) in float32."""
        device = self.heads[0].absent.device
        parts = [part.to(device) for part in torch.as_tensor(images).split(block)]
        return np.stack(
            [np.concatenate([head.activities(part).cpu().numpy() for part in parts]) for head in self.heads]
        )


def train_nin(
    images: Ints,
    labels: Ints,
    taught: Bools,
    generators: Sequence[np.random.Generator],
    settings: NinSettings,
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> NinHeads:
    """Train a head for each row of ``taught`` (H, k), on the images (n, side, side, channels) whose label it marks.

    Each head's stream gives one seed, from which torch draws all else; torch's own stream is left as it was.
    """
    device = torch.device(device)
    seeds = [int(rng.integers(2**63)) for _, rng in zip(taught, generators, strict=True)]
    x, y, known = (torch.as_tensor(array, device=device) for array in (images, labels.astype(np.int64), taught))
    total = sum(settings.epochs * _batches(items, settings) for items in taught[:, labels].sum(axis=1))
    done = count(1)
    heads = []
    for classes, inputs, seed in zip(known, _fit_inputs(x, y, known, settings), seeds, strict=True):
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            network = network_in_network(x.shape[3], len(classes), settings).to(device)
            head = NinHead(inputs, network, ~classes)
            _train(head, x, y, settings, lambda: on_step(next(done), total))
        heads.append(head)
    return NinHeads(heads)


def _fit_inputs(x: Tensor, y: Tensor, known: Tensor, settings: NinSettings) -> Iterator[Zca | Scaling]:
    """Each head's preparation of the images, from those of the classes it is taught alone."""
    if settings.whitening is not None:
        return fit_zcas(x, y, known, settings.whitening)
    return (fit_scaling(x[classes[y]]) for classes in known)


def _train(head: NinHead, x: Tensor, y: Tensor, settings: NinSettings, tick: Callable[[], None]) -> None:
    mine = (~head.absent)[y].nonzero().squeeze(1)
    padded, labels = prepared(x, mine, head.inputs, settings.shift), y[mine]
    optimiser = _optimiser(head.network, settings)
    batches = _batches(len(mine), settings)
    orders = (torch.randperm(len(mine), device=x.device).tensor_split(batches) for _ in range(settings.epochs))
    for step, items in enumerate(chain.from_iterable(orders)):
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * _pace(step, settings.epochs * batches)
        shown = random_views(padded, items, settings.shift, settings.flip)
        # Half the bits are for GPUs: a CPU that lacks the instructions takes many times as long.
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            activities = head.network(shown)
        loss = functional.cross_entropy(activities.masked_fill(head.absent, -torch.inf), labels[items])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.network.parameters(), LONGEST_GRADIENT)
        optimiser.step()
        tick()
    head.network.eval().requires_grad_(False)
    some = mine[:: ceil(len(mine) / 256)]
    _refuse_if_dead(head.activities(x[some])[:, ~head.absent])


def _batches(items: int, settings: NinSettings) -> int:
    """In an epoch; they are all of the same size, or one image less."""
    return ceil(items / settings.batch)


def _pace(step: int, steps: int) -> float:
    """Share of the learning rate: up a line, then down a cosine."""
    return min(1.0, (step + 1) / (WARM_UP * steps)) * (1 + cos(pi * step / steps)) / 2


def _optimiser(network: nn.Module, settings: NinSettings) -> torch.optim.SGD:
    """Weights decay, biases do not: the last one keeps the classes active."""
    weights, biases = ([p for p in network.parameters() if (p.ndim == 1) == bias] for bias in (False, True))
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": biases, "weight_decay": 0.0}]
    return torch.optim.SGD(
        groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=settings.momentum > 0
    )


def prepared(x: Tensor, items: Tensor, inputs: Zca | Scaling, shift: int, block: int = 2048) -> Tensor:
    """The prepared images of some items (n, side, side, channels), with ``shift`` zeros around each."""
    _, height, width, channels = x.shape
    padded = torch.zeros(len(items), height + 2 * shift, width + 2 * shift, channels, device=x.device)
    inner = padded[:, shift : shift + height, shift : shift + width]
    for part, into in zip(items.split(block), inner.split(block), strict=True):
        into.copy_(inputs.apply(x[part]))
    return padded


def random_views(padded: Tensor, items: Tensor, shift: int, flip: bool) -> Tensor:
    """Each item at a random place within its padding and, if asked for, every other one mirrored."""
    top, left = torch.randint(2 * shift + 1, (2, len(items)), device=padded.device)
    mirrored = torch.randint(2, (len(items),), device=padded.device) * int(flip)
    return views(padded, items, top, left, mirrored.bool(), shift)


def views(padded: Tensor, items: Tensor, top: Tensor, left: Tensor, mirrored: Tensor, shift: int) -> Tensor:
    """Cut each item's image out of its padded one, at its own place, in one gather for the whole batch.

    ``padded`` (n, height + 2 shift, width + 2 shift, channels) -> (b, channels, height, width), channels last in
    memory.
    """
    _, high, wide, channels = padded.shape
    rows, columns = (torch.arange(length - 2 * shift, device=padded.device) for length in (high, wide))
    columns = torch.where(mirrored[:, None], columns.flip(0), columns) + left[:, None]
    rows = rows + (items * high + top)[:, None]
    pixels = rows[:, :, None] * wide + columns[:, None, :]
    return padded.view(-1, channels)[pixels.flatten()].view(*pixels.shape, channels).permute(0, 3, 1, 2)


def _refuse_if_dead(activities: Tensor) -> None:
    """Rectifiers that a wild step has silenced for good leave a network that answers the same whatever it sees."""
    if len(activities) > 1 and (activities == activities[0]).all():
        raise OutclassError(
            "training diverged: the network's activities are the same for every image; lower the learning rate"
        )
