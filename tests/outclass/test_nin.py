"""Network in Network: the published architecture, trained as plain torch trains it, each head as if alone."""

from dataclasses import fields, replace
from math import cos, pi

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from outclass.errors import OutclassError
from outclass.features.whitening import Scaling, Zca, fit_scaling, fit_zca, moments
from outclass.networks.nin import NinSettings, network_in_network, prepared, random_views, train_nin, views
from stages.params import Nin

SMALL = NinSettings(width=12, epochs=3, batch=16, learning_rate=0.05, shift=2)
PLAIN = replace(SMALL, dropout=0.0, shift=0, flip=False, whitening=None)
RNG = np.random.default_rng(3)
LABELS = RNG.permutation(np.repeat(np.arange(4), [8, 12, 10, 10]))
# Each class has a picture of its own, and each image noise.
IMAGES = (RNG.integers(0, 200, (4, 9, 9, 3))[LABELS] + RNG.integers(0, 56, (40, 9, 9, 3))).astype(np.uint8)
TAUGHT = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 0]], dtype=bool)


@pytest.fixture(autouse=True)
def one_thread():
    """The number of threads may change the last bits, so that it must be the same for what is compared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(taught=TAUGHT, settings=SMALL, images=IMAGES, labels=LABELS, numbers=None, **options):
    """One head for each row of ``taught``; its stream belongs to its number and not to its row."""
    numbers = range(len(taught)) if numbers is None else numbers
    return train_nin(images, labels, taught, [np.random.default_rng(n) for n in numbers], settings, **options)


def tensors(head):
    inputs = [getattr(head.inputs, field.name) for field in fields(head.inputs)]
    return [*inputs, *head.network.parameters(), head.absent]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def convolutions(network):
    return [
        (layer.kernel_size[0], layer.padding[0], layer.in_channels, layer.out_channels)
        for layer in network
        if isinstance(layer, nn.Conv2d)
    ]


def test_settings_are_the_parameters():
    assert [field.name for field in fields(NinSettings)] == list(Nin.model_fields)


@pytest.mark.parametrize(("classes", "count"), [(10, 966_986), (100, 984_356)])
def test_as_many_parameters_as_published(classes, count):
    # For 10 classes: 14,592 + 30,880 + 15,456 in the first block, 460,992 + 2 * 37,056 in the second,
    # 331,968 + 37,056 + 1,930 in the third. 90 more classes: 90 * 193.
    network = network_in_network(3, classes, NinSettings())
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_layers_are_as_published():
    network = network_in_network(3, 10, NinSettings())
    assert convolutions(network) == [
        *((5, 2, 3, 192), (1, 0, 192, 160), (1, 0, 160, 96)),
        *((5, 2, 96, 192), (1, 0, 192, 192), (1, 0, 192, 192)),
        *((3, 1, 192, 192), (1, 0, 192, 192), (1, 0, 192, 10)),
    ]
    x, shapes = torch.zeros(2, 3, 32, 32), []
    for layer in network:
        x = layer(x)
        if isinstance(layer, nn.ReLU | nn.MaxPool2d | nn.AvgPool2d):
            shapes.append((type(layer).__name__, *x.shape[1:]))
    assert shapes == [
        *(("ReLU", 192, 32, 32), ("ReLU", 160, 32, 32), ("ReLU", 96, 32, 32), ("MaxPool2d", 96, 16, 16)),
        *(("ReLU", 192, 16, 16), ("ReLU", 192, 16, 16), ("ReLU", 192, 16, 16), ("AvgPool2d", 192, 8, 8)),
        *(("ReLU", 192, 8, 8), ("ReLU", 192, 8, 8), ("ReLU", 10, 8, 8)),
    ]
    assert x.shape == (2, 10)
    assert [layer.p for layer in network if isinstance(layer, nn.Dropout)] == [0.5, 0.5]


def test_the_answer_is_that_of_the_published_chain_written_out():
    network = network_in_network(3, 5, SMALL).eval()
    weights = list(network.parameters())
    image = torch.rand(4, 3, 16, 16) * 4 - 2
    x = image
    for layer in range(9):
        weight = weights[2 * layer]
        x = functional.conv2d(x, weight, weights[2 * layer + 1], padding=weight.shape[-1] // 2).clamp(min=0)
        if layer in (2, 5):  # 16 and 8 to a side: the last windows of 3 stick out by one row or column
            padded, inside = (functional.pad(a, (0, 1, 0, 1)) for a in (x, torch.ones_like(x)))
            windows, counted = (a.unfold(2, 3, 2).unfold(3, 3, 2) for a in (padded, inside))
            mean = windows.sum(dim=(4, 5)) / counted.sum(dim=(4, 5))
            x = windows.amax(dim=(4, 5)) if layer == 2 else mean
    torch.testing.assert_close(network(image), x.sum(dim=(2, 3)) / 16, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"width": 24}, [(5, 24), (1, 20), (1, 12), (5, 24), (1, 24), (1, 24), (3, 24), (1, 24), (1, 7)]),
        ({"blocks": 1}, [(3, 12), (1, 12), (1, 7)]),
        ({"blocks": 2}, [(5, 12), (1, 10), (1, 6), (3, 12), (1, 12), (1, 7)]),
        ({"pointwise": 1}, [(5, 12), (1, 6), (5, 12), (1, 12), (3, 12), (1, 7)]),
        ({"blocks": 2, "pointwise": 3}, [(5, 12), (1, 10), (1, 10), (1, 6), (3, 12), (1, 12), (1, 12), (1, 7)]),
    ],
)
def test_width_blocks_and_pointwise_change_the_network_as_said(change, expected):
    network = network_in_network(1, 7, replace(SMALL, **change))
    assert [(kernel, channels) for kernel, _, _, channels in convolutions(network)] == expected


@pytest.mark.parametrize("side", [8, 9, 12, 33])
def test_four_blocks_fit_into_the_smallest_images(side):
    network = network_in_network(3, 7, replace(SMALL, blocks=4))
    assert [type(layer).__name__ for layer in network if "Pool" in type(layer).__name__] == [
        *("MaxPool2d", "AvgPool2d", "AvgPool2d")
    ]
    assert network(torch.rand(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_active_before_training(seed):
    torch.manual_seed(seed)
    network = network_in_network(3, 100, NinSettings(width=48)).eval()
    activities = network(torch.randn(50, 3, 16, 16))
    assert (activities.amax(dim=0) > 0).all()
    *_, bias = network.parameters()
    assert len(set(bias.tolist())) == 1  # no class is preferred


def test_few_images_are_learnt_by_heart():
    images = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), dtype=np.uint8)
    labels = np.arange(30) % 3
    settings = NinSettings(width=24, epochs=60, batch=10, learning_rate=0.05, dropout=0.0, shift=0, flip=False)
    activities = train(np.ones((1, 3), bool), settings, images, labels).activities(images)
    assert (activities[0].argmax(axis=1) == labels).all()


def test_new_images_are_told_apart():
    rng = np.random.default_rng(5)
    places = np.zeros((3, 12, 12, 1))
    places[0, :5], places[1, 7:], places[2, 4:8, 4:8] = 120, 120, 120  # bright above, below, in the middle
    labels = np.arange(90) % 3
    seen, unseen = ((places[labels] + rng.integers(0, 60, (90, 12, 12, 1))).astype(np.uint8) for _ in range(2))
    settings = NinSettings(width=24, epochs=15, batch=30, learning_rate=0.05, dropout=0.2, shift=1, whitening=None)
    activities = train(np.array([[1, 1, 1], [1, 0, 1]], bool), settings, seen, labels).activities(unseen)
    assert (activities[0].argmax(axis=1) == labels).mean() > 0.95
    assert (activities[1].argmax(axis=1) == labels)[labels != 1].mean() > 0.95


def test_training_is_that_of_plain_torch():
    """Whole epochs as one batch, so that the order of the images does not matter; the rest is written out."""
    settings = replace(PLAIN, batch=100, epochs=12, weight_decay=0.05)
    classes = TAUGHT[2]
    mine = classes[LABELS]
    pixels = IMAGES[mine].astype(np.float64)
    scaled = (IMAGES - pixels.mean(axis=(0, 1, 2))) / pixels.std(axis=(0, 1, 2))
    x = torch.tensor(scaled.transpose(0, 3, 1, 2), dtype=torch.float32)
    y = torch.tensor(np.cumsum(classes)[LABELS[mine]] - 1)
    torch.manual_seed(int(np.random.default_rng(7).integers(2**63)))
    network = network_in_network(3, 4, settings)
    parameters = list(network.parameters())
    velocity = [torch.zeros_like(p) for p in parameters]
    for step in range(12):
        rate = 0.05 * min(1, (step + 1) / 1.2) * (1 + cos(pi * step / 12)) / 2
        loss = functional.cross_entropy(network(x[mine])[:, classes], y)
        gradients = torch.autograd.grad(loss, parameters)
        length = torch.cat([g.flatten() for g in gradients]).norm()
        with torch.no_grad():
            for p, v, g in zip(parameters, velocity, gradients, strict=True):
                slope = g / max(1.0, length) + (0.05 * p if p.ndim > 1 else 0)
                v.mul_(0.9).add_(slope)
                p.sub_(rate * (slope + 0.9 * v))
    ours = train(classes[None], settings, numbers=[7]).activities(IMAGES)[0]
    np.testing.assert_allclose(ours[:, classes], network(x).detach()[:, classes], rtol=2e-3, atol=2e-3)


def test_activities_are_not_negative_and_minus_infinity_for_absent_classes():
    activities = train().activities(IMAGES)
    assert activities.shape == (3, 40, 4)
    assert activities.dtype == np.float32
    for head, classes in zip(activities, TAUGHT, strict=True):
        assert (head[:, ~classes] == -np.inf).all()
        assert (head[:, classes] >= 0).all()
        assert np.isfinite(head[:, classes]).all()


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    one, same, other = (train(TAUGHT[:1], numbers=[number]) for number in (0, 0, 1))
    assert equal(one.heads[0], same.heads[0])
    np.testing.assert_array_equal(one.activities(IMAGES), same.activities(IMAGES))
    assert not np.array_equal(one.activities(IMAGES), other.activities(IMAGES))


@pytest.mark.parametrize("whitening", [0.1, None])
def test_heads_trained_after_each_other_are_those_trained_alone(whitening):
    settings = replace(SMALL, whitening=whitening)
    together = train(settings=settings)
    activities = together.activities(IMAGES)
    for number in (1, 2):
        alone = train(TAUGHT[number : number + 1], settings, numbers=[number])
        assert equal(together.heads[number], alone.heads[0])
        np.testing.assert_array_equal(activities[number], alone.activities(IMAGES)[0])


@pytest.mark.parametrize("whitening", [0.1, None])
def test_images_of_untaught_classes_leave_no_trace(whitening):
    settings = replace(SMALL, whitening=whitening)
    garbage = IMAGES.copy()
    garbage[LABELS == 0] = np.random.default_rng(1).integers(0, 256, (8, 9, 9, 3), dtype=np.uint8)
    clean, dirty = train(TAUGHT[:2], settings), train(TAUGHT[:2], settings, garbage)
    assert equal(clean.heads[1], dirty.heads[1])
    assert not equal(clean.heads[0], dirty.heads[0])  # the first head is taught class 0


def test_inputs_are_prepared_by_the_taught_images_alone():
    whitened, scaled = (train(settings=replace(SMALL, whitening=epsilon)).heads for epsilon in (0.3, None))
    for number, classes in enumerate(TAUGHT):
        mine = torch.as_tensor(IMAGES[classes[LABELS]])
        assert isinstance(whitened[number].inputs, Zca)
        assert torch.equal(whitened[number].inputs.matrix, fit_zca(moments(mine), 0.3).matrix)
        assert isinstance(scaled[number].inputs, Scaling)
        assert torch.equal(scaled[number].inputs.mean, fit_scaling(mine).mean)


def test_views_are_what_a_loop_over_the_images_gives():
    rng = np.random.default_rng(2)
    images, shift = rng.normal(size=(5, 4, 6, 2)).astype(np.float32), 2
    padded = np.pad(images, ((0, 0), (shift, shift), (shift, shift), (0, 0)))
    items, top, left = np.array([3, 0, 3, 4, 1, 2]), np.array([0, 4, 2, 1, 3, 2]), np.array([4, 0, 2, 3, 1, 2])
    mirrored = np.array([True, False, False, True, True, False])
    expected = np.empty((6, 2, 4, 6), np.float32)
    for place, item in enumerate(items):
        for row in range(4):
            for column in range(6):
                from_column = 5 - column if mirrored[place] else column
                expected[place, :, row, column] = padded[item, row + top[place], from_column + left[place]]
    found = views(*(torch.as_tensor(a) for a in (padded, items, top, left, mirrored)), shift)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found[5].permute(1, 2, 0), images[2])  # in the middle of the padding: as it was
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("shift", "flip", "kinds"), [(0, False, 1), (0, True, 2), (1, False, 9), (1, True, 18)])
def test_every_shift_and_both_sides_occur_and_nothing_else(shift, flip, kinds):
    torch.manual_seed(0)
    image = torch.arange(1.0, 10.0).reshape(1, 3, 3, 1)
    padded = functional.pad(image, (0, 0, shift, shift, shift, shift))
    found = random_views(padded, torch.zeros(600, dtype=torch.long), shift, flip)
    places = range(2 * shift + 1)
    allowed = {
        tuple(side[top : top + 3, left : left + 3].flatten().tolist())
        for top in places
        for left in places
        for side in ((padded[0, :, :, 0], padded[0, :, :, 0].flip(1)) if flip else (padded[0, :, :, 0],))
    }
    seen = {tuple(view.flatten().tolist()) for view in found}
    assert len(allowed) == kinds
    assert seen == allowed


def test_images_are_padded_after_whitening():
    x = torch.as_tensor(IMAGES)
    zca = fit_zca(moments(x), 0.1)
    items = torch.tensor([5, 2, 30])
    padded = prepared(x, items, zca, 2, block=2)
    assert padded.shape == (3, 13, 13, 3)
    torch.testing.assert_close(padded[:, 2:-2, 2:-2], zca.apply(x[items]))
    assert padded.count_nonzero() == padded[:, 2:-2, 2:-2].count_nonzero()


@pytest.mark.parametrize("change", [{"flip": False}, {"shift": 0}, {"dropout": 0.0}, {"momentum": 0.0}, {"epochs": 2}])
def test_every_setting_of_the_training_matters(change):
    assert not equal(train(TAUGHT[:1]).heads[0], train(TAUGHT[:1], replace(SMALL, **change)).heads[0])


def test_progress_is_reported_after_every_step_of_every_head():
    calls = []
    train(on_step=lambda done, total: calls.append((done, total)))
    # 40, 32 and 18 images in batches of 16: 3, 2 and 2 an epoch, for 3 epochs.
    assert calls == [(done, 21) for done in range(1, 22)]


def test_trained_heads_need_no_gradients_and_drop_nothing():
    heads = train()
    assert not any(tensor.requires_grad for head in heads.heads for tensor in tensors(head))
    np.testing.assert_array_equal(heads.activities(IMAGES), heads.activities(IMAGES))


def test_the_block_size_does_not_change_the_answer():
    heads = train()
    np.testing.assert_allclose(heads.activities(IMAGES, block=7), heads.activities(IMAGES), rtol=1e-4, atol=1e-5)


def test_training_leaves_inputs_and_torchs_own_stream_as_they_were():
    images, labels = IMAGES.copy(), LABELS.copy()
    torch.manual_seed(11)
    before = torch.get_rng_state()
    train(images=images, labels=labels)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)


def test_every_head_needs_its_own_stream():
    with pytest.raises(ValueError, match="shorter"):
        train(numbers=[0, 1])


@pytest.mark.parametrize(
    ("rate", "message"), [(1e30, "are not finite; lower the"), (5.0, "the same for every image; lower the")]
)
def test_training_that_diverges_is_refused(rate, message):
    with pytest.raises(OutclassError, match="training diverged: .*" + message):
        train(TAUGHT[:1], replace(PLAIN, learning_rate=rate, epochs=10)).activities(IMAGES)


def test_broken_weights_are_refused():
    heads = train(TAUGHT[:1])
    *_, bias = heads.heads[0].network.parameters()
    bias[2] = torch.nan
    with pytest.raises(OutclassError, match="training diverged"):
        heads.activities(IMAGES)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_bits_each_time_with_deterministic_operations_only():
    torch.use_deterministic_algorithms(True)
    try:
        one, other = (train(device="cuda") for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(equal(a, b) for a, b in zip(one.heads, other.heads, strict=True))
