import bz2
import gzip
import hashlib
import lzma
import pathlib
import subprocess
import sys

import pytest

from ds2_tf.decoding import lm_corpus
from ds2_tf.decoding.lm_corpus import Source
from ds2_tf.errors import UserError

TEXT = "Größe\n中文\n\nlast"


def write(path, content):
    path.write_bytes(content)
    return str(path)


def read(path, encoding="utf-8"):
    return list(lm_corpus.lines(path, encoding))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig", "gb18030", "utf-16", "utf-32"])
def test_compressions_and_encodings(tmp_path, compress, encoding):
    path = write(tmp_path / "text", compress(TEXT.encode(encoding)))
    assert read(path, encoding) == ["Größe", "中文", "", "last"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system(tmp_path, encoding, end):
    path = write(tmp_path / "text", end.join(["one", "two", "", "three", ""]).encode(encoding))
    lines = read(path, encoding)
    assert [line for line in lines if line] == ["one", "two", "three"]


def test_a_byte_order_mark_is_no_character(tmp_path):
    path = write(tmp_path / "text", "one\n".encode("utf-8-sig"))
    assert read(path) == ["one"]
    assert read(write(tmp_path / "text.gz", gzip.compress("one\n".encode("utf-8-sig")))) == ["one"]


def test_joined_gzip_files_are_read_to_the_end(tmp_path):
    path = write(tmp_path / "text", gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read(path) == ["one", "two"]


def test_the_source_is_described(tmp_path):
    content = gzip.compress(b"one\ntwo\n" * 50_000)
    path, counted = write(tmp_path / "text.gz", content), []
    source = Source(path)
    lines = list(lm_corpus.lines(path, "utf-8", source, counted.append))
    digest = hashlib.sha256(content).hexdigest()
    assert source == Source(path, len(content), len(lines), digest)
    assert sum(counted) == len(content)
    assert len(lines) == 100_000


def test_standard_input():
    code = "from ds2_tf.decoding import lm_corpus; print(list(lm_corpus.lines('-')))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=lzma.compress("Größe\r\nzwei".encode()),
        capture_output=True,
        check=True,
        cwd=pathlib.Path(__file__).parents[2],
    )
    assert result.stdout.decode().strip() == "['Größe', 'zwei']"


def check_error(path, message, encoding="utf-8"):
    with pytest.raises(UserError) as error:
        read(path, encoding)
    assert str(error.value) == message


def test_another_encoding_is_an_error_with_the_line(tmp_path):
    path = write(tmp_path / "text", b"fine\n" * 3000 + "Größe\n".encode("latin-1"))
    check_error(
        path,
        f"{path}:3001: is not utf-8 (invalid start byte); state the text's encoding with "
        "--encoding",
    )
    path = write(tmp_path / "wide", "Größe\n".encode("utf-16"))
    check_error(path, f"{path}: is UTF-16, not UTF-8; give --encoding=utf-16")
    path = write(tmp_path / "odd", "a\n".encode("utf-16")[:-1])
    check_error(
        path,
        f"{path}:1: is not utf-16 (truncated data); state the text's encoding with --encoding",
        "utf-16",
    )


def test_an_unknown_encoding_is_an_error(tmp_path):
    message = "encoding 'utf8000': is unknown; give one such as utf-8, utf-16, gb18030, latin-1"
    check_error(str(tmp_path), message, "utf8000")


def test_a_missing_file_is_an_error(tmp_path):
    path = str(tmp_path / "none")
    message = f"{path}: cannot be read (No such file or directory); give a text file"
    check_error(path, message)
    with pytest.raises(UserError) as error:
        lm_corpus.num_bytes([path])
    assert str(error.value) == message
    check_error(str(tmp_path), f"{tmp_path}: cannot be read (Is a directory); give a text file")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_a_damaged_file_is_an_error(tmp_path, compress):
    path = write(tmp_path / "text", compress(b"one\n" * 10000)[:-12])
    with pytest.raises(UserError, match=r": is damaged \(.*\); get the file again"):
        read(path)


def test_sizes(tmp_path):
    paths = [write(tmp_path / "one", b"123"), write(tmp_path / "two", b"4567")]
    assert lm_corpus.num_bytes(paths) == 7
    assert lm_corpus.num_bytes([*paths, "-"]) is None
