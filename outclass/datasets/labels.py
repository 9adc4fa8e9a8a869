"""Names of classes, as people type them: cleaned, and told apart."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable
from difflib import get_close_matches


def clean(name: str) -> str:
    """One spelling for what looks the same: composed characters, no white space around, single spaces inside."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def collisions(spellings: Iterable[str]) -> list[list[str]]:
    """Spellings that are the same once cleaned, or differ by case alone; groups and their members sorted."""
    groups = defaultdict(set)
    for spelling in spellings:
        groups[clean(spelling).casefold()].add(spelling)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def suggestions(name: str, known: Collection[str]) -> str:
    """The known names closest to one that is unknown, in words."""
    close = get_close_matches(name, sorted(known), n=3, cutoff=0.5) or sorted(known)[:3]
    return f"the closest of {len(known)} are {', '.join(map(repr, close))}" if known else "there are none at all"
