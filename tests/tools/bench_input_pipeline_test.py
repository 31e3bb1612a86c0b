import soundfile
from ml_collections import ConfigDict

from ds2_tf import alphabet, config, manifest
from ds2_tf.benchmarks import input_costs, measurement, recordings
from tests.benchmark_run import RECORDINGS, TINY_RUN, program_status

ENGLISH = alphabet.english()
RATE_HZ = 8000


def test_every_format_is_measured_with_and_without_augmentation(tmp_path):
    run = config.resolve(ConfigDict(TINY_RUN))
    usable = recordings.trainable(run, ENGLISH, manifest.read(RECORDINGS))[:4]
    formats = {
        name: recordings.copies(usable, name, RATE_HZ, tmp_path) for name in recordings.FORMATS
    }
    rows = input_costs.cost_rows("tiny", input_costs.cpu_seconds_an_hour(run, ENGLISH, formats, 1))
    names = ("wav", "flac", "mp3", "opus")
    assert [row.case for row in rows] == [
        f"tiny {name}{augmented}" for name in names for augmented in ("", " augmented")
    ]
    assert all(row.metric == "CPU seconds an hour of audio" and row.ours > 0 for row in rows)


def test_training_is_measured_with_files_on_the_disk_and_in_memory(tmp_path):
    run = config.resolve(ConfigDict(TINY_RUN))
    usable = recordings.trainable(run, ENGLISH, manifest.read(RECORDINGS))[:8]
    copies = recordings.copies(usable, "flac", RATE_HZ, tmp_path)
    waits = input_costs.waits(run, ENGLISH, copies, 2)
    assert set(waits) == {"cold", "cached"}
    assert all(wait.steps == 2 and wait.first_seconds > 0 for wait in waits.values())
    rows = input_costs.wait_rows("tiny", waits)
    shares = [row.ours for row in rows if row.metric == "input_stall_share"]
    assert len(shares) == 2
    assert all(0 <= share < 1 for share in shares)
    table = measurement.table(rows).splitlines()
    assert len(table) == len(rows)
    assert table[0].startswith("tiny cold files")


def test_copies_hold_the_same_audio_in_their_format(tmp_path):
    utterance = manifest.read(RECORDINGS)[0]
    for name, (container, subtype) in recordings.FORMATS.items():
        (copy,) = recordings.copies([utterance], name, RATE_HZ, tmp_path)
        info = soundfile.info(copy.audio_paths[0])
        assert (info.format, info.subtype, info.channels) == (container, subtype, 1)
        assert abs(info.frames / info.samplerate - utterance.duration_seconds) < 0.2
        recordings.drop_from_cache([copy])


def test_an_unknown_format_is_a_usage_error():
    assert program_status(
        "bench_input_pipeline", "--config=configs/digits.py", "--formats=wav,m4a"
    ) == (2, "error: --formats: unknown 'm4a'; known: wav, flac, mp3, opus; see --help\n")
