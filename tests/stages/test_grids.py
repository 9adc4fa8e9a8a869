"""What params.yaml may list below baselines.methods."""

import re

import pytest

from outclass.errors import OutclassError
from stages import params


def parse(tiny, methods):
    tiny["baselines"]["methods"] = methods
    return params.parse(tiny, "params.yaml").baselines.methods


@pytest.mark.parametrize(
    "methods",
    [
        {},
        {"energy": {}},
        {"plda": {"shrinkage": [0.1, 1]}, "mahalanobis": {"shrinkage": ["auto", 0.5], "unit_length": [True]}},
        {"vim": {"components": [None, 3]}, "knfst": {"kernel": ["rbf"], "gamma": ["scale", 0.1]}},
    ],
)
def test_what_fits_is_taken_as_it_is(tiny, methods):
    assert parse(tiny, methods) == methods


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"mahalanobiss": {}}, "mahalanobiss is not a method; did you mean mahalanobis?"),
        ({"xyz": {}}, "xyz is not a method; there are max-softmax, max-logit, energy"),
        ({"max-logit": {"gamma": [1]}}, "max-logit has no hyper-parameter gamma; it has none"),
        ({"lof": {"neighbors": [1]}}, "lof has no hyper-parameter neighbors; it has neighbours, unit_length"),
        ({"gen": {"unit_length": [True]}}, "gen has no hyper-parameter unit_length; it has gamma, top"),
        ({"plda": {"shrinkage": 0.1}}, "plda.shrinkage must be a list of values to choose from, as [1, 2] (it is 0.1)"),
        ({"plda": {"shrinkage": []}}, "plda.shrinkage must be a list of values"),
        ({"plda": {"shrinkage": [0.1, 0.1]}}, "plda.shrinkage lists 0.1 twice"),
        ({"plda": {"shrinkage": ["much"]}}, "plda.shrinkage lists 'much': Input should be a valid number"),
        ({"deep-knn": {"neighbours": [1.5]}}, "deep-knn.neighbours lists 1.5: Input should be a valid integer"),
        ({"nearest-mean": {"metric": ["cosin"]}}, "nearest-mean.metric lists 'cosin': Input should be 'euclidean' or"),
        ({"nearest-mean": {"unit_length": [1]}}, "nearest-mean.unit_length lists 1: Input should be a valid boolean"),
        ({"plda": None}, "plda needs its hyper-parameters, or {} for their defaults (it is None)"),
        (["plda"], "list methods by name, as `energy: {}` (it is ['plda'])"),
    ],
)
def test_what_does_not_is_refused_with_what_to_write(tiny, methods, message):
    with pytest.raises(OutclassError, match=re.escape(f"params.yaml: baselines.methods: {message}")):
        parse(tiny, methods)


def test_tuning_needs_partitions_whose_confidences_are_kept(tiny):
    tiny["baselines"]["tuning_partitions"] = 3
    message = "baselines.tuning_partitions is 3, but partitions.keep_confidences = 2: lower it or raise that"
    with pytest.raises(OutclassError, match=message):
        params.parse(tiny, "params.yaml")
