import math

import pytest

from stayput.report.wording import (
    PublishedComparison,
    percent,
    plural,
    printable,
    published_text,
    rounds_text,
    rounds_to_target_text,
    seconds_text,
    value_text,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.97, "97%"),
        (0.57, "57%"),
        (0.9712, "97.12%"),
        (0.975, "97.5%"),
        (1, "100%"),
        (0, "0%"),
        (0.99999, "99.99%"),
        (-0.00001, "0%"),
        (math.nan, "—"),
    ],
)
def test_shares_are_said_in_percent_and_never_rounded_up_to_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("rounds", "text"),
    [(None, "—"), (43.24, "43.2"), (87, "87"), (87.0, "87"), (1474, "1,474"), (0, "0"), (math.nan, "—")],
)
def test_rounds_have_one_decimal_where_there_is_one(rounds, text):
    assert rounds_text(rounds) == text


def test_the_headline_stands_beside_the_papers_number_for_the_same_target():
    cells = [PublishedComparison(87, 0.97, "table 1"), PublishedComparison(20, 0.99, "table 2")]
    assert rounds_to_target_text("accuracy", 0.97, 43.2, cells) == "rounds to 97%: 43.2 (paper: 87)"
    assert rounds_to_target_text("accuracy", 0.97, None) == "rounds to 97%: —"
    assert rounds_to_target_text("loss", 0.5, 4) == "rounds to loss 0.5: 4"


def test_both_cells_are_named_where_the_papers_tables_differ():
    cells = [PublishedComparison(None, 0.97, "table 1"), PublishedComparison(92, 0.97, "table 4")]
    assert rounds_to_target_text("accuracy", 0.97, 9, cells) == "rounds to 97%: 9 (paper: — or 92)"
    assert published_text(cells) == "paper: — (table 1), 92 (table 4)"
    assert published_text([]) == ""


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("accuracy", 0.5, "50%"),
        ("top5_accuracy", 0.5, "50%"),
        ("loss", 0.123456, "0.1235"),
        ("loss", None, "—"),
    ],
)
def test_only_accuracies_are_percents(metric, value, text):
    assert value_text(metric, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0031, "3.1 ms"),
        (0.0999, "0.10 s"),
        (0.42, "0.42 s"),
        (9.999, "10.0 s"),
        (59.99, "1 min 0 s"),
        (192, "3 min 12 s"),
        (3599.8, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (None, "—"),
    ],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert seconds_text(seconds) == text


def test_counts_agree_with_their_nouns():
    assert (plural(1, "client"), plural(5000, "client"), plural(0, "entry", "entries")) == (
        "1 client",
        "5,000 clients",
        "0 entries",
    )


def test_a_name_is_brought_onto_one_printable_line():
    assert printable("a\n\tb\x00c\x1b[31m") == "a b c [31m"
    assert printable("x" * 50, limit=10) == "x" * 9 + "…"
