"""The two result tables of Vinokurov & Weinshall (2016), number for number.

"Novelty Detection in MultiClass Scenarios with Incomplete Set of Class Labels", tables 1 and 2.
EER is a fraction and AUC a percentage, as printed there.
"""

from typing import NamedTuple


class Value(NamedTuple):
    """A mean and its standard deviation, None where there is none (a single run)."""

    mean: float
    std: float | None = None


class Row(NamedTuple):
    """One published row; `ours` names the same method in this project, `None` cells were "NA"."""

    wording: str
    ours: str | None
    eer: tuple[Value | None, Value | None]
    auc: tuple[Value | None, Value | None]


DATASETS = ("Cifar-100", "Caltech-256")  # the order of every pair in the rows
TABLE_NUMBERS = {1: 1, 5: 2}  # set size -> the table's number in the paper

V, NA = Value, None

TABLES: dict[int, tuple[Row, ...]] = {
    1: (
        Row("Our method", "ensemble-count", (V(0.38, 0.04), V(0.38, 0.02)), (V(68, 3), V(68, 1))),
        Row("Simple threshold", "threshold", (V(0.40, 0.01), V(0.42, 0.02)), (V(65, 1), V(62, 1))),
        Row("Max confidence", "max-confidence", (V(0.40, 0.04), V(0.46, 0.02)), (V(63, 5), V(57, 1))),
        Row("OCSVM", "ocsvm/confidences", (V(0.50, 0.01), V(0.48, 0.01)), (V(49, 1), V(52, 1))),
        Row("k-NN (k=1)", "knn-1/confidences", (V(0.47, 0.01), V(0.47, 0.01)), (V(54, 2), V(54, 1))),
        Row("k-NN (k=5)", "knn-5/confidences", (V(0.47, 0.03), V(0.48, 0.01)), (V(55, 3), V(60, 1))),
        Row("OCSVM on original", "ocsvm/features", (NA, V(0.48, 0.004)), (NA, V(54, 1))),
        Row("k-NN on original (k=1)", "knn-1/features", (V(0.50, 0.01), V(0.42, 0.01)), (V(51, 2), V(62, 1))),
        Row("k-NN on original (k=5)", "knn-5/features", (V(0.50, 0.01), V(0.38, 0.01)), (V(50, 2), V(66, 1))),
        Row("KNFST", "knfst/mean-score", (NA, V(0.44, 0.02)), (NA, V(59, 3))),
    ),
    5: (
        Row("Our method", "ensemble-count", (V(0.11, 0.02), V(0.15, 0.02)), (V(94, 2), V(90, 1))),
        Row("Simple threshold", "threshold", (V(0.17, 0.01), V(0.32, 0.03)), (V(90, 1), V(73, 2))),
        Row("Max confidence", "max-confidence", (V(0.30, 0.08), V(0.39, 0.04)), (V(75, 8), V(63, 3))),
        Row("OCSVM", "ocsvm/confidences", (V(0.53, 0.01), V(0.48, 0.01)), (V(49, 1), V(44, 2))),
        Row("k-NN (k=1)", "knn-1/confidences", (V(0.43, 0.03), V(0.44, 0.03)), (V(59, 4), V(54, 3))),
        Row("k-NN (k=5)", "knn-5/confidences", (V(0.44, 0.06), V(0.37, 0.02)), (V(59, 7), V(60, 2))),
        Row("OCSVM on original", "ocsvm/features", (NA, V(0.44, 0.02)), (NA, V(58, 1))),
        Row("k-NN on original (k=1)", "knn-1/features", (V(0.48, 0.03), V(0.34, 0.02)), (V(54, 4), V(72, 1))),
        Row("k-NN on original (k=5)", "knn-5/features", (V(0.47, 0.04), V(0.30, 0.02)), (V(52, 4), V(78, 1))),
        Row("KNFST", "knfst/mean-score", (NA, V(0.40, 0.02)), (NA, V(64, 4))),
    ),
}
