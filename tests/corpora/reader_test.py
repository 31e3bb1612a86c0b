"""The registry, and how skipped items are told."""

import pytest

from ds2_tf import corpora
from ds2_tf.corpora import reader
from ds2_tf.corpora.reader import Skipped
from ds2_tf.errors import UserError

SKIPPED = [
    Skipped("/c/a.trans.txt:3", "transcript without audio", "a-3"),
    Skipped("/c/b.flac", "recording without a transcript"),
    Skipped("/c/a.trans.txt:4", "transcript without audio", "a-4"),
]


def test_an_unknown_corpus_is_a_programming_error():
    with pytest.raises(ValueError, match=r"^corpus must be one of librispeech, manifests. Rec"):
        list(corpora.read("timit", ".", []))


@pytest.mark.parametrize("corpus", corpora.READERS)
def test_a_source_that_is_no_folder_is_refused(tmp_path, corpus):
    (tmp_path / "file").touch()
    for name, problem in (("gone", "no such folder"), ("file", "is not a folder")):
        with pytest.raises(UserError) as raised:
            list(corpora.read(corpus, tmp_path / name, []))
        assert str(raised.value) == f"{tmp_path / name}: {problem}; name the folder of the corpus"


def test_skipped_items_are_counted_by_reason_and_named():
    assert reader.summarize_skipped(SKIPPED, "out/skipped.tsv").splitlines() == [
        "skipped: transcript without audio: 2: /c/a.trans.txt:3 (a-3), /c/a.trans.txt:4 (a-4); "
        "all are listed in out/skipped.tsv",
        "skipped: recording without a transcript: 1: /c/b.flac; all are listed in out/skipped.tsv",
    ]
    many = [Skipped(str(i), "odd") for i in range(7)]
    assert reader.summarize_skipped(many, "s.tsv") == (
        "skipped: odd: 7: 0, 1, 2, 3, 4 and 2 more; all are listed in s.tsv"
    )


def test_all_skipped_items_are_listed_in_a_file(tmp_path):
    reader.write_skipped(tmp_path / "skipped.tsv", SKIPPED)
    assert (tmp_path / "skipped.tsv").read_text() == (
        "transcript without audio\t/c/a.trans.txt:3\ta-3\n"
        "recording without a transcript\t/c/b.flac\t\n"
        "transcript without audio\t/c/a.trans.txt:4\ta-4\n"
    )
