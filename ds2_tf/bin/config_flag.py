"""The flag --config: a file of configs/ whose keys can all be set on the command line."""

from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from ds2_tf.bin import program


class _Filled(flags.ArgumentParser):
    """Adds the defaults of what a config leaves out, so that flags can override these too."""

    def __init__(self, files: flags.ArgumentParser) -> None:
        super().__init__()
        self._files = files

    def parse(self, argument: Any) -> ml_collections.ConfigDict:
        """Returns the config that a path names."""
        values = self._files.parse(argument)
        program.load_tensorflow()
        from ds2_tf import config

        try:
            return config.with_defaults(values).lock()
        except Exception as error:  # A file that is missing or fails says so when it is used.
            raise program.UsageError(f"--config: {program.in_one_line(error)}") from error

    def flag_type(self) -> str:
        """Returns the type for help texts."""
        return self._files.flag_type()


def define(help_text: str) -> flags.FlagHolder:
    """Defines --config; its value is a locked ConfigDict with every key."""
    holder = config_flags.DEFINE_config_file("config", None, help_text)
    flag = flags.FLAGS[holder.name]
    flag.parser = _Filled(flag.parser)
    return holder
