import io
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from ds2_tf import alphabet, audio, errors, transcribe
from ds2_tf.decoding import greedy
from tests.decoding.beams import beam
from tests.streaming_models import make_model, sound
from tests.tone_model import SAMPLE_RATE_HZ, ToneModel, speak, write

_WORDS = ["no", "on", "yes", "a", "seven", "nine", "eleven", "the"]


def _speech(num_words, seed):
    return " ".join(np.random.default_rng(seed).choice(_WORDS, num_words))


def test_text_words_times_and_confidence(tmp_path):
    path = write(tmp_path / "a.wav", speak("hello you", lead_seconds=1.0))
    transcript = transcribe.Transcriber(ToneModel()).transcribe(path)
    assert transcript.text == "hello you"
    assert transcript.audio_path == path
    assert transcript.duration_seconds == pytest.approx(1.0 + 9 * 0.12)
    hello, you = transcript.words
    assert (hello.text, you.text) == ("hello", "you")
    assert hello.start_seconds == pytest.approx(1.0, abs=0.02)
    assert hello.end_seconds == pytest.approx(1.0 + 4 * 0.12 + 0.09, abs=0.02)
    assert you.start_seconds == pytest.approx(1.0 + 6 * 0.12, abs=0.02)
    expected = np.exp(5) / (np.exp(5) + 28)
    assert hello.confidence == pytest.approx(expected, rel=1e-5)


def test_confidence_is_the_mean_of_the_symbols_peaks_and_never_above_one(monkeypatch):
    model = ToneModel()
    log_probs = np.full((1, 6, 29), -9.0, np.float32)
    labels = model.alphabet.encode("ab")
    log_probs[0, 0, labels[0]] = np.log(0.5)
    log_probs[0, 1, labels[0]] = np.log(0.75)
    log_probs[0, 2:5, 0] = -0.1
    log_probs[0, 5, labels[1]] = 1e-6  # Rounding may lift a log-probability above 0.
    monkeypatch.setattr(
        model, "log_probabilities", lambda *_: (tf.constant(log_probs), np.int32([6]))
    )
    transcript = transcribe.Transcriber(model).transcribe_blocks([np.zeros(8000, np.float32)])
    assert transcript.text == "ab"
    assert transcript.words[0].confidence == pytest.approx((0.75 + 1.0) / 2)


def test_text_equals_the_graph_s_text():
    model = ToneModel()
    samples = speak(" a  bb ")  # Spaces that no transcript has: at the ends and doubled.
    labels, _ = greedy.greedy_labels(*transcribe.hear(model, [samples]))
    in_graph = greedy.greedy_text(labels, model.alphabet).numpy()[0].decode()
    assert in_graph == "a bb"
    assert transcribe.Transcriber(model).transcribe_blocks([samples]).text == "a bb"


@pytest.mark.parametrize("seconds_per_frame", [0.02, 0.03])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_long_recordings_lose_and_repeat_nothing(seconds_per_frame, batch_size):
    text = _speech(500, seed=batch_size)
    samples = speak(text, lead_seconds=0.37)
    assert len(samples) > 200 * SAMPLE_RATE_HZ
    model = ToneModel(seconds_per_frame=seconds_per_frame)
    blocks = np.array_split(samples, 29)
    transcript = transcribe.Transcriber(model, batch_size).transcribe_blocks(blocks)
    assert transcript.text == text
    assert transcript.duration_seconds == len(samples) / SAMPLE_RATE_HZ
    starts = 0.37 + 0.12 * np.array([0, *(i + 1 for i, c in enumerate(text) if c == " ")])
    found = [word.start_seconds for word in transcript.words]
    np.testing.assert_allclose(found, starts, atol=seconds_per_frame)
    for earlier, later in itertools.pairwise(transcript.words):
        assert earlier.end_seconds <= later.start_seconds
    longest = max(num_samples for _, num_samples in model.batch_shapes)
    assert longest == 60 * SAMPLE_RATE_HZ
    assert max(rows for rows, _ in model.batch_shapes) == batch_size


def test_beam_search_in_windows_loses_and_repeats_nothing():
    text = _speech(500, seed=3)
    samples = speak(text, lead_seconds=0.37)
    greedy_words, beam_words = (
        transcribe.Transcriber(ToneModel(), decoder=decoder).transcribe_blocks([samples]).words
        for decoder in (None, beam())
    )
    assert " ".join(word.text for word in beam_words) == text
    times = [[(w.start_seconds, w.end_seconds) for w in ws] for ws in (greedy_words, beam_words)]
    np.testing.assert_allclose(*times, atol=0.03)
    assert all(0.5 < word.confidence <= 1 for word in beam_words)


def test_long_recordings_of_a_language_without_spaces():
    symbols = alphabet.Alphabet(tuple("一二三四五六七八九十百千万"), language="zh")
    text = "".join(np.random.default_rng(0).choice(symbols.symbols, 1500))
    samples = speak(text, symbols)
    transcript = transcribe.Transcriber(ToneModel(symbols)).transcribe_blocks([samples])
    assert transcript.text == text
    assert transcript.separator == ""
    assert [word.text for word in transcript.words] == list(text)


def _spoken_symbols(text, symbols):
    return [symbols.decode([label]) for label in symbols.encode(text)]


def test_words_of_bigrams_have_the_times_and_the_confidence_of_their_symbols():
    pairs = alphabet.from_transcripts(["hello you"], kind="bigram")
    model = ToneModel(pairs)
    spoken = _spoken_symbols("hello you", pairs)
    assert spoken == ["he", "ll", "o", " ", "yo", "u"]
    samples = speak(spoken, pairs, lead_seconds=1.0)
    transcript = transcribe.Transcriber(model).transcribe_blocks([samples])
    assert transcript.text == "hello you"
    hello, you = transcript.words
    assert hello.start_seconds == pytest.approx(1.0, abs=0.02)
    assert hello.end_seconds == pytest.approx(1.0 + 2 * 0.12 + 0.09, abs=0.02)
    assert you.start_seconds == pytest.approx(1.0 + 4 * 0.12, abs=0.02)
    expected = np.exp(5) / (np.exp(5) + pairs.num_labels - 1)
    assert hello.confidence == pytest.approx(expected, rel=1e-5)


def test_long_recordings_in_bigrams():
    text = _speech(900, seed=1)
    pairs = alphabet.from_transcripts(_WORDS, kind="bigram")
    pairs = alphabet.Alphabet((" ", *pairs.symbols), kind="bigram")
    samples = speak(_spoken_symbols(text, pairs), pairs)
    assert len(samples) > 200 * SAMPLE_RATE_HZ
    transcript = transcribe.Transcriber(ToneModel(pairs)).transcribe_blocks([samples])
    assert transcript.text == text


def test_without_spaces_the_characters_of_a_bigram_share_its_time():
    text = "".join(np.random.default_rng(0).choice(list("一二三四五"), 1501))
    pairs = alphabet.from_transcripts([text], language="zh", kind="bigram")
    spoken = _spoken_symbols(text, pairs)
    assert len(spoken) == 751
    samples = speak(spoken, pairs)
    transcript = transcribe.Transcriber(ToneModel(pairs)).transcribe_blocks([samples])
    assert transcript.text == text
    assert transcript.separator == ""
    assert [word.text for word in transcript.words] == list(text)
    times = [(word.start_seconds, word.end_seconds) for word in transcript.words]
    assert times[0:1500:2] == times[1:1500:2]
    np.testing.assert_allclose([t[0] for t in times[::2]], 0.12 * np.arange(751), atol=0.02)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(times[::2]))


def test_mandarin_with_roman_words_gets_no_space_where_windows_are_joined():
    """Where the overlap is silent, a language with spaces has a word's end."""
    symbols = alphabet.Alphabet(tuple(" abc一二三四五六七"), language="zh")
    chinese = "".join(np.random.default_rng(1).choice(list("一二三四"), 390))
    before = f"{chinese[:300]} abc {chinese[300:]}"
    after = "五" + "".join(np.random.default_rng(2).choice(list("五六七"), 200))
    samples = np.concatenate([speak(before, symbols), speak(after, symbols, lead_seconds=14.0)])
    transcript = transcribe.Transcriber(ToneModel(symbols)).transcribe_blocks([samples])
    assert transcript.text == before + after
    assert [word.text for word in transcript.words] == (before + after).split()


def test_sixty_seconds_are_heard_whole_and_a_sample_more_is_not():
    model = ToneModel()
    samples = np.zeros(60 * SAMPLE_RATE_HZ + 1, np.float32)
    transcribe.Transcriber(model).transcribe_blocks([samples[:-1]])
    assert model.batch_shapes == [(1, 60 * SAMPLE_RATE_HZ)]
    model.batch_shapes.clear()
    transcribe.Transcriber(model).transcribe_blocks([samples])
    assert model.batch_shapes == [(2, 60 * SAMPLE_RATE_HZ)]


@pytest.mark.parametrize("num_samples", [0, 10, 159, 8000, 70 * SAMPLE_RATE_HZ])
def test_no_speech_gives_an_empty_transcript(tmp_path, num_samples):
    path = write(tmp_path / "a.wav", np.zeros(num_samples, np.float32))
    transcript = transcribe.Transcriber(ToneModel()).transcribe(path)
    assert (transcript.text, transcript.words) == ("", ())
    assert transcript.duration_seconds == num_samples / SAMPLE_RATE_HZ
    assert transcript.audio_path == path


def test_bytes_and_file_objects(tmp_path):
    path = write(tmp_path / "a.wav", speak("yes no"))
    transcriber = transcribe.Transcriber(ToneModel())
    with open(path, "rb") as file:
        content = file.read()
        assert transcriber.transcribe(file).text == "yes no"
    assert transcriber.transcribe(content).text == "yes no"
    assert transcriber.transcribe(io.BytesIO(content)).text == "yes no"
    assert transcriber.transcribe(content).audio_path == ""


def test_other_rates_are_resampled(tmp_path):
    symbols = alphabet.Alphabet(("a",))
    samples = np.repeat(speak("aaaaa", symbols), 2)
    soundfile.write(tmp_path / "a.wav", samples, 2 * SAMPLE_RATE_HZ)
    transcript = transcribe.Transcriber(ToneModel(symbols)).transcribe(tmp_path / "a.wav")
    assert transcript.text == "aaaaa"
    assert transcript.duration_seconds == pytest.approx(5 * 0.12)


def test_files_that_are_no_recordings(tmp_path):
    transcriber = transcribe.Transcriber(ToneModel())
    (tmp_path / "empty.wav").write_bytes(b"")
    with pytest.raises(audio.AudioError, match=r"empty.wav: is an empty file; "):
        transcriber.transcribe(tmp_path / "empty.wav")
    with pytest.raises(audio.AudioError, match=r"missing.wav: no such file; check the path"):
        transcriber.transcribe(tmp_path / "missing.wav")


def test_output_that_is_no_number_is_an_error(monkeypatch):
    model = ToneModel()
    hear = model.log_probabilities
    monkeypatch.setattr(
        model, "log_probabilities", lambda *batch: (hear(*batch)[0] * np.nan, hear(*batch)[1])
    )
    with pytest.raises(errors.UserError, match=r"the model's output is not a number: its weights"):
        transcribe.Transcriber(model).transcribe_blocks([speak("a")])


def test_invalid_batch_size():
    with pytest.raises(ValueError, match=r"batch_size must be >= 1. Received: 0"):
        transcribe.Transcriber(ToneModel(), batch_size=0)


def test_a_real_network_in_windows(tiny_workdir, digits_folder):
    """Of random weights, so the text means nothing: only the joining is checked."""
    transcriber = transcribe.Transcriber.load(tiny_workdir)
    samples = _joined_digits(digits_folder, seconds=130)
    transcript = transcriber.transcribe_blocks(np.array_split(samples, 7), "joined")
    assert transcript.duration_seconds == 130
    times = [t for word in transcript.words for t in (word.start_seconds, word.end_seconds)]
    assert times == sorted(times)
    assert times[0] < 2
    assert 128 < times[-1] <= 130
    assert all(0 < word.confidence <= 1 for word in transcript.words)
    alone = transcribe.Transcriber(transcriber.model, batch_size=1)
    assert alone.transcribe_blocks([samples], "joined").text == transcript.text


def _joined_digits(folder, seconds):
    paths = sorted(folder.rglob("*.flac"))
    digits = [audio.load(path, SAMPLE_RATE_HZ) for path in paths[:: len(paths) // 100]]
    return np.resize(np.concatenate(digits), seconds * SAMPLE_RATE_HZ)


_MEASURE = """
import json, resource, sys
from ds2_tf.transcribe import Transcriber
transcriber = Transcriber.load(sys.argv[1])
result = []
for path in sys.argv[2:]:
    transcript = transcriber.transcribe(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result.append([transcript.duration_seconds, len(transcript.text), peak])
print(json.dumps(result))
"""


@pytest.mark.slow
def test_two_hours_need_no_more_memory_than_ten_minutes(tiny_workdir, digits_folder, tmp_path):
    joined = _joined_digits(digits_folder, seconds=600)
    short, long = (write(tmp_path / f"{n}.wav", np.tile(joined, n)) for n in (1, 12))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tiny_workdir), short, long],
        capture_output=True,
        check=True,
    )
    (seconds_1, letters_1, peak_1), (seconds_12, letters_12, peak_12) = json.loads(done.stdout)
    assert (seconds_1, seconds_12) == (600, 7200)
    assert letters_12 == pytest.approx(12 * letters_1, rel=0.02)
    print(f"peak MiB: {peak_1:.0f} for 10 minutes, {peak_12:.0f} for 2 hours")
    assert peak_12 - peak_1 < 60


@pytest.mark.slow
def test_two_hours_of_known_text(tmp_path):
    text = _speech(14_300, seed=5)
    path = write(tmp_path / "long.wav", speak(text))
    transcript = transcribe.Transcriber(ToneModel()).transcribe(path)
    assert transcript.duration_seconds > 7200
    assert transcript.text == text


def test_a_model_that_can_follow_a_stream_hears_a_recording_as_one():
    model = make_model({}, {"power_normalization": "running"})
    assert model.streams_exactly
    samples = sound(70 * 8000)
    labels, _ = greedy.greedy_labels(*transcribe.hear(model, [samples]))
    whole = greedy.greedy_text(labels, model.alphabet).numpy()[0].decode()
    transcriber = transcribe.Transcriber(model)
    for size in (8000, 70 * 8000):
        blocks = (samples[i : i + size] for i in range(0, len(samples), size))
        transcript = transcriber.transcribe_blocks(blocks, "a.wav")
        assert transcript.text == whole
        assert (transcript.audio_path, transcript.duration_seconds) == ("a.wav", 70)


@pytest.mark.parametrize(
    ("model", "features"),
    [
        ({}, {"power_normalization": "utterance"}),
        ({"bidirectional": True, "lookahead": 0}, {"power_normalization": "running"}),
    ],
)
def test_a_model_that_needs_the_whole_recording_does_not_stream(model, features):
    assert not make_model(model, features).streams_exactly
