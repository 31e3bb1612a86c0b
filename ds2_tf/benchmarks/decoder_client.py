"""Other beam searches in a process of their own: their NumPy needn't be ours."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ds2_tf.benchmarks.posteriors import Posteriors
from ds2_tf.errors import UserError

_PEERS = pathlib.Path(__file__).with_name("decoder_peers.py")
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


@dataclasses.dataclass(frozen=True)
class Decoded:
    """What a system made of some utterances.

    Attributes:
      texts: one of each.
      cpu_seconds: of the process, for each.
    """

    texts: list[str]
    cpu_seconds: list[float]


class DecoderClient:
    """The running process; see `decoder_peers` for what it can do."""

    def __init__(self, process: subprocess.Popen, folder: str, lm: str, words: Sequence[str]):
        self._process = process
        self._folder = pathlib.Path(folder)
        self._saved: dict[int, tuple[str, Posteriors]] = {}
        self._lm = os.path.abspath(lm)
        self._words = str(self._folder / "words.txt")
        pathlib.Path(self._words).write_text("\n".join(words) + "\n", encoding="utf-8")
        self.systems: list[str] = self._ask(systems=True)["found"]

    def choose(self, systems: Sequence[str]) -> None:
        """Leaves some of `systems`; none named leaves all.

        Raises:
          UserError: for one that the interpreter lacks.
        """
        for name in systems:
            if name not in self.systems:
                known = ", ".join(self.systems) or "none"
                raise UserError(f"--peers: {name!r} isn't installed there; what is: {known}")
        self.systems = list(systems) or self.systems

    def prepare(
        self, name: str, system: str, posteriors: Posteriors, settings: Mapping[str, Any]
    ) -> None:
        """Makes a decoder for a set of utterances, ready to run under a name."""
        if id(posteriors) not in self._saved:
            path = self._folder / f"{len(self._saved)}.npz"
            posteriors.save(path)
            self._saved[id(posteriors)] = str(path), posteriors  # Kept, so that its id stays its.
        self._ask(
            prepare=name,
            system=system,
            posteriors=self._saved[id(posteriors)][0],
            lm=self._lm,
            words=self._words,
            settings=dict(settings),
        )

    def run(self, name: str, first: int, count: int) -> Decoded:
        """Decodes some utterances of the set with what was prepared under the name."""
        answer = self._ask(run=name, first=first, count=count)
        return Decoded(answer["texts"], answer["cpu_seconds"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it ended; see its messages above"}
        if "error" in answer:
            raise UserError(f"the other decoders' process: {answer['error']}")
        return answer


@contextlib.contextmanager
def start(python: str, lm: str, words: Sequence[str]) -> Iterator[DecoderClient]:
    """Runs the process, with one thread.

    Args:
      python: an interpreter with kenlm and the decoders to measure.
      lm: KenLM file.
      words: the lexicon of all systems.

    Raises:
      UserError: the interpreter doesn't run or lacks what is asked for.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            process = subprocess.Popen(
                [python, str(_PEERS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **_ONE_THREAD},
            )
        except OSError as error:
            raise UserError(f"--peer_python: {python}: {error.strerror}") from error
        with process:
            try:
                yield DecoderClient(process, folder, lm, words)
            finally:
                assert process.stdin is not None
                process.stdin.close()
