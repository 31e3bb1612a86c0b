import io

import pytest

from ds2_tf import errors, transcribe, transcribe_files
from ds2_tf.transcribe_files import Recording
from tests.tone_model import ToneModel, speak, write

_TRANSCRIBER = transcribe.Transcriber(ToneModel())


def _transcribe(recordings, write_transcript):
    failures = []
    transcribe_files.transcribe_each(
        _TRANSCRIBER, recordings, write_transcript, lambda error: failures.append(str(error))
    )
    return failures


def test_find_searches_folders_in_order_and_takes_files_as_they_are(tmp_path):
    for name in ("b/2.wav", "b/1.FLAC", "a.mp3", ".hidden.wav", ".git/x.wav", "b/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder = str(tmp_path)
    assert transcribe_files.find(["-", folder, "some/talk.dat"]) == [
        Recording("-", "stdin"),
        Recording(f"{folder}/a.mp3", "a"),
        Recording(f"{folder}/b/1.FLAC", "b/1"),
        Recording(f"{folder}/b/2.wav", "b/2"),
        Recording("some/talk.dat", "talk"),
    ]


def test_find_rejects_a_folder_without_recordings(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(errors.UserError) as error:
        transcribe_files.find([str(tmp_path)])
    assert str(error.value).startswith(f"{tmp_path}: holds no recording (.aif, ")
    assert str(error.value).endswith("; name the files themselves")


def test_one_bad_file_does_not_stop_the_others(tmp_path):
    paths = [write(tmp_path / f"{word}.wav", speak(word)) for word in ("one", "two", "three")]
    (tmp_path / "two.wav").write_bytes(b"RIFF")
    file = io.StringIO()
    failures = _transcribe(
        transcribe_files.find(paths), transcribe_files.to_file(file, "text", with_paths=True)
    )
    assert file.getvalue() == f"{paths[0]}\tone\n{paths[2]}\tthree\n"
    assert len(failures) == 1
    assert failures[0].startswith(f"{paths[1]}: ")
    assert "\n" not in failures[0]


def test_one_file_is_written_without_its_path(tmp_path):
    file = io.StringIO()
    recordings = transcribe_files.find([write(tmp_path / "a.wav", speak("one"))])
    _transcribe(recordings, transcribe_files.to_file(file, "text", with_paths=False))
    assert file.getvalue() == "one\n"


def test_standard_input(tmp_path, monkeypatch):
    path = write(tmp_path / "a.wav", speak("one"))
    file = io.StringIO()
    with open(path) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        _transcribe(
            transcribe_files.find(["-"]), transcribe_files.to_file(file, "text", with_paths=True)
        )
    assert file.getvalue() == "-\tone\n"


def test_a_folder_gets_a_file_for_each_recording(tmp_path):
    write(tmp_path / "in" / "x" / "one.wav", speak("one"))
    write(tmp_path / "in" / "two.wav", speak("two"))
    recordings = transcribe_files.find([str(tmp_path / "in")])
    out = tmp_path / "out"
    assert not _transcribe(recordings, transcribe_files.to_folder(str(out), "text", recordings))
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.*")) == ["two.txt", "x/one.txt"]
    assert (out / "x" / "one.txt").read_text() == "one\n"


def test_two_recordings_with_one_output_are_an_error_before_any_work():
    recordings = transcribe_files.find(["a/x.wav", "b/x.flac"])
    with pytest.raises(errors.UserError) as error:
        transcribe_files.to_folder("out", "srt", recordings)
    assert str(error.value) == (
        "out/x.srt would hold the transcripts of both a/x.wav and b/x.flac; "
        "transcribe them into different folders"
    )
