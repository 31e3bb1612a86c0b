import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from ds2_tf import windows
from ds2_tf.transcript import Symbol, spell

_WORDS = ["no", "on", "yes", "a", "seven", "nine"]


def _symbols(words, jitter=lambda: 0.0):
    """Spells (text, start_seconds) words, a symbol each 0.03 s, with spaces between them."""
    symbols = []
    for text, exact_start in words:
        start = exact_start + jitter()
        if symbols:
            symbols.append(Symbol(" ", start - 0.02, start, 0.9))
        for k, letter in enumerate(text):
            symbols.append(Symbol(letter, start + 0.03 * k, start + 0.03 * k + 0.02, 0.9))
    return symbols


def _heard(start, end, words, jitter=lambda: 0.0):
    return windows.HeardWindow(start, end, _symbols(words, jitter))


def _text(joined, spaced=True):
    return (" " if spaced else "").join(word.text for word in spell(joined, spaced))


def _join(*heard, spaced=True):
    return _text(windows.join(heard, spaced), spaced)


@hypothesis.given(
    num_samples=st.integers(0, 60), block=st.integers(1, 25), overlap=st.integers(0, 7)
)
def test_split_covers_every_sample_with_the_stated_overlap(num_samples, block, overlap):
    samples = np.arange(num_samples, dtype=np.float32)
    blocks = [samples[i : i + block] for i in range(0, num_samples, block)]
    found = list(windows.split(blocks, 8, overlap))
    for start, window in found:
        np.testing.assert_array_equal(window, samples[start : start + len(window)])
        assert len(window) <= 8
    ends = [start + len(window) for start, window in found]
    assert ends[-1] == num_samples
    assert [end - start for end, (start, _) in zip(ends, found[1:], strict=False)] == [overlap] * (
        len(found) - 1
    )
    if len(found) > 1:
        assert len(found[-1][1]) > overlap


def test_what_fits_one_window_is_one_window():
    assert [len(w) for _, w in windows.split([np.zeros(8, np.float32)], 8, 2)] == [8]
    assert [len(w) for _, w in windows.split([], 8, 2)] == [0]


def test_split_rejects_an_overlap_of_a_whole_window():
    with pytest.raises(ValueError, match=r"less than window_samples. Received: 8 and 8"):
        next(windows.split([], 8, 8))


def test_one_window_passes_unchanged():
    window = _heard(0, 60, [("yes", 1.0), ("no", 59.0)])
    assert list(windows.join([window], spaced=True)) == window.symbols


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.data())
def test_joining_windows_of_one_speech_gives_that_speech(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    num_words = data.draw(st.integers(0, 400))
    random = np.random.default_rng(seed)
    starts = np.cumsum(random.uniform(0.3, 1.2, num_words))
    truth = [(str(random.choice(_WORDS)), float(start)) for start in starts]
    duration = (starts[-1] if num_words else 0.0) + 1.0
    heard = []
    for start in np.arange(0, max(duration - 10, 1), 50.0):
        end = min(start + 60, duration)
        inside = [word for word in truth if start <= word[1] and word[1] + 0.2 <= end]
        # What a window cuts through, it hears wrong.
        if start and random.random() < 0.5:
            inside.insert(0, ("xx", float(start)))
        if end < duration and random.random() < 0.5:
            inside.append(("yy", float(end) - 0.07))
        heard.append(_heard(start, end, inside, lambda: random.uniform(-0.04, 0.04)))
    joined = list(windows.join(heard, spaced=True))
    assert _text(joined) == " ".join(text for text, _ in truth)
    times = [
        time for word in spell(joined, True) for time in (word.start_seconds, word.end_seconds)
    ]
    assert times == sorted(times)


def test_a_word_repeated_faster_than_the_tolerance_is_neither_lost_nor_doubled():
    beats = [("no", 50.5 + 0.15 * k) for k in range(60)]
    early, late = (
        _heard(0, 60, beats, lambda: -0.03),
        _heard(50, 110, beats, lambda: 0.03),
    )
    assert _join(early, late) == " ".join(["no"] * 60)


def test_cut_lies_at_the_agreed_word_nearest_the_middle():
    left = _heard(0, 60, [("a", 51.0), ("b", 54.0), ("c", 57.0), ("left", 58.0)])
    right = _heard(50, 110, [("right", 50.5), ("b", 54.1), ("d", 56.0), ("e", 70.0)])
    assert _join(left, right) == "a b d e"


def test_equal_words_at_other_times_do_not_agree():
    left = _heard(0, 60, [("one", 54.0), ("two", 54.5)])
    right = _heard(50, 110, [("two", 55.2), ("three", 56.0)])
    assert _join(left, right) == "one two two three"


def test_without_agreement_the_cut_is_a_gap_of_both_near_the_middle():
    # 55 s lies in "leftmost" (54.9 to 55.16); the nearest time inside no word is its start.
    left = _heard(0, 60, [("x", 53.0), ("leftmost", 54.9), ("z", 58.0)])
    right = _heard(50, 110, [("p", 52.0), ("rightmost", 54.95), ("r", 59.0)])
    assert _join(left, right) == "x rightmost r"


def test_without_agreement_no_stretch_of_time_is_given_twice_or_dropped():
    left = [(f"l{k}", 50.2 + 0.5 * k) for k in range(19)]
    right = [(f"r{k}", 50.4 + 0.5 * k) for k in range(19)]
    joined = _join(_heard(0, 60, left), _heard(50, 110, right)).split()
    kinds = [word[0] for word in joined]
    assert kinds == sorted(kinds)
    assert len(joined) in (18, 19, 20)


def test_words_of_windows_apart_by_silence_are_not_glued():
    first, last = _heard(0, 60, [("one", 1.0)]), _heard(100, 130, [("two", 115.0)])
    assert _join(first, _heard(50, 110, []), last) == "one two"


def test_silence_gives_nothing():
    assert list(spell(windows.join([_heard(0, 60, []), _heard(50, 70, [])], True), True)) == []
    assert list(windows.join([], spaced=True)) == []


def _characters(text, first_start, step, length=0.1):
    starts = [first_start + step * k for k in range(len(text))]
    return [Symbol(c, t, t + length, 0.9) for c, t in zip(text, starts, strict=True)]


def test_languages_without_spaces_are_joined_by_characters():
    sentence = "今天天气很好我们去公园走走吧"
    left = _characters(sentence[:-2] + "错", 50.1, 0.7)
    right = _characters("误" + sentence[1:], 50.14, 0.7)
    heard = [windows.HeardWindow(0, 60, left), windows.HeardWindow(50, 110, right)]
    assert _join(*heard, spaced=False) == sentence


def test_without_any_gap_the_middle_divides_the_symbols():
    left = _characters("abcdefghij", 50.0, 1.0, length=1.0)
    right = _characters("ABCDEFGHIJK", 49.7, 1.0, length=1.0)
    heard = [windows.HeardWindow(0, 60, left), windows.HeardWindow(50, 110, right)]
    assert _join(*heard, spaced=False) == "abcdeFGHIJK"


def test_a_word_longer_than_the_overlap_is_joined_inside():
    """An alphabet may have a space that the speech hardly uses: Mandarin with English words."""
    speech = "".join(chr(0x4E00 + k) for k in range(200))
    heard = [
        windows.HeardWindow(0, 60, _characters(speech[:119], 0.0, 0.5)),
        windows.HeardWindow(50, 110, _characters(speech[101:], 50.52, 0.5)),
    ]
    assert _join(*heard) == speech


def test_times_keep_their_order_where_the_windows_disagree_by_a_frame():
    left = _heard(0, 60, [("a", 54.0), ("seven", 54.05)])
    right = _heard(50, 110, [("seven", 54.0), ("b", 56.0)])
    joined = list(windows.join([left, right], True))
    assert _text(joined) == "a seven b"
    for earlier, later in itertools.pairwise(joined):
        assert earlier.end_seconds <= later.start_seconds
        assert later.start_seconds <= later.end_seconds
