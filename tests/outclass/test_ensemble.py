"""Algorithms 1 and 2: the novelty classifiers h_l, their votes, and the scores made of them."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from outclass.ensemble import (
    NoveltyClassifiers,
    Seen,
    Votes,
    detection_rates,
    fit_novelty_classifiers,
    novelty_scores,
    vote,
)
from outclass.errors import OutclassError


def fit(theta_set, theta_class, novel, cost=1.0):
    """h_l from sets (L, n) that are all of different classes: each has its own theta_class and is novel or not."""
    labels = np.arange(theta_set.shape[1])
    chosen_by_own_network = np.broadcast_to(labels, theta_set.shape)
    return fit_novelty_classifiers(Seen(theta_set, chosen_by_own_network), labels, theta_class, novel, cost)


def one_partition(known, novel, cost=1.0):
    """h_l fitted on pairs (theta_S, theta_o) of one partition."""
    points = np.array([*known, *novel], dtype=float)
    is_novel = np.arange(len(points)) >= len(known)
    return fit(points[None, :, 0], points[None, :, 1], is_novel[None], cost)


def margins_at(classifiers, points):
    theta_set, theta_class = np.asarray(points, dtype=float).T
    return classifiers.margins(theta_set[None], theta_class[None])[0]


def random_partitions(partitions=3, sets=60, seed=0):
    """Overlapping clouds in raw units far from standard, a fifth of the sets presumed novel."""
    rng = np.random.default_rng(seed)
    novel = rng.permuted(np.tile(np.arange(sets) < sets // 5, (partitions, 1)), axis=1)
    theta_class = rng.normal(500, 40, size=novel.shape)
    theta_set = 0.01 * theta_class + rng.normal(0, 0.5, size=novel.shape) - 0.8 * novel
    return theta_set, theta_class, novel


def test_algorithm_1_by_hand():
    # theta_S is 0 and 1 for novel, 3 and 4 for known, theta_o is 5 for all and so tells nothing.
    # Mean 2, variance (4 + 1 + 1 + 4) / 4 = 2.5: the points become -2a, -a, a, 2a with a^2 = 1 / 2.5 = 0.4.
    # By symmetry b = 0 and w = -v. Minimise v^2 / 2 + 2 (1 - a v)^2 (both classes weigh 1; the outer two points lie
    # beyond the margin): v (1 + 4 a^2) = 4 a, so in raw units w = -a v = -4 a^2 / (1 + 4 a^2) = -1.6 / 2.6 = -8 / 13.
    # The line is at theta_S = 2, so b = 16 / 13.
    classifiers = one_partition(known=[(3, 5), (4, 5)], novel=[(0, 5), (1, 5)])
    np.testing.assert_allclose(classifiers.weights, [[-8 / 13, 0]], atol=1e-4)
    np.testing.assert_allclose(classifiers.bias, [16 / 13], atol=1e-4)


def test_small_theta_votes_novel_and_large_theta_known():
    classifiers = one_partition(known=[(3, 5), (4, 5)], novel=[(0, 5), (1, 5)])
    assert np.sign(margins_at(classifiers, [(-9, 5), (0, 5), (1.9, 5), (2.1, 5), (4, 5), (99, 5)])).tolist() == [
        *(1, 1, 1),
        *(-1, -1, -1),
    ]


def test_theta_of_the_class_calibrates_theta_of_the_set():
    # theta_S alone overlaps (2, 5, 8 against 0, 3, 6); how far it falls short of theta_o tells all.
    known = [(o + d, o) for o in (2, 5, 8) for d in (-0.2, 0.2)]
    novel = [(o - 2 + d, o) for o in (2, 5, 8) for d in (-0.2, 0.2)]
    classifiers = one_partition(known, novel, cost=100)
    assert (margins_at(classifiers, known) < 0).all()
    assert (margins_at(classifiers, novel) > 0).all()
    assert (margins_at(classifiers, [(3.8, 4), (4.8, 7)]) > 0).tolist() == [False, True]


def test_nine_known_to_one_novel_still_finds_novel():
    known = [(x, 0) for x in np.linspace(1, 4, 90)]
    novel = [(x, 0) for x in np.linspace(0.5, 2, 10)]
    is_novel = np.arange(100) >= 90
    unbalanced = make_pipeline(StandardScaler(), LinearSVC(dual=False)).fit(known + novel, is_novel)
    assert unbalanced.predict(novel).mean() < 0.5  # the mistake that balancing mends
    classifiers = one_partition(known, novel)
    assert (margins_at(classifiers, novel) > 0).mean() >= 0.8
    assert (margins_at(classifiers, known) > 0).mean() <= 0.3


@pytest.mark.parametrize("cost", [0.01, 1.0, 10.0])
def test_weights_in_raw_units_equal_a_pipeline_of_scaler_and_svm(cost):
    theta_set, theta_class, novel = random_partitions()
    classifiers = fit(theta_set, theta_class, novel, cost)
    margins = classifiers.margins(theta_set, theta_class)
    for one, other, labels, margin in zip(theta_set, theta_class, novel, margins, strict=True):
        points = np.column_stack([one, other])
        svm = LinearSVC(C=cost, class_weight="balanced", dual=False)
        pipeline = make_pipeline(StandardScaler(), svm).fit(points, labels)
        np.testing.assert_allclose(margin, pipeline.decision_function(points), rtol=1e-9, atol=1e-9)


def test_every_partition_is_fitted_on_its_own_sets():
    theta_set, theta_class, novel = random_partitions()
    together = fit(theta_set, theta_class, novel)
    for number in range(3):
        row = slice(number, number + 1)
        alone = fit(theta_set[row], theta_class[row], novel[row])
        for name in ("weights", "bias", "slope", "offset"):
            np.testing.assert_array_equal(getattr(together, name)[row], getattr(alone, name))
    assert together.weights.shape == (3, 2)


def test_the_units_of_theta_do_not_change_the_votes():
    theta_set, theta_class, novel = random_partitions()
    plain = fit(theta_set, theta_class, novel).margins(theta_set, theta_class)
    other = fit(1000 * theta_set - 7, theta_class / 1000, novel)
    np.testing.assert_allclose(other.margins(1000 * theta_set - 7, theta_class / 1000), plain, rtol=1e-6, atol=1e-6)


def test_margins_by_hand():
    classifiers = NoveltyClassifiers(
        weights=np.array([[2.0, -1.0], [0.0, 3.0]]), bias=np.array([0.5, -4.0]), slope=np.ones(2), offset=np.zeros(2)
    )
    theta_set = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    theta_class = np.array([[5.0, 0.0, 1.0], [1.0, 2.0, 0.0]])
    # Partition 0: 2 - 5 + 0.5, 4 - 0 + 0.5, 6 - 1 + 0.5. Partition 1: 3 - 4, 6 - 4, 0 - 4.
    assert classifiers.margins(theta_set, theta_class).tolist() == [[-2.5, 4.5, 5.5], [-1, 2, -4]]


def test_probabilities_by_hand():
    classifiers = NoveltyClassifiers(
        np.zeros((2, 2)), np.zeros(2), slope=np.array([2.0, 1.0]), offset=np.array([-1, 0])
    )
    # expit(2 * 1 - 1), expit(2 * 0.5 - 1); expit(0), expit(-3)
    expected = [[1 / (1 + np.exp(-1)), 0.5], [0.5, 1 / (1 + np.exp(3))]]
    np.testing.assert_allclose(classifiers.probabilities(np.array([[1.0, 0.5], [0.0, -3.0]])), expected)


def test_the_probability_of_novel_is_half_on_a_symmetric_line_and_grows_with_the_margin():
    classifiers = one_partition(known=[(3, 5), (4, 5)], novel=[(0, 5), (1, 5)])
    probabilities = classifiers.probabilities(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]]))[0]
    assert probabilities[2] == pytest.approx(0.5, abs=1e-4)
    assert (np.diff(probabilities) > 0).all()


def test_the_probability_weighs_both_kinds_alike():
    # Ten times the same known sets: a likelihood that counted sets would pull the middle far below one half.
    classifiers = one_partition(known=[(3, 5), (4, 5)] * 10, novel=[(0, 5), (1, 5)])
    middle = margins_at(classifiers, [(2, 5)])[None]
    assert classifiers.probabilities(middle).item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("all_of_them", "missing"), [(True, "presumed-known"), (False, "presumed-novel")])
def test_a_partition_with_one_kind_only_is_refused_by_number(all_of_them, missing):
    theta_set, theta_class, novel = random_partitions()
    novel[1] = all_of_them
    with pytest.raises(OutclassError, match=f"partition 1 .*{missing}"):
        fit(theta_set, theta_class, novel)


MARGINS = np.array([[1.0, -1.0, 0.0, 2.0], [3.0, -2.0, 5.0, 2.0], [-2.0, 4.0, 1.0, 2.0]])
PROBABILITIES = np.array([[0.7, 0.3, 0.5, 0.9], [0.9, 0.2, 0.9, 0.9], [0.2, 0.9, 0.6, 0.9]])
RELEVANT = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0]], dtype=bool)


def test_algorithm_2_by_hand():
    scores = novelty_scores(Votes(RELEVANT, MARGINS, PROBABILITIES))
    # Set 0: all three may vote: 1 and 3 are novel, -2 is not. Set 1: -1 and -2 vote, 4 has no say.
    # Set 2: 0 is no vote for novel, 1 is; 5 has no say. Set 3: nobody has a say.
    assert scores.count.tolist() == [2, 0, 1, 0]
    np.testing.assert_allclose(scores.margin, [(1 + 3 - 2) / 3, (-1 - 2) / 2, (0 + 1) / 2, 0])
    np.testing.assert_allclose(scores.probability, [(0.7 + 0.9 + 0.2) / 3, (0.3 + 0.2) / 2, (0.5 + 0.6) / 2, 0.5])


def test_partitions_without_a_say_may_hold_anything():
    # Where the chosen class is presumed novel there is no theta_o, and so no margin.
    unknown = np.where(RELEVANT, MARGINS, np.nan), np.where(RELEVANT, PROBABILITIES, np.nan)
    with_gaps = novelty_scores(Votes(RELEVANT, *unknown))
    whole = novelty_scores(Votes(RELEVANT, MARGINS, PROBABILITIES))
    for name in ("count", "margin", "probability"):
        np.testing.assert_array_equal(getattr(with_gaps, name), getattr(whole, name))


def test_scores_equal_a_plain_loop_over_algorithm_2():
    rng = np.random.default_rng(5)
    margins = rng.normal(size=(9, 40))
    relevant = rng.random((9, 40)) < 0.8
    scores = novelty_scores(Votes(relevant, margins, expit(margins)))
    for number in range(40):
        voters = [level for level in range(9) if relevant[level, number]]
        assert scores.count[number] == sum(np.sign(margins[level, number]) == 1 for level in voters)
        assert scores.margin[number] == pytest.approx(np.mean([margins[level, number] for level in voters]))
        assert scores.probability[number] == pytest.approx(np.mean(expit([margins[level, number] for level in voters])))


# Two partitions of three known classes; h_l says novel where theta_S is below half of theta_o.
HALF = NoveltyClassifiers(np.array([[-1.0, 0.5]] * 2), np.zeros(2), np.ones(2), np.zeros(2))
PRESUMED_NOVEL = np.array([[True, False, False], [False, False, True]])
THETA_CLASS = np.array([[np.nan, 4.0, 8.0], [6.0, 2.0, np.nan]])


def test_votes_by_hand():
    # The backbone chooses class 0 for the first set and class 1 for the second; what the partition networks
    # choose themselves (top) does not matter here.
    sets = Seen(theta=np.array([[1.0, 3.0], [2.0, 0.5]]), top=np.array([[2, 2], [1, 0]]))
    votes = vote(HALF, sets, np.array([0, 1]), THETA_CLASS, PRESUMED_NOVEL)
    # Partition 0 presumes class 0 novel: no say. Else theta_o / 2 - theta_S:
    # partition 0, set 1: 4 / 2 - 3 = -1; partition 1: 6 / 2 - 2 = 1 and 2 / 2 - 0.5 = 0.5.
    assert votes.relevant.tolist() == [[False, True], [True, True]]
    assert votes.margins[votes.relevant].tolist() == [-1.0, 1.0, 0.5]
    assert np.isfinite(votes.margins).all()
    np.testing.assert_allclose(votes.probabilities[votes.relevant], expit([-1.0, 1.0, 0.5]))
    assert novelty_scores(votes).count.tolist() == [1, 1]


def test_detection_rates_by_hand():
    # Sets of classes 0, 1, 2 and of a class never seen; each partition judges by its own network's choice.
    sets = Seen(
        theta=np.array([[1.0, 3.0, 1.0, 5.0], [4.0, 2.0, 0.5, 0.5]]), top=np.array([[1, 1, 2, 2], [0, 1, 1, 1]])
    )
    p, q = detection_rates(HALF, sets, np.array([0, 1, 2, -1]), THETA_CLASS, PRESUMED_NOVEL)
    # Partition 0, theta_o / 2 - theta_S: 2 - 1 novel, 2 - 3 known, 4 - 1 novel, 4 - 5 known.
    #   Not taught: class 0 (novel) and the unseen one (known): 1 of 2. Taught: class 1 (known), 2 (novel): 1 of 2.
    # Partition 1: 3 - 4 known, 1 - 2 known, 1 - 0.5 novel, 1 - 0.5 novel.
    #   Not taught: class 2 and the unseen one: 2 of 2. Taught: classes 0 and 1: 0 of 2.
    np.testing.assert_allclose(p, [1 / 2, 1])
    np.testing.assert_allclose(q, [1 / 2, 0])


def test_training_takes_theta_of_the_class_that_the_own_network_chose():
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2], 20)
    sets = Seen(theta=rng.normal(2, 1, (2, 60)), top=rng.integers(1, 2, (2, 60)))
    h = fit_novelty_classifiers(sets, labels, THETA_CLASS, PRESUMED_NOVEL)
    own = np.take_along_axis(THETA_CLASS, sets.top, axis=1)
    by_hand = fit_each_alone(sets.theta, own, PRESUMED_NOVEL[:, labels])
    np.testing.assert_allclose(h.margins(sets.theta, own), by_hand, rtol=1e-9, atol=1e-9)


def fit_each_alone(theta_set, theta_class, novel):
    """Decision values of scikit-learn's own pipeline, partition by partition."""
    values = []
    for one, other, labels in zip(theta_set, theta_class, novel, strict=True):
        points = np.column_stack([one, other])
        svm = LinearSVC(class_weight="balanced", dual=False)
        values.append(make_pipeline(StandardScaler(), svm).fit(points, labels).decision_function(points))
    return np.array(values)
