import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from ds2_tf import atomic
from ds2_tf.errors import UserError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_is_utf_8_with_unix_line_ends(tmp_path):
    path = tmp_path / "a.txt"
    with atomic.open_for_write(path) as file:
        file.write("zwölf\n二\n")
    assert path.read_bytes() == "zwölf\n二\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_bytes(tmp_path):
    path = tmp_path / "a.bin"
    with atomic.open_for_write(str(path), "wb") as file:
        file.write(b"\r\n\x00\xff")
    assert path.read_bytes() == b"\r\n\x00\xff"


def test_the_old_file_stands_until_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic.open_for_write(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("old", ["old", None])
def test_an_error_leaves_the_old_file_or_none(tmp_path, error, old):
    path = tmp_path / "a.txt"
    if old is not None:
        path.write_text(old)

    def write_half():
        with atomic.open_for_write(path) as file:
            file.write("half a")
            raise error

    with pytest.raises(error):
        write_half()
    assert names(tmp_path) == ([] if old is None else ["a.txt"])
    assert old is None or path.read_text() == old


def test_kill_9_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import os, signal, sys\n"
        "from ds2_tf import atomic\n"
        "with atomic.open_for_write(sys.argv[1]) as file:\n"
        "    file.write('half a')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    with atomic.open_for_write(path) as file:
        file.write("new")
    assert path.read_text() == "new"


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    path = tmp_path / "a.txt"
    before = os.umask(0o027)
    try:
        with atomic.open_for_write(path) as file:
            file.write("x")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_folders_are_made(tmp_path, monkeypatch):
    with atomic.open_for_write(tmp_path / "b" / "c" / "a.txt") as file:
        file.write("x")
    assert (tmp_path / "b" / "c" / "a.txt").read_text() == "x"
    monkeypatch.chdir(tmp_path)
    with atomic.open_for_write("plain.txt") as file:
        file.write("y")
    assert (tmp_path / "plain.txt").read_text() == "y"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "a.txt"
    with pytest.raises(UserError) as error, atomic.open_for_write(path):
        pass
    assert str(error.value) in {
        f"{path}: cannot be written ({why}); choose a folder you may write to"
        for why in ("File exists", "Not a directory")
    }


def test_other_modes(tmp_path):
    with (
        pytest.raises(ValueError, match=r"^mode must be 'w' or 'wb'. Received: 'a'$"),
        atomic.open_for_write(tmp_path / "a.txt", "a"),
    ):
        pass
    assert names(tmp_path) == []


def test_a_folder_is_checked_without_making_it(tmp_path):
    atomic.check_folder(tmp_path / "a" / "b")
    atomic.check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as caught:
        atomic.check_folder(tmp_path / "file" / "run")
    assert str(caught.value) == (
        f"{tmp_path}/file/run: cannot be written (Not a directory); choose a folder you may "
        "write to"
    )


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    path = tmp_path / "file.json"
    with pytest.raises(UserError) as caught, atomic.open_for_write(path) as file:
        file.write("text")
    assert str(caught.value) == (
        f"{path}: cannot be written (No space left on device); make room, then start again"
    )
    assert list(tmp_path.iterdir()) == []
