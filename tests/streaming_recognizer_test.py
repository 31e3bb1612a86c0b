import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2_tf import alphabet
from ds2_tf.endpointing import EndpointRules
from ds2_tf.errors import UserError
from ds2_tf.streaming_recognizer import StreamingRecognizer
from ds2_tf.transcribe import Transcriber
from tests.decoding.beams import WIDE, beam
from tests.tone_model import SAMPLE_RATE_HZ, ToneModel, ToneStream, speak

NEVER = math.inf


def silence(seconds):
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


def heard(recognizer, samples, size):
    """Returns (text, seconds when it came) of the sentences and of the rest."""
    found = []
    for first in range(0, len(samples), size):
        recognizer.accept(samples[first : first + size])
        time = min(first + size, len(samples)) / SAMPLE_RATE_HZ
        found += [(sentence.text, time) for sentence in recognizer.sentences()]
    found.append((recognizer.finish().text, None))
    return found


@settings(max_examples=30, deadline=None)
@given(size=st.integers(20, 20_000))
def test_text_and_times_are_those_of_the_whole_recording(size):
    samples = np.concatenate([speak("no one knows"), silence(1), speak("it is so")])
    expected = Transcriber(ToneModel()).transcribe_blocks([samples])
    recognizer = StreamingRecognizer(ToneStream())
    for first in range(0, len(samples), size):
        recognizer.accept(samples[first : first + size])
        assert expected.text.startswith(recognizer.partial().text)
    found = recognizer.finish()
    assert (found.text, found.duration_seconds) == (expected.text, expected.duration_seconds)
    for word, same in zip(found.words, expected.words, strict=True):
        assert word.text == same.text
        times = (word.start_seconds, word.end_seconds, word.confidence)
        assert times == pytest.approx((same.start_seconds, same.end_seconds, same.confidence))
    assert recognizer.partial().text == ""


@pytest.mark.parametrize("size", [80, 1111, 10**6])
def test_silence_ends_a_sentence_whatever_the_pieces(size):
    samples = np.concatenate(
        [silence(2), speak("one two"), silence(0.5), speak(" three"), silence(1), speak("four")]
    )
    rules = EndpointRules(silence_seconds=0.8)
    found = heard(StreamingRecognizer(ToneStream(), rules), samples, size)
    assert [text for text, _ in found] == ["one two three", "four"]
    if size == 80:
        ends = (len(samples) - len(speak("four"))) / SAMPLE_RATE_HZ - 1
        assert found[0][1] == pytest.approx(ends + 0.8, abs=0.05)


def test_a_held_sound_ends_a_sentence_by_its_stability():
    held = np.full(2 * SAMPLE_RATE_HZ, (alphabet.english().symbols.index("o") + 1) / 100)
    samples = np.concatenate([speak("so"), held.astype(np.float32), silence(0.1), speak("yes")])
    rules = EndpointRules(silence_seconds=NEVER, stability_seconds=1.0)
    found = heard(StreamingRecognizer(ToneStream(), rules), samples, 80)
    assert [text for text, _ in found] == ["soo", "yes"]
    rules = EndpointRules(silence_seconds=NEVER, stability_seconds=NEVER)
    assert heard(StreamingRecognizer(ToneStream(), rules), samples, 80)[0][0] == "sooyes"


def test_a_long_sentence_ends_between_two_words():
    samples = speak("one two three four five six")
    rules = EndpointRules(NEVER, NEVER, sentence_seconds=1.0)
    texts = [text for text, _ in heard(StreamingRecognizer(ToneStream(), rules), samples, 500)]
    assert " ".join(texts) == "one two three four five six"
    assert len(texts) > 1
    assert all(len(text) <= 14 for text in texts)


def test_times_count_from_the_start_of_the_stream():
    samples = np.concatenate([speak("a"), silence(1), speak("b"), silence(1)])
    recognizer = StreamingRecognizer(ToneStream(), EndpointRules(silence_seconds=0.5))
    recognizer.accept(samples)
    first, second = recognizer.sentences()
    assert first.words[0].start_seconds == pytest.approx(0, abs=0.03)
    assert second.words[0].start_seconds == pytest.approx(1.12, abs=0.03)
    assert recognizer.finish().words == ()


def test_16_bit_samples_and_no_others():
    samples = speak("yes")
    recognizer = StreamingRecognizer(ToneStream())
    recognizer.accept(np.round(samples * 32768).astype(np.int16))
    assert recognizer.finish().text == "yes"
    with pytest.raises(ValueError, match="must be floats or int16. Received: int32"):
        recognizer.accept(np.zeros(3, np.int32))
    with pytest.raises(ValueError, match=r"one dimension. Received shape: \(1, 3\)"):
        recognizer.accept(np.zeros((1, 3), np.float32))


def test_start_forgets_everything():
    recognizer = StreamingRecognizer(ToneStream(), EndpointRules(silence_seconds=0.5))
    recognizer.accept(np.concatenate([speak("a"), silence(1), speak("b")]))
    recognizer.start()
    assert recognizer.sentences() == []
    recognizer.accept(speak("c"))
    assert recognizer.finish().text == "c"


def test_reset_drops_the_sentence_and_goes_on():
    recognizer = StreamingRecognizer(ToneStream())
    recognizer.accept(np.concatenate([speak("wrong "), silence(0.1)]))
    recognizer.reset()
    assert recognizer.partial().text == ""
    recognizer.accept(speak("right"))
    transcript = recognizer.finish()
    assert transcript.text == "right"
    assert transcript.words[0].start_seconds == pytest.approx(6 * 0.12 + 0.1, abs=0.03)


def test_a_model_that_says_nothing_sensible_is_named():
    class Damaged(ToneStream):
        def step(self, samples, lengths, final, state):
            log_probs, counts, state = super().step(samples, lengths, final, state)
            return log_probs * np.nan, counts, state

    with pytest.raises(UserError, match="the model's output is not a number"):
        StreamingRecognizer(Damaged()).accept(speak("a"))


@settings(max_examples=20, deadline=None)
@given(size=st.integers(20, 20_000))
def test_beam_search_gives_the_text_of_the_whole_recording_whatever_the_pieces(size):
    samples = np.concatenate([speak("no one knows"), silence(1), speak("it is so")])
    decoder = beam(options=dataclasses.replace(WIDE, beam_width=8))
    expected = Transcriber(ToneModel(), decoder=decoder).transcribe_blocks([samples])
    assert expected.text == "no one knowsit is so"
    recognizer = StreamingRecognizer(ToneStream(), decoder=decoder)
    for first in range(0, len(samples), size):
        recognizer.accept(samples[first : first + size])
        assert expected.text.startswith(recognizer.partial().text)
    assert recognizer.finish() == expected


@pytest.mark.parametrize("size", [80, 1111, 10**6])
@pytest.mark.parametrize(
    "rules",
    [
        EndpointRules(silence_seconds=0.4),
        EndpointRules(NEVER, stability_seconds=0.5),
        EndpointRules(NEVER, NEVER, sentence_seconds=1.0),
    ],
)
def test_sentences_end_at_the_same_time_for_every_decoder(rules, size):
    held = np.full(SAMPLE_RATE_HZ, (alphabet.english().symbols.index("o") + 1) / 100, np.float32)
    samples = np.concatenate(
        [silence(1), speak("one two "), silence(0.6), speak("so"), held, speak(" three four five")]
    )
    found = [
        heard(StreamingRecognizer(ToneStream(), rules, decoder), samples, size)
        for decoder in (None, beam(options=dataclasses.replace(WIDE, beam_width=8)))
    ]
    assert len(found[0]) > 1
    assert found[0] == found[1]


def test_hot_words_belong_to_one_stream():
    decoder = beam()
    samples = np.concatenate([speak("the c"), speak("o")[:320], silence(0.03), speak("stle")])
    hot = StreamingRecognizer(ToneStream(), decoder=decoder, hot_words={"castle": 14.0})
    cold = StreamingRecognizer(ToneStream(), decoder=decoder)
    for recognizer in (hot, cold):
        recognizer.accept(samples)
    assert (hot.finish().text, cold.finish().text) == ("the castle", "the costle")
    hot.accept(samples)
    assert hot.finish().text == "the costle"  # The next stream has its own.
    hot.start({"castle": 14.0})
    hot.accept(samples)
    assert hot.finish().text == "the castle"
    with pytest.raises(ValueError, match="a greedy decoder takes no hot words; use beam search"):
        StreamingRecognizer(ToneStream(), hot_words={"castle": 14.0})


def test_a_sentence_in_which_the_decoder_finds_nothing_is_none():
    decoder = beam(allowed_words=["yes"])
    samples = np.concatenate([speak("o"), silence(1), speak("yes"), silence(1)])
    rules = EndpointRules(silence_seconds=0.5)
    recognizer = StreamingRecognizer(ToneStream(), rules, decoder)
    recognizer.accept(samples)
    assert [sentence.text for sentence in recognizer.sentences()] == ["yes"]
    assert recognizer.finish().words == ()


def test_times_must_be_times():
    with pytest.raises(ValueError, match="silence_seconds must be > 0. Received: 0"):
        EndpointRules(silence_seconds=0)
