"""What is wrong with a container."""


class ContainerError(Exception):
    """A header that contradicts itself, or bytes that end before what it claims.

    Attributes:
      reason: "truncated", "bad_header" or "unreadable".
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])
