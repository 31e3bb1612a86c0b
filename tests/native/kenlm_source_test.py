import hashlib
import io
import tarfile

import pytest

from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm_source

REMEDY = (
    "get kenlm-0.3.0.tar.gz from https://pypi.org/project/kenlm/0.3.0/#files on a machine that "
    "can, and set DS2_KENLM_SDIST to its path"
)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DS2_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DS2_KENLM_SDIST", raising=False)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A small archive that passes for KenLM's."""
    path = tmp_path / "elsewhere.tar.gz"
    with tarfile.open(path, "w:gz") as content:
        entry = tarfile.TarInfo("kenlm-0.3.0/lm/model.cc")
        entry.size = 5
        content.addfile(entry, io.BytesIO(b"int x"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(kenlm_source, "SHA256", digest)
    return path


def fake_python(tmp_path, monkeypatch, script):
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(path))


def left(folder):
    return sorted(path.name for path in (folder / "cache").iterdir() if path.suffix != ".lock")


def test_a_named_archive_is_unpacked_once(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("DS2_KENLM_SDIST", str(archive))
    folder = kenlm_source.folder()
    assert (folder / "lm" / "model.cc").read_text() == "int x"
    assert left(tmp_path) == [folder.name]
    archive.unlink()
    assert kenlm_source.folder() == folder


def test_pip_gets_the_published_version(archive, tmp_path, monkeypatch):
    fake_python(
        tmp_path,
        monkeypatch,
        f'echo "$@" > {tmp_path}/call\n'
        'for a; do case "$a" in --dest=*) dest="${a#--dest=}";; esac; done\n'
        f'cp {archive} "$dest/kenlm-0.3.0.tar.gz"',
    )
    assert (kenlm_source.folder() / "lm" / "model.cc").exists()
    call = (tmp_path / "call").read_text()
    assert call.startswith("-m pip download ")
    assert "--no-deps --no-binary=:all:" in call
    assert call.endswith(" kenlm==0.3.0\n")


def check_error(message):
    with pytest.raises(UserError) as error:
        kenlm_source.folder()
    assert str(error.value) == message


def test_another_archive_is_refused(archive, tmp_path, monkeypatch):
    digest = kenlm_source.SHA256
    with open(archive, "ab") as file:
        file.write(b"more")
    monkeypatch.setenv("DS2_KENLM_SDIST", str(archive))
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    check_error(
        f"{archive}: is not kenlm-0.3.0.tar.gz as published (its SHA-256 is {found}, not "
        f"{digest}); {REMEDY}"
    )
    assert left(tmp_path) == []


def test_a_missing_archive_is_named(monkeypatch):
    monkeypatch.setenv("DS2_KENLM_SDIST", "/nowhere/kenlm.tar.gz")
    check_error(f"/nowhere/kenlm.tar.gz: cannot be read (No such file or directory); {REMEDY}")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            'echo "WARNING: retrying" >&2; echo "ERROR: No matching distribution" >&2; exit 1',
            "ERROR: No matching distribution",
        ),
        ('echo "No module named pip" >&2; exit 1', "No module named pip"),
        ("exit 3", "exit status 3"),
    ],
)
def test_without_network_or_pip_the_remedy_is_told(tmp_path, monkeypatch, script, reason):
    fake_python(tmp_path, monkeypatch, script)
    check_error(f"kenlm-0.3.0.tar.gz: pip cannot fetch it ({reason}); {REMEDY}")
    assert left(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DS2_TF_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(compiling.BuildError, match="set DS2_TF_CACHE to another folder"):
        kenlm_source.folder()
