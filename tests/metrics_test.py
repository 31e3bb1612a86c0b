import dataclasses
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from ds2_tf import metrics

_FEW_WORDS = st.lists(st.sampled_from(["a", "b", "ab", "ba", "ä"]), max_size=8)


def _shortest_alignments(reference, hypothesis_units):
    """Returns every (substitutions, insertions, deletions) of a shortest alignment."""
    table = {}
    for i in range(len(reference) + 1):
        for j in range(len(hypothesis_units) + 1):
            options = set()
            if i == 0 and j == 0:
                options.add((0, 0, 0))
            if i and j:
                differs = int(reference[i - 1] != hypothesis_units[j - 1])
                options |= {(s + differs, n, d) for s, n, d in table[i - 1, j - 1]}
            if j:
                options |= {(s, n + 1, d) for s, n, d in table[i, j - 1]}
            if i:
                options |= {(s, n, d + 1) for s, n, d in table[i - 1, j]}
            shortest = min(map(sum, options))
            table[i, j] = {option for option in options if sum(option) == shortest}
    return table[len(reference), len(hypothesis_units)]


def _kinds(counts):
    return counts.substitutions, counts.insertions, counts.deletions


@hypothesis.given(_FEW_WORDS, _FEW_WORDS)
def test_word_errors_equal_dynamic_programming(reference, words):
    counts = metrics.word_errors(" ".join(reference), " ".join(words))
    assert _kinds(counts) in _shortest_alignments(reference, words)
    assert counts.reference_units == len(reference)


@hypothesis.given(st.text("ab ", max_size=8), st.text("ab ", max_size=8), st.booleans())
def test_character_errors_equal_dynamic_programming(reference, text, count_spaces):
    separator = " " if count_spaces else ""
    expected = _shortest_alignments(separator.join(reference.split()), separator.join(text.split()))
    counts = metrics.character_errors(reference, text, count_spaces)
    assert _kinds(counts) in expected


def test_counts_of_each_kind():
    assert metrics.word_errors("the cat sat", "the hat sat") == metrics.ErrorCounts(1, 0, 0, 3)
    assert metrics.word_errors("the cat sat", "the cat sat down") == metrics.ErrorCounts(0, 1, 0, 3)
    assert metrics.word_errors("the cat sat", "cat sat") == metrics.ErrorCounts(0, 0, 1, 3)


def test_spaces_count_as_characters_only_when_asked():
    assert metrics.character_errors("a b", "ab") == metrics.ErrorCounts(0, 0, 1, 3)
    assert metrics.character_errors("你 好", "你好", count_spaces=False) == metrics.ErrorCounts(
        0, 0, 0, 2
    )


def test_surplus_spaces_are_no_errors():
    assert metrics.character_errors("a b", "  a   b ").edits == 0
    assert metrics.word_errors("a b", "  a   b ").edits == 0


def test_one_composed_character_is_one_unit():
    assert metrics.character_errors("für", "fur") == metrics.ErrorCounts(1, 0, 0, 3)


@pytest.mark.parametrize("errors", [metrics.word_errors, metrics.character_errors])
def test_empty_texts(errors):
    assert errors("", "").rate == 0.0
    assert errors("", "a").rate == math.inf
    assert errors("a", "").rate == 1.0


def test_rate_is_not_capped():
    assert metrics.word_errors("a", "b c d").rate == 3.0


def test_total_is_of_the_corpus_and_not_the_mean_of_utterances():
    counts = [metrics.word_errors("a", "b"), metrics.word_errors("a b c", "a b c")]
    assert metrics.total(counts) == metrics.ErrorCounts(1, 0, 0, 4)
    assert metrics.total(counts).rate == 0.25


def test_empty_reference_with_insertions_adds_to_the_corpus():
    counts = [metrics.word_errors("", "x"), metrics.word_errors("a b", "a b")]
    assert metrics.total(counts).rate == 0.5
    assert metrics.total(iter([])) == metrics.ErrorCounts(0, 0, 0, 0)


def test_counts_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics.ErrorCounts(1, 0, 0, 1).edits = 5


@hypothesis.given(_FEW_WORDS, _FEW_WORDS)
def test_alignment_keeps_both_texts_and_shows_the_counted_edits(reference, words):
    pairs = metrics.alignment(reference, words)
    assert [left for left, _ in pairs if left is not None] == reference
    assert [right for _, right in pairs if right is not None] == words
    counts = metrics.word_errors(" ".join(reference), " ".join(words))
    shown = (
        sum(a is not None and b is not None and a != b for a, b in pairs),
        sum(a is None for a, _ in pairs),
        sum(b is None for _, b in pairs),
    )
    assert shown == _kinds(counts)
