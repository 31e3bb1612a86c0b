import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess

import pytest
import tensorflow as tf

from ds2_tf import provenance


def git(folder, *arguments):
    identity = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    result = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of a repository that holds the module, which believes that it lies there."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    original = tmp_path / "original"
    (original / "ds2_tf").mkdir(parents=True)
    shutil.copy(provenance.__file__, original / "ds2_tf" / "provenance.py")
    (original / "README.md").write_text("first\n")
    git(original, "init", "--quiet")
    git(original, "add", ".")
    git(original, "commit", "--quiet", "--message=First")
    git(tmp_path, "clone", "--quiet", str(original), "clone")
    monkeypatch.setattr(
        provenance, "__file__", str(tmp_path / "clone" / "ds2_tf" / "provenance.py")
    )
    return tmp_path / "clone"


def test_the_revision_of_a_clone(clone):
    revision = git(clone.parent / "original", "rev-parse", "HEAD")
    assert len(revision) == 40
    assert provenance.git_revision() == revision
    (clone / "new.txt").write_text("runs and data beside the code are no change of it\n")
    assert provenance.git_revision() == revision
    git(clone, "commit", "--quiet", "--allow-empty", "--message=Second")
    assert provenance.git_revision() == git(clone, "rev-parse", "HEAD") != revision


@pytest.mark.parametrize("staged", [False, True])
def test_a_clone_that_differs_from_its_revision(clone, staged):
    revision = git(clone, "rev-parse", "HEAD")
    (clone / "README.md").write_text("second\n")
    if staged:
        git(clone, "add", ".")
    assert provenance.git_revision() == f"{revision}+changes"


def test_outside_of_git_there_is_no_revision(clone, monkeypatch):
    shutil.rmtree(clone / ".git")
    assert provenance.git_revision() == ""
    monkeypatch.setattr(provenance, "__file__", str(clone / "gone" / "provenance.py"))
    assert provenance.git_revision() == ""


def test_without_git_there_is_no_revision(clone, monkeypatch):
    assert provenance.git_revision()
    monkeypatch.setenv("PATH", str(clone))
    assert provenance.git_revision() == ""


def test_a_package_installed_inside_of_another_clone_has_no_revision(clone, monkeypatch):
    """A virtual environment in the folder of a project: the project's commit says nothing."""
    installed = clone / ".venv" / "ds2_tf"
    installed.mkdir(parents=True)
    shutil.copy(clone / "ds2_tf" / "provenance.py", installed)
    monkeypatch.setattr(provenance, "__file__", str(installed / "provenance.py"))
    assert provenance.git_revision() == ""


def test_versions_are_those_that_are_installed():
    found = provenance.versions()
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert found["ds2_tf"] == importlib.metadata.version("ds2_tf")
    assert tf.__version__ in (found.get("tensorflow"), found.get("tensorflow-cpu"))


def test_what_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(provenance, "_PACKAGES", ("numpy", "ds2_no_such_package"))
    assert provenance.versions() == {"numpy": importlib.metadata.version("numpy")}


def test_every_start_adds_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "git_revision", lambda: "abc+changes")
    path = tmp_path / "run" / "provenance.jsonl"
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    provenance.record(path, step=0)
    provenance.record(path, step=120, note="größer")
    after = datetime.datetime.now(datetime.UTC)
    lines = path.read_text(encoding="utf-8").splitlines()
    first, second = map(json.loads, lines)
    assert "größer" in lines[1]
    assert (first.pop("step"), second.pop("step"), second.pop("note")) == (0, 120, "größer")
    for row in (first, second):
        assert len(row.pop("gpus")) == len(tf.config.list_physical_devices("GPU"))
        assert before <= datetime.datetime.fromisoformat(row.pop("started")) <= after
        assert row == {
            "git_revision": "abc+changes",
            "packages": provenance.versions(),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        }


def test_gpus_are_named_by_their_model(tmp_path, monkeypatch):
    """With faked devices; of some TensorFlow knows no more than their number."""
    details = {"gpu0": {"device_name": "NVIDIA H200"}, "gpu1": {}}
    monkeypatch.setattr(
        tf.config,
        "list_physical_devices",
        lambda kind: [tf.config.PhysicalDevice(name, kind) for name in details],
    )
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details[gpu.name])
    provenance.record(tmp_path / "p.jsonl")
    assert json.loads((tmp_path / "p.jsonl").read_text())["gpus"] == ["NVIDIA H200", "gpu1"]
