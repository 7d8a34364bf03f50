"""A request that the server refuses, in the provider's own form of an error."""

from __future__ import annotations

from policies import Json


class RequestProblemError(Exception):
    """What is wrong with a request. Stays inside the script server: clients see its body."""

    def __init__(
        self, message: str, *, status: int = 400, param: str = "", code: str = ""
    ) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        super().__init__(message)

    def to_json(self) -> Json:
        """Return the body: `error` with message, type, param and code."""
        return {
            "error": {
                "message": self.message,
                "type": "invalid_request_error",
                "param": self.param or None,
                "code": self.code or None,
            }
        }
