"""Ports on which something of ours is about to listen."""

import random
import socket

import pytest

from flows import ports
from outclass.errors import OutclassError

USUAL = ports.RANGE


@pytest.fixture
def usual_range(monkeypatch):
    """Not that of the tests."""
    monkeypatch.setattr(ports, "RANGE", USUAL)


def test_free_ports_are_different_and_outside_of_what_systems_give_to_connections(usual_range):
    found = ports.free(20)
    assert len(set(found)) == 20
    assert max(found) < 32_768
    assert all(ports.is_free(number) for number in found)


def test_processes_with_the_same_seed_choose_different_ports(usual_range):
    random.seed(0)
    first = ports.free(20)
    random.seed(0)
    assert ports.free(20) != first


@pytest.fixture
def only_two(monkeypatch):
    """Two ports to choose from, of which the second is in use."""
    first, second = ports.free(2)
    monkeypatch.setattr(ports, "RANGE", [first, second])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", second))
        taken.listen()
        yield first, second


def test_a_port_in_use_is_not_free(only_two):
    first, second = only_two
    assert ports.is_free(first)
    assert not ports.is_free(second)
    assert ports.free() == [first]


def test_it_is_said_when_no_port_is_left(only_two):
    with pytest.raises(OutclassError, match=r"no 2 free ports from \d+ to \d+ on this machine: stop what uses them"):
        ports.free(2)
