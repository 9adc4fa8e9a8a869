import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outclass.datasets import copies

TRIES = settings(derandomize=True, database=None, deadline=None)


def find(contents, classes):
    return copies.find(b"".join(copies.digest(c) for c in contents), np.array(classes, dtype=np.int32))


def test_by_hand():
    found = find([b"x", b"y", b"x", b"z", b"z", b"z", b"y"], [0, 0, 1, 2, 2, 2, 0])
    assert found.ambiguous.tolist() == [True, False, True, False, False, False, False]
    assert found.group[0] == found.group[2]
    assert found.repeated.tolist() == [False, False, False, False, True, True, True]  # two z and one y
    assert found.first.tolist() == [0, 1, 0, 3, 3, 3, 1]


def test_nothing_at_all():
    found = find([], [])
    assert found.ambiguous.shape == (0,)
    assert found.repeated.shape == (0,)


@TRIES
@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.integers(0, 2)), max_size=20))
def test_as_counted_one_by_one(items):
    contents, classes = [c for c, _ in items], [k for _, k in items]
    found = find(contents, classes)
    of = {content: {k for c, k in items if c == content} for content in contents}
    assert found.ambiguous.tolist() == [len(of[content]) > 1 for content in contents]
    assert found.first.tolist() == [contents.index(content) for content in contents]
    assert found.repeated.tolist() == [c in contents[:i] and len(of[c]) == 1 for i, c in enumerate(contents)]


def test_features_are_the_same_when_their_values_are():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1e-45, 1.0], [1.0, 0.0]], dtype=np.float32)
    first, second, third, fourth = copies.digests(rows)
    assert first == second
    assert len({first, third, fourth}) == 3
    assert copies.digests(np.asfortranarray(rows)) == [first, second, third, fourth]
