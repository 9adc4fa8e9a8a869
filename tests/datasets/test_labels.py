import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outclass.datasets.labels import clean, collisions, suggestions

TRIES = settings(derandomize=True, database=None, deadline=None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cat", "cat"),
        ("  cat\n", "cat"),
        ("sea \t lion", "sea lion"),
        ("sea\u00a0lion", "sea lion"),
        ("cafe\u0301", "caf\u00e9"),
        (" ", ""),
        ("Cat", "Cat"),
    ],
)
def test_clean(name, expected):
    assert clean(name) == expected


@TRIES
@given(st.text())
def test_clean_is_final(name):
    once = clean(name)
    assert clean(once) == once
    assert unicodedata.is_normalized("NFC", once)


def test_collisions_are_found_by_white_space_unicode_form_and_case():
    names = ["cat", "cat ", "dog", "Dog", "cafe\u0301", "caf\u00e9", "bird", "Straße", "STRASSE"]
    assert collisions(names) == [
        ["Dog", "dog"],
        ["STRASSE", "Straße"],
        ["cafe\u0301", "caf\u00e9"],
        ["cat", "cat "],
    ]


def test_one_odd_spelling_is_no_collision():
    assert collisions([" cat", " cat", "dog "]) == []


def test_suggestions_name_what_is_close():
    assert suggestions("dgo", {"dog", "cat", "bird"}).startswith("the closest of 3 are 'dog'")
    assert "'a', 'b'" in suggestions("zzz", {"a", "b"})
