"""The error that a user can cause, told in one line."""


class UserError(Exception):
    """Bad input or a wrong setting.

    Its message is a single line that names the file, the line or the option, the reason and the
    remedy. Programs print it without a traceback and exit with status 1.
    """
