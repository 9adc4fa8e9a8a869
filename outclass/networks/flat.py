"""The flat network of the paper: two affine layers on fixed features, trained for many partitions at once.

A *head* is one such network, for one subset of the classes. Small heads leave a device idle, so H of them are
trained as one batched model. They stay strangers to each other: own items, own seed, own input scaling, and a loss
that is the sum of the heads' own means, so each ends as if trained alone (to the last bit where sizes are multiples
of 16, to rounding elsewhere: matrix products take other paths there).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.adamw import adamw

from outclass.arrays import Bools, Floats, Ints
from outclass.errors import OutclassError

ALIGNED_ROWS = 16


@dataclass(frozen=True)
class FlatSettings:
    hidden: int = 256  # units between the two affine layers
    steps: int = 600  # updates, the same for every head whatever its number of items
    batch: int = 128  # items an update
    learning_rate: float = 2e-3  # of Adam at the start; falls to zero along a cosine
    weight_decay: float = 1e-2
    dropout: float = 0.0  # share of hidden units silenced in an update


@dataclass(frozen=True)
class FlatHeads:
    """H trained heads; tensors have one slice a head."""

    mean: Tensor  # (H, 1, d) of the head's own training items
    scale: Tensor  # (H, 1, d)
    hidden: tuple[Tensor, Tensor]  # (H, d, hidden), (H, 1, hidden)
    output: tuple[Tensor, Tensor]  # (H, hidden, k), (H, 1, k)
    absent: Tensor  # (H, 1, k): classes that the head was not taught

    def logits(self, features: Tensor, dropout: Tensor | None = None) -> Tensor:
        """(H, n, d), or (n, d) for all heads alike -> (H, n, k); -inf for absent classes."""
        standard = (features - self.mean) / self.scale
        active = torch.relu(torch.baddbmm(self.hidden[1], standard, self.hidden[0]))
        if dropout is not None:
            active = active * dropout
        return torch.baddbmm(self.output[1], active, self.output[0]).masked_fill(self.absent, -torch.inf)

    @torch.no_grad()
    def activities(self, features: Floats, block: int = 4096) -> Floats:
        """The output activities u of all items, (H, n, k) in float32; -inf for absent classes."""
        x = torch.as_tensor(features, dtype=torch.float32)
        # Rows are filled up so that no head's place in the batch changes how its part is laid out in memory.
        padded = functional.pad(x, (0, 0, 0, -len(x) % ALIGNED_ROWS))
        blocks = [self.logits(part.to(self.mean.device)).cpu() for part in padded.split(block)]
        activities = torch.cat(blocks, dim=1)[:, : len(x)]
        if not (activities.isfinite() | self.absent.cpu()).all():
            raise OutclassError("training diverged: the network's activities are not finite; lower the learning rate")
        return activities.numpy()


def train_heads(
    features: Floats,
    labels: Ints,
    taught: Bools,
    generators: Sequence[np.random.Generator],
    settings: FlatSettings,
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> FlatHeads:
    """Train a head for each row of ``taught`` (H, k), on the items whose label it marks.

    ``generators`` holds each head's own stream of randomness; everything drawn from it is drawn on the CPU, so
    the same numbers reach every device.
    """
    mean, scale = _input_scaling(features, labels, taught)
    layers, orders = _draw(labels, taught, features.shape[1], generators, settings)
    on_device = [torch.as_tensor(a, dtype=torch.float32, device=device) for a in (mean, scale, *layers)]
    parameters = [layer.requires_grad_() for layer in on_device[2:]]
    absent = torch.as_tensor(~taught[:, None, :], device=device)
    first, first_bias, second, second_bias = parameters
    heads = FlatHeads(on_device[0], on_device[1], (first, first_bias), (second, second_bias), absent)

    x = torch.as_tensor(features, dtype=torch.float32, device=device)
    y = torch.as_tensor(labels, dtype=torch.long, device=device)
    items = torch.as_tensor(orders, device=device)
    optimiser = _AdamW(parameters, settings.weight_decay)
    for step in range(settings.steps):
        batch = items[:, step]
        mask = _dropout_mask(generators, settings, device)
        loss = functional.cross_entropy(heads.logits(x[batch], mask).flatten(0, 1), y[batch].flatten(), reduction="sum")
        gradients = torch.autograd.grad(loss / settings.batch, parameters)  # sum over heads of their batches' means
        optimiser.step(gradients, settings.learning_rate * (1 + cos(pi * step / settings.steps)) / 2)
        on_step(step + 1, settings.steps)
    for layer in parameters:
        layer.requires_grad_(False)
    return heads


class _AdamW:
    """What torch.optim.AdamW does, by the function that it calls.

    The class would load torch's compiler with its first step, which takes longer than many a training here.
    """

    def __init__(self, parameters: list[Tensor], weight_decay: float) -> None:
        self.parameters, self.weight_decay = parameters, weight_decay
        self.means, self.squares = ([torch.zeros_like(layer) for layer in parameters] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        adamw(
            self.parameters,
            list(gradients),
            self.means,
            self.squares,
            max_exp_avg_sqs=[],
            state_steps=self.steps,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )


def _input_scaling(features: Floats, labels: Ints, taught: Bools) -> tuple[Floats, Floats]:
    """Each head's mean and standard deviation of the inputs, (H, 1, d), from class-wise sums.

    Only classes that the head is taught contribute: a presumed-novel class must leave no trace.
    """
    one_hot = np.eye(taught.shape[1])[labels]
    x = features.astype(np.float64)
    sums, squares, count = one_hot.T @ x, one_hot.T @ x**2, one_hot.sum(axis=0)
    total = (taught @ count)[:, None]
    mean = taught @ sums / total
    variance = np.maximum(taught @ squares / total - mean**2, 0.0)
    scale = np.sqrt(variance)
    scale[scale < 1e-6 * np.maximum(1.0, np.abs(mean))] = 1.0  # constant but for rounding: it tells nothing
    return mean[:, None], scale[:, None]


def _draw(
    labels: Ints, taught: Bools, width: int, generators: Sequence[np.random.Generator], settings: FlatSettings
) -> tuple[list[Floats], Ints]:
    """Initial layers (each (H, ...)) and the order of items (H, steps, batch), from each head's own stream."""
    per_head = []
    for classes, rng in zip(taught, generators, strict=True):
        hidden = _initial(width, settings.hidden, rng)
        output = _initial(settings.hidden, len(classes), rng)
        zeros = np.zeros((1, settings.hidden)), np.zeros((1, len(classes)))
        items = np.flatnonzero(classes[labels])
        per_head.append((hidden, zeros[0], output, zeros[1], _shuffled_epochs(items, settings, rng)))
    *layers, orders = (np.stack(arrays) for arrays in zip(*per_head, strict=True))
    return layers, orders


def _initial(inputs: int, outputs: int, rng: np.random.Generator) -> Floats:
    """Weights of variance 1 / (3 inputs), as torch.nn.Linear draws them.

    Larger ones (He et al. 2015) cost 5 points of accuracy on HOG features of small glyphs.
    """
    return rng.normal(0, 1 / np.sqrt(3 * inputs), (inputs, outputs))


def _shuffled_epochs(items: Ints, settings: FlatSettings, rng: np.random.Generator) -> Ints:
    """Batches from one epoch after another, each in its own random order."""
    needed = settings.steps * settings.batch
    epochs = rng.permuted(np.tile(items, (-(-needed // len(items)), 1)), axis=1)
    return epochs.ravel()[:needed].reshape(settings.steps, settings.batch)


def _dropout_mask(
    generators: Sequence[np.random.Generator], settings: FlatSettings, device: torch.device | str
) -> Tensor | None:
    if settings.dropout == 0:
        return None
    shape = (settings.batch, settings.hidden)
    kept = np.stack([rng.random(shape, dtype=np.float32) >= settings.dropout for rng in generators])
    return torch.as_tensor(kept, device=device) / (1 - settings.dropout)
