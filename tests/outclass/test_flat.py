"""The flat network: many heads at once, each as if alone, and as an independent implementation trains it."""

from dataclasses import replace
from math import cos, pi, sqrt

import numpy as np
import pytest
import torch
from torch import nn

from outclass.errors import OutclassError
from outclass.networks import flat
from outclass.networks.flat import FlatSettings, train_heads

SMALL = FlatSettings(hidden=16, steps=25, batch=8, learning_rate=1e-2, weight_decay=1e-2)
DROPOUT = replace(SMALL, dropout=0.4)
LABELS = np.random.default_rng(9).permutation(np.repeat(np.arange(5), [3, 11, 7, 4, 20]))
FEATURES = np.random.default_rng(8).normal(2, 3, size=(45, 6)).astype(np.float32) + LABELS[:, None]
TAUGHT = np.array([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], dtype=bool)


@pytest.fixture(autouse=True)
def one_thread():
    """The number of threads may change the last bits, so that it must be the same for what is compared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(taught=TAUGHT, settings=SMALL, features=FEATURES, labels=LABELS, numbers=None, **options):
    """One head for each row of ``taught``; its stream belongs to its number and not to its row."""
    numbers = range(len(taught)) if numbers is None else numbers
    return train_heads(features, labels, taught, [np.random.default_rng(n) for n in numbers], settings, **options)


def tensors(heads):
    return [heads.mean, heads.scale, *heads.hidden, *heads.output, heads.absent]


def train_plainly(classes, number, settings):
    """One head in plain torch, with an output for each class it is taught and none for the others."""
    rng = np.random.default_rng(number)
    (hidden, _, output, _), orders = flat._draw(LABELS, classes[None], FEATURES.shape[1], [rng], settings)
    mine = classes[LABELS]
    mean, std = FEATURES[mine].mean(axis=0, dtype=float), FEATURES[mine].std(axis=0, dtype=float)
    x = torch.tensor((FEATURES - mean) / std, dtype=torch.float32)
    y = torch.tensor(np.cumsum(classes)[LABELS] - 1)  # codes among the taught classes only
    first, second = nn.Linear(FEATURES.shape[1], settings.hidden), nn.Linear(settings.hidden, int(classes.sum()))
    with torch.no_grad():
        first.weight.copy_(torch.tensor(hidden[0].T))
        second.weight.copy_(torch.tensor(output[0][:, classes].T))
        first.bias.zero_()
        second.bias.zero_()
    optimiser = torch.optim.AdamW(
        [*first.parameters(), *second.parameters()], lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    cosine = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + cos(pi * step / settings.steps)))
    for batch in torch.tensor(orders[0]):
        active = nn.functional.relu(first(x[batch]))
        if settings.dropout:
            silenced = rng.random(active.shape, dtype=np.float32) < settings.dropout
            active = active.masked_fill(torch.tensor(silenced), 0) / (1 - settings.dropout)
        optimiser.zero_grad()
        nn.functional.cross_entropy(second(active), y[batch]).backward()
        optimiser.step()
        cosine.step()
    with torch.no_grad():
        return second(nn.functional.relu(first(x))).numpy()


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_heads_trained_at_once_are_bitwise_those_trained_alone(dropout):
    # Widths that are multiples of 16 keep every head's slice on a cache line: a matrix product may round otherwise
    # where its memory starts elsewhere.
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(16), [3, 9, 40, 12] * 4))  # 256 items in unequal classes
    features = rng.normal(size=(256, 32)).astype(np.float32) + labels[:, None]
    taught = np.arange(16) != np.arange(5)[:, None]  # head i is not taught class i: 5 unequal numbers of items
    settings = replace(SMALL, hidden=64, batch=32, dropout=dropout)
    together = train(taught, settings, features, labels)
    activities = together.activities(features)
    for number in range(len(taught)):
        alone = train(taught[number : number + 1], settings, features, labels, numbers=[number])
        for all_heads, one_head in zip(tensors(together), tensors(alone), strict=True):
            assert torch.equal(all_heads[number], one_head[0])
        np.testing.assert_array_equal(activities[number], alone.activities(features)[0])


@pytest.mark.parametrize("settings", [SMALL, DROPOUT], ids=["plain", "dropout"])
@pytest.mark.parametrize("number", range(len(TAUGHT)))
def test_a_head_equals_plain_torch_on_its_own_classes_alone(number, settings):
    classes = TAUGHT[number]
    activities = train(settings=settings).activities(FEATURES)[number]
    np.testing.assert_allclose(activities[:, classes], train_plainly(classes, number, settings), rtol=1e-4, atol=1e-4)


def test_activities_are_minus_infinity_for_absent_classes_and_finite_for_taught_ones():
    activities = train().activities(FEATURES)
    assert activities.shape == (4, 45, 5)
    assert activities.dtype == np.float32
    for head, classes in zip(activities, TAUGHT, strict=True):
        assert (head[:, ~classes] == -np.inf).all()
        assert np.isfinite(head[:, classes]).all()


@pytest.mark.parametrize("settings", [SMALL, DROPOUT], ids=["plain", "dropout"])
def test_items_of_untaught_classes_leave_no_trace(settings):
    taught = TAUGHT[:1]
    garbage = FEATURES.copy()
    garbage[LABELS == 3] = np.random.default_rng(1).normal(0, 1e4, size=((LABELS == 3).sum(), 6))
    clean, dirty = train(taught, settings), train(taught, settings, garbage)
    for one, other in zip(tensors(clean), tensors(dirty), strict=True):
        assert torch.equal(one, other)


def test_items_of_taught_classes_do_leave_a_trace():
    garbage = FEATURES.copy()
    garbage[LABELS == 2] += 1
    assert not torch.equal(train(TAUGHT[:1]).hidden[0], train(TAUGHT[:1], features=garbage).hidden[0])


def test_inputs_are_scaled_by_the_mean_and_deviation_of_taught_items():
    heads = train()
    for number, classes in enumerate(TAUGHT):
        mine = FEATURES[classes[LABELS]].astype(float)
        np.testing.assert_allclose(heads.mean[number, 0], mine.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(heads.scale[number, 0], mine.std(axis=0), rtol=1e-5)


def test_the_units_of_the_features_do_not_matter():
    units = np.array([1e-3, 1e3, 1, 10, 0.1, 50])
    np.testing.assert_allclose(
        train(features=FEATURES * units + 5 * units).activities(FEATURES * units + 5 * units),
        train().activities(FEATURES),
        atol=1e-3,
    )


def test_initial_layers_have_the_variance_that_their_width_asks_for():
    heads = train(settings=replace(SMALL, hidden=4000, learning_rate=0.0, steps=1))
    assert heads.hidden[0].shape == (4, 6, 4000)
    assert heads.output[0].shape == (4, 4000, 5)
    assert heads.hidden[0].std().item() == pytest.approx(sqrt(1 / 18), rel=0.02)
    assert heads.output[0].std().item() == pytest.approx(sqrt(1 / 12000), rel=0.02)
    assert not heads.hidden[1].any()
    assert not heads.output[1].any()


def test_every_epoch_uses_every_taught_item_once():
    _, orders = flat._draw(LABELS, TAUGHT, 6, [np.random.default_rng(n) for n in range(4)], SMALL)
    assert orders.shape == (4, SMALL.steps, SMALL.batch)
    for order, classes in zip(orders, TAUGHT, strict=True):
        mine = np.flatnonzero(classes[LABELS])
        stream = order.ravel()
        epochs = [stream[start : start + len(mine)] for start in range(0, len(stream) - len(mine) + 1, len(mine))]
        assert len(epochs) >= 4
        for epoch in epochs:
            np.testing.assert_array_equal(np.sort(epoch), mine)
        assert not np.array_equal(epochs[0], epochs[1])


def test_learns_a_separable_problem_and_answers_right_on_new_items():
    rng = np.random.default_rng(0)
    centres = 6 * np.eye(4, 10)
    labels = np.repeat(np.arange(4), 30)
    features, unseen = (centres[labels] + rng.normal(size=(120, 10)) for _ in range(2))
    taught = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], dtype=bool)
    settings = FlatSettings(hidden=32, steps=150, batch=32, learning_rate=1e-2, dropout=0.2)
    activities = train(taught, settings, features, labels).activities(np.concatenate([features, unseen]))
    right = activities.argmax(axis=2) == np.tile(labels, 2)
    assert right[0].all()
    assert right[1, np.tile(labels > 0, 2)].all()


def test_training_is_deterministic():
    for one, other in zip(tensors(train(settings=DROPOUT)), tensors(train(settings=DROPOUT)), strict=True):
        assert torch.equal(one, other)


def test_heads_with_other_streams_differ():
    same_classes = np.ones((2, 5), dtype=bool)
    activities = train(same_classes).activities(FEATURES)
    assert not np.allclose(activities[0], activities[1])


def test_dropout_changes_the_training_and_not_the_answer():
    heads = train(settings=DROPOUT)
    assert not torch.equal(heads.hidden[0], train().hidden[0])
    np.testing.assert_array_equal(heads.activities(FEATURES), heads.activities(FEATURES))


def test_weight_decay_shrinks_the_weights():
    decayed = train(settings=replace(SMALL, weight_decay=1.0))
    assert decayed.hidden[0].norm() < train(settings=replace(SMALL, weight_decay=0.0)).hidden[0].norm()


def test_a_constant_feature_is_left_at_zero():
    features = np.column_stack([FEATURES, np.full(len(FEATURES), 7.3, dtype=np.float32)])
    heads = train(features=features)
    assert (heads.scale[:, 0, -1] == 1).all()
    assert np.isfinite(heads.activities(features)[TAUGHT[:, None].repeat(45, 1)]).all()


def test_a_large_constant_feature_is_left_at_zero_too():
    constants = np.linspace(100, 2000, 50) * np.ones((len(FEATURES), 1))
    assert (train(features=np.column_stack([FEATURES, constants])).scale[:, 0, 6:] == 1).all()


def test_a_feature_that_only_untaught_items_vary_is_left_at_zero():
    features = np.column_stack([FEATURES, LABELS == 3]).astype(np.float32)
    scale = train(features=features).scale[:, 0, -1]
    assert (scale == 1).tolist() == [True, False, False, False]  # head 0 alone is not taught class 3


def test_the_block_size_does_not_change_the_answer():
    heads = train()
    np.testing.assert_allclose(heads.activities(FEATURES, block=7), heads.activities(FEATURES), rtol=1e-5, atol=1e-6)


def test_progress_is_reported_after_every_step():
    calls = []
    train(on_step=lambda done, total: calls.append((done, total)))
    assert calls == [(done, SMALL.steps) for done in range(1, SMALL.steps + 1)]


def test_trained_heads_need_no_gradients():
    assert not any(tensor.requires_grad for tensor in tensors(train()))


def test_training_leaves_its_inputs_as_they_were():
    features, labels = FEATURES.copy(), LABELS.copy()
    train(features=features, labels=labels)
    np.testing.assert_array_equal(features, FEATURES)
    np.testing.assert_array_equal(labels, LABELS)


def test_every_head_needs_its_own_stream():
    with pytest.raises(ValueError, match="shorter"):
        train(numbers=[0, 1])


def test_training_that_diverges_is_refused():
    heads = train(settings=replace(SMALL, learning_rate=1e30))
    with pytest.raises(OutclassError, match="training diverged"):
        heads.activities(FEATURES)
