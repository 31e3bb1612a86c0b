"""What a result came from: versions, revision, devices."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

import tensorflow as tf

_PACKAGES = (
    "ds2_tf",
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-io",
    "keras",
    "numpy",
    "scipy",
    "soundfile",
    "soxr",
)


def record(path: str | os.PathLike, **facts: Any) -> None:
    """Appends a line of JSON about this process to a file, one for each start of a run.

    Args:
      path: the file, usually provenance.jsonl of a workdir.
      **facts: what else to write.
    """
    row = {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "git_revision": git_revision(),
        "packages": versions(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "gpus": [_name(gpu) for gpu in tf.config.list_physical_devices("GPU")],
        **facts,
    }
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def versions() -> dict[str, str]:
    """Returns the versions of the packages that a result depends on, where installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> str:
    """Returns the commit of the clone that this package lies in, "+changes" added if it differs.

    Without git or a clone it is "", and so in a clone of something else.
    """
    folder = pathlib.Path(__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", __file__)
        revision = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return ""
    return revision + ("+changes" if changed else "")


def _git(folder: pathlib.Path, *arguments: str) -> str:
    result = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return result.stdout.strip()


def _name(gpu: tf.config.PhysicalDevice) -> str:
    return tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
