import collections
import hashlib
import pathlib
import shutil

import numpy as np
import pytest

from ds2_tf import audio
from ds2_tf.audio import AudioError
from ds2_tf.corpora import digit_strings
from ds2_tf.errors import UserError

SPEAKERS = {"george", "jackson", "lucas", "nicolas", "theo", "yweweler"}
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
RATE = 8000


@pytest.fixture(scope="module")
def recordings(digits_folder):
    return digit_strings.read(digits_folder)


@pytest.fixture(scope="module")
def splits(recordings):
    return digit_strings.splits(recordings, "theo")


def name(path):
    """Returns (digit, speaker, take) of a file name."""
    digit, speaker, take = pathlib.Path(path).stem.split("_")
    return int(digit), speaker, int(take)


def parts(utterances):
    return [path for utterance in utterances for path in utterance.audio_paths]


def digests(utterances):
    return {hashlib.sha256(pathlib.Path(p).read_bytes()).digest() for p in set(parts(utterances))}


def test_the_whole_dataset_is_there(recordings, digits_folder):
    found = {(r.digit, r.speaker, r.take) for r in recordings}
    assert found == {(d, s, t) for d in range(10) for s in SPEAKERS for t in range(50)}
    assert len(recordings) == 3000
    for recording in recordings[::50]:
        assert name(recording.path) == (recording.digit, recording.speaker, recording.take)
        samples = audio.load(recording.path, RATE)
        assert recording.duration_seconds == len(samples) / RATE
    files = [path for path in digits_folder.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 13 << 20


def test_origin_and_licence_are_recorded(digits_folder):
    text = (digits_folder.parent / "SOURCE.md").read_text(encoding="utf-8")
    for fact in (
        "Free Spoken Digit Dataset",
        "Jakobovski/free-spoken-digit-dataset",
        "CC BY-SA 4.0",
        "takes 0 to 4",
        *SPEAKERS,
    ):
        assert fact in text


def test_no_recording_for_a_test_occurs_in_training(splits):
    train = digests(splits["train"])
    for split in ("dev", "test_known", "test_unseen"):
        assert not train & digests(splits[split])
    assert not digests(splits["dev"]) & digests(splits["test_known"])


def test_the_unseen_speaker_occurs_nowhere_else(splits):
    for split, utterances in splits.items():
        speakers = {name(path)[1] for path in parts(utterances)}
        assert speakers == ({"theo"} if split == "test_unseen" else SPEAKERS - {"theo"})


def test_takes_decide_the_split(splits):
    takes = {split: {name(p)[2] for p in parts(utterances)} for split, utterances in splits.items()}
    assert takes == {
        "train": set(range(5, 45)),
        "dev": set(range(45, 50)),
        "test_known": set(range(5)),
        "test_unseen": set(range(50)),
    }


def test_strings_are_1_to_7_digits_of_one_speaker(splits):
    for utterances in splits.values():
        for utterance in utterances:
            digits, speakers, _ = zip(*map(name, utterance.audio_paths), strict=True)
            assert 1 <= len(digits) <= 7
            assert set(speakers) == {utterance.speaker}
            assert utterance.transcript == " ".join(WORDS[digit] for digit in digits)
            assert len(set(utterance.audio_paths)) == len(digits)
            pauses = utterance.pauses_seconds
            assert len(pauses) == len(digits) - 1
            assert all(0.05 <= pause <= 0.4 for pause in pauses)


def test_training_strings_are_balanced_and_all_different(splits):
    train = splits["train"]
    assert len(train) == 9000
    assert len({utterance.audio_paths for utterance in train}) == 9000
    lengths = collections.Counter(len(utterance.audio_paths) for utterance in train)
    assert set(lengths) == set(range(1, 8))
    assert min(lengths.values()) > 350
    speakers = collections.Counter(utterance.speaker for utterance in train)
    assert len(speakers) == 5
    assert min(speakers.values()) > 500
    digits = collections.Counter(name(path)[0] for path in parts(train))
    assert min(digits.values()) > 0.09 * sum(digits.values())
    assert len(set(parts(train))) > 0.99 * 5 * 40 * 10


@pytest.mark.parametrize(
    ("split", "count"), [("dev", 250), ("test_known", 250), ("test_unseen", 500)]
)
def test_each_recording_is_tested_alone_and_in_a_string(splits, split, count):
    utterances = splits[split]
    alone = [u.audio_paths[0] for u in utterances if len(u.audio_paths) == 1]
    joined = parts(u for u in utterances if len(u.audio_paths) > 1)
    assert len(alone) == len(set(alone)) == count
    assert len(joined) == len(set(joined))
    left_out = set(alone) - set(joined)
    assert set(joined) <= set(alone)
    without_partner = collections.Counter(name(path)[1] for path in left_out)
    assert all(number == 1 for number in without_partner.values())
    lengths = {len(u.audio_paths) for u in utterances}
    assert lengths == set(range(1, 8))


def test_durations_are_those_of_the_joined_audio(splits):
    for split, utterances in splits.items():
        for utterance in utterances[:: 20 if split == "train" else 4]:
            samples = audio.load_utterance(utterance, RATE)
            # Rounded to 1 ms, and each pause to a sample.
            assert utterance.duration_seconds == pytest.approx(len(samples) / RATE, abs=1.5e-3)


def test_joined_recordings_stand_in_order_with_silence_between(splits):
    utterance = next(u for u in splits["dev"] if len(u.audio_paths) == 3)
    first, second, third = (audio.load(path, RATE) for path in utterance.audio_paths)
    silences = [np.zeros(round(pause * RATE), np.float32) for pause in utterance.pauses_seconds]
    expected = np.concatenate([first, silences[0], second, silences[1], third])
    np.testing.assert_array_equal(audio.load_utterance(utterance, RATE), expected)


def test_splits_are_the_same_each_time(recordings, splits):
    assert digit_strings.splits(recordings, "theo") == splits


@pytest.mark.parametrize("speaker", ["george", "yweweler"])
def test_any_speaker_can_be_left_out(recordings, speaker):
    found = digit_strings.splits(recordings, speaker)
    speakers = {split: {u.speaker for u in utterances} for split, utterances in found.items()}
    assert speakers.pop("test_unseen") == {speaker}
    assert all(others == SPEAKERS - {speaker} for others in speakers.values())


def test_an_unseen_speaker_must_occur(recordings):
    with pytest.raises(UserError) as error:
        digit_strings.splits(recordings, "teo")
    assert str(error.value) == (
        "no recordings of the unseen speaker 'teo' and another one; there are george, jackson, "
        "lucas, nicolas, theo, yweweler"
    )
    theo = [r for r in recordings if r.speaker == "theo"]
    with pytest.raises(UserError, match="'theo' and another one; there are theo$"):
        digit_strings.splits(theo, "theo")


def test_an_incomplete_folder_is_named(recordings):
    some = [r for r in recordings if r.speaker != "lucas" or (r.digit == 3 and r.take < 11)]
    with pytest.raises(UserError) as error:
        digit_strings.splits(some, "theo")
    assert str(error.value) == (
        "speaker 'lucas' has 6 recordings to train on, strings need 7; complete the folder"
    )


def test_a_folder_without_recordings_is_named(tmp_path):
    with pytest.raises(UserError) as error:
        digit_strings.read(tmp_path)
    assert str(error.value) == f"{tmp_path}: no .flac recordings; name the folder that holds them"


@pytest.mark.parametrize("wrong", ["theo_1_2", "1_theo", "12_theo_3", "1__2", "1_theo_x", "noise"])
def test_a_file_of_another_name_is_named(tmp_path, digits_folder, wrong):
    shutil.copy(digits_folder / "1_theo_2.flac", tmp_path / "1_theo_2.flac")
    shutil.copy(digits_folder / "1_theo_2.flac", tmp_path / f"{wrong}.flac")
    with pytest.raises(UserError) as error:
        digit_strings.read(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/{wrong}.flac: not named DIGIT_SPEAKER_TAKE.flac; rename or remove it"
    )


def test_a_file_that_is_no_sound_is_named(tmp_path):
    (tmp_path / "1_theo_2.flac").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(AudioError, match=r"1_theo_2.flac: is a Git LFS pointer, not audio; run"):
        digit_strings.read(tmp_path)


def test_a_speaker_may_have_underscores_in_the_name(tmp_path, digits_folder):
    shutil.copy(digits_folder / "1_theo_2.flac", tmp_path / "1_theo_b_2.flac")
    (recording,) = digit_strings.read(tmp_path)
    assert (recording.digit, recording.speaker, recording.take) == (1, "theo_b", 2)
