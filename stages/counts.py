"""Are there classes and items enough for the split that params.yaml asks for?"""

import numpy as np

from outclass.arrays import Strings
from outclass.errors import OutclassError
from stages import paths
from stages.params import Baselines, Split


def check_classes(split: Split, classes: int) -> None:
    """Refuse counts that do not fit together, naming the parameter."""
    known = classes - split.novel_classes
    if known < 3:
        advice = f"choose at most {classes - 3}" if classes > 3 else "at least 4 are needed, one of them novel"
        raise OutclassError(
            f"split.novel_classes = {split.novel_classes}, but there are {classes} classes in {paths.USED_ITEMS}: "
            f"{advice}"
        )
    if known - split.presumed_novel_classes < 2:
        raise OutclassError(
            f"split.presumed_novel_classes = {split.presumed_novel_classes}, but a fold has {known} known classes: "
            f"choose at most {known - 2}"
        )


def small_classes(split: Split, classes: Strings, source: Strings) -> dict[str, str]:
    """Classes with too few items for the split -> what they lack, in words.

    ``classes`` and ``source`` hold each item's class and what the data set itself calls it (train, test or nothing).
    """
    names, labels = np.unique(classes, return_inverse=True)
    of_train = np.bincount(labels[source == "train"], minlength=len(names))
    of_rest = np.bincount(labels[source != "train"], minlength=len(names))
    largest, wanted = max(split.set_sizes), split.items
    rest = wanted.calibration + largest
    if of_train.any():
        asked = f"split.items and split.set_sizes ask for {wanted.train} of its train part and {rest} of the rest"
        small = (of_train < wanted.train) | (of_rest < rest)
        found = [f"has {train} and {other}" for train, other in zip(of_train, of_rest, strict=True)]
    else:
        asked = (
            f"split.items and split.set_sizes ask for at least {wanted.train + rest} ({wanted.train} train, "
            f"{wanted.calibration} calibration, a test set of {largest})"
        )
        small = of_rest < wanted.train + rest
        found = [f"has {count} items" for count in of_rest]
    return {str(names[at]): f"{found[at]}, {asked}" for at in np.flatnonzero(small)}


def refuse_small(small: dict[str, str]) -> None:
    """Name every class that is too small."""
    if small:
        named = "\n".join(f"class {name!r}: {lack}" for name, lack in small.items())
        raise OutclassError(
            f"{named}\nadd items, lower split.items or split.set_sizes, or leave these classes out "
            f"(on_bad_item: skip, or download.leave_out)"
        )


def check_baselines(baselines: Baselines, items: int) -> None:
    """Refuse what asks for more train items of a fold's known classes than there are."""
    asked = {"baselines.pca": baselines.pca or 0}
    if baselines.knn:
        asked["baselines.knn.neighbours"] = max(baselines.knn.neighbours)
    for key, number in asked.items():
        if number > items:
            raise OutclassError(
                f"{key} = {number}, but a fold's known classes have {items} train items: choose at most {items}"
            )


def check_components(baselines: Baselines, width: int) -> None:
    """Refuse more principal components than there are features."""
    if baselines.pca and baselines.pca > width:
        raise OutclassError(
            f"baselines.pca = {baselines.pca}, but {baselines.input} has {width} features: choose at most {width}, or "
            f"null for no reduction"
        )
