from __future__ import annotations

import gzip

import numpy as np
import pytest

from stayput.data import shakespeare
from stayput.data.partitions import ByKey, Iid
from stayput.data.shakespeare_text import complete_works, single_play
from stayput.errors import CorruptData, DataUnavailable

WORKS = """\
<<THIS ELECTRONIC VERSION>>

THE SONNETS

by William Shakespeare

  From fairest creatures we desire increase,
    Pity the world, or else this glutton be,

1601

THE TRAGEDY OF HAMLET

by William Shakespeare

Dramatis Personae

SCENE I.
Elsinore. A platform.

Enter two Sentinels.

  Ber. Who's there?
  Fran. Nay, answer me. Stand and unfold
    yourself.   \n
    Long live the King!
  Ber. He.
                                                       Exit.
  Fran. You come most carefully upon your hour.
    For this relief
    much thanks.
  Ber. 'Tis now struck twelve.
  Mar. Holla!
  Mar. Peace.

1593

THE COMEDY OF ERRORS

by William Shakespeare

ACT I. SCENE 1
AEGEON. Proceed, Solinus,
And by the doom of death end woes.
DUKE. Merchant of Syracuse,
plead no more;
<<THIS ELECTRONIC VERSION>>
I am not partial
ACT II. SCENE 1
unheard
DUKE. Well, Syracusan.
"""


def test_lines_belong_to_who_speaks_them():
    plays = dict(complete_works(WORKS))
    assert list(plays) == ["THE TRAGEDY OF HAMLET", "THE COMEDY OF ERRORS"]  # the sonnets have no roles
    hamlet = plays["THE TRAGEDY OF HAMLET"]
    assert list(hamlet) == ["Ber", "Fran", "Mar"]
    assert [line.strip() for line in hamlet["Ber"]] == ["Who's there?", "He.", "Exit.", "'Tis now struck twelve."]
    assert hamlet["Fran"] == [
        "Nay, answer me. Stand and unfold",
        "yourself.",
        "Long live the King!",
        "You come most carefully upon your hour.",
        "For this relief",
        "much thanks.",
    ]


def test_in_the_play_without_indentation_acts_and_notices_end_a_speech():
    errors = dict(complete_works(WORKS))["THE COMEDY OF ERRORS"]
    assert errors["AEGEON"] == ["Proceed, Solinus,", "And by the doom of death end woes."]
    assert errors["DUKE"] == ["Merchant of Syracuse,", "plead no more;", "Well, Syracusan."]


def test_a_later_edition_has_names_on_lines_of_their_own():
    text = """Ber.
He.

Fran.
You come most carefully
upon your hour.

[Exit.]

ACT II.

KING. Now, after
so long.

Fran.
Farewell.
"""
    assert single_play(text) == {
        "BER": ["He."],
        "FRAN": ["You come most carefully", "upon your hour.", "Farewell."],
        "KING": ["Now, after", "so long."],
    }


def roles(*counts):
    return [("play", {f"role {n}": [f"line {i}" for i in range(count)] for n, count in enumerate(counts)})]


@pytest.mark.parametrize(("lines", "train", "test"), [(3, 2, 1), (5, 4, 1), (9, 8, 1), (10, 8, 2), (24, 20, 4)])
def test_the_last_fifth_of_a_roles_lines_is_held_out(lines, train, test):
    columns = shakespeare.columns_of(roles(lines))
    assert (len(columns["train_inputs"]), len(columns["test_inputs"])) == (train, test)


def test_roles_with_two_lines_or_fewer_are_no_clients():
    columns = shakespeare.columns_of(roles(1, 3, 2, 4))
    assert np.unique(columns["train_role"]).tolist() == np.unique(columns["test_role"]).tolist() == [0, 1]
    with pytest.raises(CorruptData, match="no role with three lines"):
        shakespeare.columns_of(roles(2, 1))


def test_a_line_is_read_from_its_beginning_and_said_to_its_end():
    columns = shakespeare.columns_of([("play", {"Ber": ["He.", "é", "x"]})])
    assert columns["train_inputs"][0, :5].tolist() == [256, ord("H"), ord("e"), ord("."), 257]
    assert columns["train_targets"][0, :5].tolist() == [ord("H"), ord("e"), ord("."), ord("\n"), 257]
    assert columns["train_targets"][1, :3].tolist() == [0xE9, ord("\n"), 257]  # a character is a byte
    assert shakespeare.num_characters(columns["train_targets"]) == 4 + 2
    assert shakespeare.num_characters(columns["test_targets"]) == 2


def test_a_line_longer_than_the_unroll_goes_on_in_another_example():
    long = "a" * 100
    columns = shakespeare.columns_of([("play", {"Ber": [long, long, "x"]})])
    assert columns["train_inputs"].shape == (4, 80)
    assert shakespeare.num_characters(columns["train_targets"]) == 2 * 101


def test_a_users_text_is_read_zipped_or_not(tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "shakespeare.txt").write_bytes(WORKS.encode("latin-1"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "shakespeare-t8.txt.gz").write_bytes(gzip.compress(WORKS.encode("latin-1")))
    plain, zipped = (shakespeare.load(tmp_path / folder) for folder in "ab")
    np.testing.assert_array_equal(plain.train.inputs, zipped.train.inputs)
    by_role = plain.train.partition(ByKey("role"))
    assert by_role.client_sizes.tolist() == [3, 5, 2]  # Ber, Fran, the duke; the others say too little
    assert plain.train.partition(Iid(3), seed=1).client_sizes.tolist() == [3, 3, 4]
    (tmp_path / "b" / "shakespeare-t8.txt.gz").write_bytes(b"no zip")
    with pytest.raises(CorruptData, match="cannot be unzipped"):
        shakespeare.load(tmp_path / "b")


def test_without_a_text_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    with pytest.raises(DataUnavailable, match=r"put the text as shakespeare\.txt"):
        shakespeare.load(fetch=False)
