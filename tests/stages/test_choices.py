import pandas as pd

from stages import choices


def chosen(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["method", "way", "s", "hyper_parameters", "auc", "skipped"])


def test_the_choice_of_most_runs_and_the_mean_auc_at_both_ends():
    found = choices.table(
        chosen(
            *[("plda", "mean-score", s, "shrinkage 0.5", 0.8, "") for s in (1, 2, 5)],
            *[("plda", "mean-score", s, "shrinkage 0.5", 0.9, "") for s in (1, 2, 5)],
            *[("plda", "mean-score", s, "shrinkage 0.1" if s == 5 else "shrinkage 0.5", 0.7, "") for s in (1, 2, 5)],
        )
    )
    assert [column.group for column in found.columns] == ["", "s = 1", "s = 1", "s = 5", "s = 5"]
    assert [[cell.text or cell.code for cell in row] for row in found.rows] == [
        ["plda/mean-score", "shrinkage 0.5", "80.0", "shrinkage 0.5 (2 of 3)", "80.0"]
    ]


def test_methods_without_a_choice_are_left_out_and_a_choice_without_trials_has_no_auc():
    (section,) = choices.sections(
        chosen(("energy", "mean-score", 1, "", None, ""), ("gen", "mean-vector", 1, "gamma 0.1", None, ""))
    )
    assert [[cell.text or cell.code for cell in row] for row in section.tables[0].rows] == [
        ["gen/mean-vector", "gamma 0.1", "–"]
    ]


def test_what_could_not_be_used_is_said_once():
    row = ("vim", "mean-score", 1, "components 4", 0.7, "vim with components 900: too many\nvim with x: y")
    (section,) = choices.sections(chosen(row, row))
    assert section.text[-1] == "Could not be used: vim with components 900: too many; vim with x: y."


def test_nothing_to_choose_no_section():
    assert choices.sections(chosen(("energy", "mean-score", 1, "", None, ""))) == []


def test_the_tiny_runs_choices_are_all_there(project):
    rows = choices.read([(0, 0), (0, 1)])
    assert len(rows) == 2 * len(choices.read([(0, 0)]))
    (section,) = choices.sections(rows)
    names = [row[0].code for row in section.tables[0].rows]
    assert {"plda/mean-score", "plda/mean-vector"} <= set(names)
    assert "energy/mean-score" not in names
    assert len(names) == len(set(names))
