import numpy as np

from stayput.core.cohort import choose_cohort
from stayput.core.history import History, RoundReport
from stayput.report.client_statistics import histogram, statistics_of, times_chosen
from stayput.runs.spec import RunSpec

SPEC = RunSpec(
    task="t",
    partition={"name": "iid"},
    algorithm={"name": "fed_avg", "client_fraction": 0.2},
    rounds=9,
    seed=3,
)


def history(rounds, cohort_size=2):
    return History(tuple(RoundReport(number, cohort_size=cohort_size if number else 0) for number in range(rounds + 1)))


def test_a_histogram_counts_every_value_once_in_whole_ranges():
    values = np.array([3, 3, 4, 40, 41, 99])
    found = histogram(values, most=10)
    assert found.clients.sum() == len(values)
    assert len(found.clients) <= 10
    for low, high, count in zip(found.edges[:-1], found.edges[1:], found.clients, strict=True):
        assert count == np.sum((values >= low) & (values < high))
    assert found.labels[0] == "3 to 12"


def test_a_histogram_of_few_values_names_each():
    assert histogram(np.array([2, 3, 3, 5])).labels == ["2", "3", "4", "5"]
    assert histogram(np.array([2, 3, 3, 5])).clients.tolist() == [1, 2, 0, 1]
    assert histogram(np.array([600] * 9)).labels == ["600"]


def test_how_often_clients_were_chosen_is_drawn_again_from_the_seed():
    expected = np.zeros(10, dtype=int)
    for number in range(1, 8):
        for client in choose_cohort(10, 0.2, seed=3, round_number=number).tolist():
            expected[client] += 1
    assert times_chosen(SPEC, 10, history(7)).tolist() == expected.tolist()


def test_cohorts_of_another_size_were_not_drawn_by_this_rule():
    assert times_chosen(SPEC, 10, history(7, cohort_size=3)) is None
    assert times_chosen(SPEC, 10, history(0)) is None


def test_the_table_of_a_run_without_labels_or_rounds():
    assert statistics_of(SPEC, {"num_clients": 10}, history(0), None) == {"clients": "10"}


def test_the_table_says_what_clients_hold():
    table = statistics_of(SPEC, {"num_clients": 2, "num_examples": 1207}, History(), [[3, 0], [4, 1200]])
    assert table["examples"] == "1,207"
    assert table["examples of a client"] == "3 to 1,204, median 604"
    assert table["labels of a client"] == "1 to 2, median 2"
