"""Every rule of the data check, its limits, and what must not be called bad."""

import numpy as np
import pytest

from ds2_tf import alphabet as alphabets
from ds2_tf import audio, data_check, data_rules
from ds2_tf.features import FeatureConfig
from tests.manifest_rows import ENGLISH, RATE, Rows, speech


@pytest.fixture
def rows(tmp_path):
    return Rows(tmp_path)


def test_good_rows_are_not_reported(rows):
    rows.add(speech(1.5), "IT'S  GOOD\r\n")
    rows.add(speech(1.5, 44100, seed=1), "some words", rate=44100)
    rows.add(speech(1.5, seed=2), "\ufeffsome words", name="a.flac")
    assert rows.check() == []


def test_a_missing_file(rows):
    rows.add_file(rows.folder / "gone.wav")
    (finding,) = rows.check()
    assert finding.reason == "audio_missing"
    assert (finding.detail, finding.remedy) == ("no such file", "check the path")
    assert finding.utterance is rows.utterances[0]


def test_an_error_page_instead_of_audio(rows):
    path = rows.folder / "page.wav"
    path.write_text("<!DOCTYPE html>\n<html><body>404 Not Found</body></html>")
    rows.add_file(path)
    (finding,) = rows.check()
    assert (finding.reason, finding.detail, finding.remedy) == (
        "audio_html",
        "is an HTML or XML page, not audio",
        "download the recording itself",
    )


def test_empty_unreadable_truncated_and_lying_files(rows):
    (rows.folder / "empty.wav").touch()
    rows.add_file(rows.folder / "empty.wav")
    rows.add(np.zeros(0), duration=1.0)  # A header and no samples.
    (rows.folder / "noise.wav").write_bytes(np.random.default_rng(0).bytes(3000))
    rows.add_file(rows.folder / "noise.wav")
    for seed, name in enumerate(("cut.wav", "cut.flac")):
        rows.add(speech(2, seed=seed), name=name)
        whole = (rows.folder / name).read_bytes()
        (rows.folder / name).write_bytes(whole[: len(whole) // 2])
    rows.add(speech(2), name="lying.wav")
    wav = bytearray((rows.folder / "lying.wav").read_bytes())
    wav[24:28] = (8000).to_bytes(4, "little")  # The rate, but not the bytes a second.
    (rows.folder / "lying.wav").write_bytes(wav)
    rows.add(np.full(RATE, np.nan), subtype="FLOAT")
    assert rows.reasons() == [
        (1, "audio_empty"),
        (2, "audio_empty"),
        (3, "audio_unreadable"),
        (4, "audio_truncated"),
        (5, "audio_truncated"),
        (6, "audio_bad_header"),
        (7, "audio_unreadable"),
    ]


def test_every_reason_of_the_decoder_is_a_reason_here():
    assert {f"audio_{reason}" for reason in audio.REASONS} <= set(data_check.REASONS)


def test_the_duration_may_be_off_by_a_tenth_of_a_second_or_one_percent(rows):
    rows.add(speech(1), "one", duration=1.09)
    rows.add(speech(1, seed=1), "one", duration=1.11)
    rows.add(speech(20, seed=2), "one sentence of twenty seconds or so", duration=20.19)
    rows.add(speech(20, seed=3), "one sentence of twenty seconds or so", duration=19.79)
    findings = rows.check()
    assert [(f.row + 1, f.reason, f.detail) for f in findings] == [
        (2, "duration_off", "the manifest says 1.11 s, the audio lasts 1.00 s"),
        (4, "duration_off", "the manifest says 19.79 s, the audio lasts 20.00 s"),
    ]


def test_a_header_that_lies_consistently_shows_in_the_duration(rows):
    rows.add(speech(2), duration=2.0, name="lying.wav")
    wav = bytearray((rows.folder / "lying.wav").read_bytes())
    wav[24:32] = (8000).to_bytes(4, "little") + (16000).to_bytes(4, "little")
    (rows.folder / "lying.wav").write_bytes(wav)
    (finding,) = rows.check()
    assert finding.detail == "the manifest says 2.00 s, the audio lasts 4.00 s"


def test_silence_and_near_silence(rows):
    rows.add(np.zeros(RATE), "one")
    rows.add(np.full(RATE, 0.25), "two")  # A constant offset.
    rows.add(np.random.default_rng(0).normal(0, 0.0004, RATE), "three")  # -68 dBFS
    click = np.zeros(RATE)
    click[5000] = 1.0
    rows.add(click, "four")
    findings = rows.check()
    assert [(f.row + 1, f.reason) for f in findings] == [(i, "silent") for i in (1, 2, 3, 4)]
    assert findings[0].detail == "digital silence, every sample is 0"
    assert findings[3].detail == ("near silence, 1 of 50 windows of 20 ms are louder than -60 dBFS")


def test_soft_speech_and_a_word_in_a_long_pause_are_not_silent(rows):
    rows.add(speech(1, level=0.004), "one")
    word = np.zeros(4 * RATE)
    word[RATE : RATE + RATE // 5] = speech(0.2)
    rows.add(word, "two")
    rows.add(speech(0.05), "")  # Shorter than three windows.
    assert rows.reasons(allow=["transcript_empty"]) == []


def test_clipped_is_more_than_five_samples_in_a_thousand(rows):
    for seed, count in enumerate((80, 81)):
        samples = speech(1, seed=seed)
        samples[:: RATE // count][:count] = 1.0
        rows.add(samples, "one")
    rows.add((10 * speech(1, seed=3)).clip(-1, 1), "one")
    findings = rows.check()
    assert [(f.row + 1, f.reason) for f in findings] == [(2, "clipped"), (3, "clipped")]
    assert findings[0].detail == "0.51% of the samples are at full scale"


def test_speech_normalised_to_its_peak_is_not_clipped(rows):
    samples = speech(2)
    rows.add(samples / abs(samples).max(), "one two")
    assert rows.check() == []


def test_an_empty_transcript(rows):
    rows.add(speech(1), "")
    rows.add(speech(1, seed=1), " \ufeff\t\r\n")
    findings = rows.check()
    assert [f.reason for f in findings] == ["transcript_empty"] * 2
    assert findings[0].detail == "the transcript holds no characters"


def test_unknown_characters_are_named_and_counted(rows):
    rows.add(speech(2), "Naïve: 1,100 rows\u200b")
    (finding,) = rows.check()
    assert finding.reason == "unknown_characters"
    assert finding.detail == "'0' x2, '1' x2, ',' x1, ':' x1, 'ï' (U+00EF) x1, U+200B x1"
    assert finding.characters == {"0": 2, "1": 2, ",": 1, ":": 1, "ï": 1, "\u200b": 1}


def test_composed_and_decomposed_umlauts_are_the_same_character(rows):
    german = alphabets.Alphabet((*ENGLISH.symbols, "u\u0308"))
    rows.add(speech(1), "f\u00fcnf")
    rows.add(speech(1, seed=1), "FU\u0308NF\r")
    assert rows.check(alphabet=german) == []


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100])
@pytest.mark.parametrize("seconds", [0.5, 0.7313])
def test_too_long_is_decided_to_the_frame(rows, rate, seconds):
    path = rows.add(speech(seconds, rate), "x", rate=rate).audio_path
    num_samples = len(audio.load(path, 8000))
    num_output_frames = (1 + (num_samples - 160) // 80 + 1) // 2
    for length in (num_output_frames, num_output_frames + 1):
        rows.utterances.clear()
        rows.add_file(path, ("ab" * length)[:length], seconds)
        found = rows.reasons(features=FeatureConfig(8000), allow=["implausible_rate"])
        assert found == ([(1, "too_long_for_frames")] if length > num_output_frames else [])


def test_77_frames_needed_and_76_there(rows):
    samples = speech(1)[: 320 + 75 * 160]
    rows.add(samples, "aabbccddeeffgg" + "xy" * 28)
    (finding,) = rows.check(stride=1, allow=["implausible_rate"])
    assert finding.reason == "too_long_for_frames"
    assert finding.detail == "77 frames needed (70 labels + 7 repeats), 76 there"


def test_76_frames_needed_and_76_there(rows):
    rows.add(speech(1)[: 320 + 75 * 160], "aabbccddeeffg" + "xy" * 28 + "g")
    assert rows.check(stride=1, allow=["implausible_rate"]) == []


@pytest.mark.parametrize(("num_frames", "fits"), [(3, False), (4, True)])
def test_aab_needs_four_frames(rows, num_frames, fits):
    rows.add(speech(1)[: 320 + (num_frames - 1) * 160], "aab")
    assert (rows.reasons(stride=1) == []) == fits


@pytest.mark.parametrize(("num_frames", "fits"), [(4, False), (5, True)])
def test_of_bigrams_each_pair_needs_one_frame(rows, num_frames, fits):
    """ "aa", "aa", space and "b": four labels, and one more frame between the equal ones."""
    pairs = alphabets.from_transcripts(["aaaa b"], kind="bigram")
    rows.add(speech(1)[: 320 + (num_frames - 1) * 160], "aaaa b")
    details = [finding.detail for finding in rows.check(pairs, stride=1)]
    assert details == ([] if fits else ["5 frames needed (4 labels + 1 repeats), 4 there"])


def test_characters_that_are_written_as_unknown_are_no_finding_and_need_frames(rows):
    symbols = alphabets.Alphabet(("a", alphabets.UNKNOWN))
    rows.add(speech(1)[: 320 + 3 * 160], "a33")
    rows.add(speech(1, seed=1)[: 320 + 2 * 160], "a33")
    (finding,) = rows.check(symbols, stride=1)
    assert (finding.row, finding.reason) == (1, "too_long_for_frames")
    assert finding.detail == "4 frames needed (3 labels + 1 repeats), 3 there"


def test_a_recording_shorter_than_a_window_has_no_frames(rows):
    rows.add(speech(0.015), "a")
    (finding,) = rows.check()
    assert finding.detail == "1 frames needed (1 labels + 0 repeats), 0 there"


def test_unknown_characters_do_not_make_a_text_longer(rows):
    """Left out of the count they never call a text too long that is not."""
    rows.add(speech(1)[: 320 + 3 * 160], "a3a")  # As "aa" it needs 3 frames, and 4 are there.
    assert rows.reasons(stride=1) == [(1, "unknown_characters")]


def test_rates_that_nobody_speaks_at(rows):
    rows.add(speech(2), "x" * 55)
    rows.add(speech(2, seed=1), "xy" * 28)
    rows.add(speech(20, seed=2), "x" * 30)
    rows.add(speech(20, seed=3), "xy" * 14 + "z")
    findings = rows.check(stride=1)
    assert [(f.row + 1, f.reason, f.detail) for f in findings] == [
        (2, "implausible_rate", "56 letters in 2.00 s, plausible are at most 55"),
        (4, "implausible_rate", "29 letters in 20.00 s, plausible are at least 30"),
    ]


def test_short_words_are_plausible(rows):
    rows.add(speech(0.19), "three")
    rows.add(speech(2.3, seed=1), "a")
    assert rows.check() == []


def test_a_chinese_character_counts_as_three_letters(rows):
    text = "设定二十九度打开客厅的灯"  # 12 characters
    alphabet = alphabets.from_transcripts([text])
    rows.add(speech(1.25), text)
    rows.add(speech(1.2, seed=1), text)
    findings = rows.check(alphabet=alphabet)
    assert [(f.row + 1, f.detail) for f in findings] == [
        (2, "36 letters in 1.20 s, plausible are at most 35")
    ]


def test_every_reason_has_a_remedy(rows):
    row = data_rules.Row(0, rows.add(speech(1)), ())
    assert all(row.finding(reason, "x").remedy for reason in data_check.REASONS)
