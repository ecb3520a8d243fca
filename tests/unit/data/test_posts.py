from __future__ import annotations

import json

import numpy as np
import pytest

from stayput.data import posts, synthetic_posts
from stayput.data.partitions import ByKey
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting

POSTS = [(f"author {number}", f"the cat {number} sat on the mat and said don't") for number in range(30)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)


def words_of(columns, row):
    known = ["<nothing>", "<unknown>", *(word.decode() for word in columns["vocabulary"])]
    return [known[number] for number in row]


def test_a_post_is_cut_into_stretches_of_ten_that_begin_with_the_word_before():
    long = " ".join(f"w{number}" for number in range(13))
    columns = posts.columns_of([("a", long), ("b", long), ("b", "w3 w4")])
    (author,) = np.unique(columns["train_author"])
    rows = columns["train_words"]
    assert words_of(columns, rows[0]) == ["<nothing>", *(f"w{number}" for number in range(10))]
    assert words_of(columns, rows[1]) == ["w9", "w10", "w11", "w12", *["<nothing>"] * 7]
    assert len(rows) == {0: 2, 1: 3}[author]


def test_the_vocabulary_is_the_most_frequent_words_of_training_authors(monkeypatch):
    monkeypatch.setattr(posts, "VOCABULARY", 2 + 3)
    columns = posts.columns_of(POSTS)
    assert [word.decode() for word in columns["vocabulary"]] == ["the", "and", "cat"]
    assert words_of(columns, columns["train_words"][0])[:5] == ["<nothing>", "the", "cat", "<unknown>", "<unknown>"]


def test_test_authors_hold_no_training_posts():
    columns = posts.columns_of(POSTS)
    train, test = (set(columns[f"{part}_author"].tolist()) for part in ("train", "test"))
    assert not train & test
    assert (len(train), len(test)) == (28, 2)


def test_an_author_is_cut_at_so_many_words(monkeypatch):
    monkeypatch.setattr(posts, "WORDS_A_CLIENT", 12)
    columns = posts.columns_of([("a", "x " * 8), ("a", "y " * 8), ("a", "z"), ("b", "x " * 8 + "y " * 8)])
    assert (columns["train_words"][:, 1:] > 1).sum() == 12


def test_a_file_is_prepared_once_and_then_mapped(tmp_path, monkeypatch):
    lines = [json.dumps({"author": author, "text": text}) for author, text in POSTS]
    (tmp_path / "posts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    told = []
    first = posts.load(tmp_path, progress=lambda *step: told.append(step[0]))
    second = posts.load(tmp_path, progress=lambda *step: told.append(step[0]))
    assert told == ["preparing posts.jsonl"]
    np.testing.assert_array_equal(first.train.inputs, second.train.inputs)
    assert isinstance(second.train.inputs.base, np.memmap)
    assert second.train.partition(ByKey("author")).num_clients == 28
    (tmp_path / "posts.jsonl").write_text('{"author": 1}\n', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"line 1: must be"):
        posts.load(tmp_path)


def test_a_parquet_file_gives_the_same(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    author, text = zip(*POSTS, strict=True)
    pq.write_table(pa.table({"author": author, "text": text}), tmp_path / "posts.parquet")
    columns = posts.columns_of(posts.read_posts(tmp_path / "posts.parquet"))
    np.testing.assert_array_equal(columns["train_words"], posts.columns_of(POSTS)["train_words"])


def test_without_posts_it_says_what_to_do():
    with pytest.raises(DataUnavailable, match=r"put posts\.parquet"):
        posts.load()


def test_made_up_posts_open_by_map_and_have_a_client_for_each_author(tmp_path):
    synthetic_posts.generate(tmp_path / "posts", num_authors=300, num_posts=2_000, seed=1)
    split = posts.load(tmp_path)
    clients = split.train.partition(ByKey("author"))
    assert clients.num_clients == 300
    assert clients.num_examples == 2_000
    assert clients.client_sizes.min() >= 1
    assert clients.client_sizes.max() > 5 * np.median(clients.client_sizes)  # some write far more than others
    assert isinstance(split.train.inputs.base, np.memmap)
    np.testing.assert_array_equal(split.train.inputs[:, 1:], split.train.targets[:, :-1])
    assert int(split.train.inputs.max()) < posts.VOCABULARY
    with pytest.raises(InvalidSetting, match="num_posts=2: must be a whole number of at least 3"):
        synthetic_posts.generate(tmp_path / "few", num_authors=3, num_posts=2)
