from stages import paper
from stages.paper import Value


def row(s: int, wording: str) -> paper.Row:
    return next(row for row in paper.TABLES[s] if row.wording == wording)


def test_numbers_read_off_the_paper():
    assert row(1, "Our method")[2:] == (
        (Value(0.38, 0.04), Value(0.38, 0.02)),
        (Value(68, 3), Value(68, 1)),
    )
    assert row(1, "OCSVM on original").eer == (None, Value(0.48, 0.004))
    assert row(1, "k-NN (k=5)").auc == (Value(55, 3), Value(60, 1))
    assert row(5, "Our method").auc == (Value(94, 2), Value(90, 1))
    assert row(5, "Max confidence").eer == (Value(0.30, 0.08), Value(0.39, 0.04))
    assert row(5, "KNFST") == paper.Row("KNFST", "knfst/mean-score", (None, Value(0.40, 0.02)), (None, Value(64, 4)))


def test_both_tables_have_the_same_ten_methods_in_order():
    names = [[(row.wording, row.ours) for row in paper.TABLES[s]] for s in (1, 5)]
    assert names[0] == names[1]
    assert len(set(names[0])) == 10


def test_what_is_missing_is_missing_in_both_measures():
    for table in paper.TABLES.values():
        for row in table:
            assert [v is None for v in row.eer] == [v is None for v in row.auc]


def test_values_are_fractions_and_percentages():
    for table in paper.TABLES.values():
        assert all(0 <= v.mean <= 1 for row in table for v in row.eer if v)
        assert all(1 < v.mean <= 100 for row in table for v in row.auc if v)


def test_the_papers_method_is_our_count():
    assert row(1, "Our method").ours == "ensemble-count"
