"""Streams of randomness: one for each purpose and place, the same in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outclass
from outclass.seeds import generator

ADDRESSES = st.tuples(
    st.integers(0, 2**31), st.text(max_size=8), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100)
)


def start(*address):
    return generator(*address).integers(2**63, size=3).tolist()


@given(ADDRESSES)
@settings(deadline=None)
def test_the_same_address_gives_the_same_stream(address):
    assert start(*address) == start(*address)


@given(ADDRESSES, ADDRESSES)
@settings(deadline=None)
def test_different_addresses_give_different_streams(one, other):
    assert (start(*one) == start(*other)) == (one == other)


@pytest.mark.parametrize("other", [(8, "a", 1, 2), (7, "b", 1, 2), (7, "a", 2, 2), (7, "a", 1, 3), (7, "a", 2, 1)])
def test_seed_purpose_and_every_number_of_the_place_count(other):
    assert start(7, "a", 1, 2) != start(*other)


def test_a_place_is_not_the_same_as_the_place_within_it():
    assert start(7, "a", 1) != start(7, "a", 1, 1)


def test_a_place_is_not_the_same_as_the_first_place_within_it():
    assert start(7, "a", 1) != start(7, "a", 1, 0)


def test_drawing_from_one_stream_leaves_the_others_alone():
    fresh = start(3, "a", 1)
    generator(3, "a", 0).random(1000)
    assert start(3, "a", 1) == fresh


def test_streams_are_the_same_in_another_process():
    source = "from outclass.seeds import generator; print(generator(3, 'folds', 1).integers(2**63, size=3).tolist())"
    root = str(Path(outclass.__file__).parents[1])
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": root}
    printed = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == str(start(3, "folds", 1))
