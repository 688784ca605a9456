"""The root of the error tree, and the errors of streams.

The three families say who must act: :class:`UsageError` the caller, :class:`OperatingError` the
operator of the machine (a retry may help), :class:`IntegrityError` us (data or determinism is
broken, the job stops). Every error survives pickling: its fields are positional and are passed to
``super().__init__``.
"""

from __future__ import annotations


class StreamEngineError(Exception):
    """Root of every error this project raises on purpose."""


class UsageError(StreamEngineError):
    """The caller asked for something wrong; retrying cannot help."""


class OperatingError(StreamEngineError):
    """The world is wrong (disk, network, process); retrying may help."""


class IntegrityError(StreamEngineError):
    """Data or determinism is broken; the job must stop."""


class SequenceGapError(UsageError):
    """A write would leave a gap before its first sequence number."""

    def __init__(self, stream: str, seq: int, next_seq: int) -> None:
        super().__init__(stream, seq, next_seq)
        self.stream, self.seq, self.next_seq = stream, seq, next_seq

    def __str__(self) -> str:
        return (
            f"stream {self.stream}: write at seq {self.seq} would leave a gap; "
            f"the next seq to write is {self.next_seq}"
        )


class SequenceDiscardedError(UsageError):
    """A read below the low-water mark."""

    def __init__(self, stream: str, seq: int, first_seq: int) -> None:
        super().__init__(stream, seq, first_seq)
        self.stream, self.seq, self.first_seq = stream, seq, first_seq

    def __str__(self) -> str:
        return (
            f"stream {self.stream}: seq {self.seq} was garbage collected; "
            f"the first seq still kept is {self.first_seq}"
        )


class SequenceNotReadyError(UsageError):
    """A registration past the end of what has been written."""

    def __init__(self, stream: str, seq: int, next_seq: int) -> None:
        super().__init__(stream, seq, next_seq)
        self.stream, self.seq, self.next_seq = stream, seq, next_seq

    def __str__(self) -> str:
        return (
            f"stream {self.stream}: seq {self.seq} is past the end; "
            f"the next seq to be written is {self.next_seq}"
        )


class SequenceLostError(OperatingError):
    """An item that was written is neither in memory nor durable: it must be recomputed."""

    def __init__(self, stream: str, seq: int) -> None:
        super().__init__(stream, seq)
        self.stream, self.seq = stream, seq

    def __str__(self) -> str:
        return f"stream {self.stream}: seq {self.seq} was lost with its host, recompute it"


class SequenceConflictError(IntegrityError):
    """Two writers gave one sequence number different content (seen in verify mode)."""

    def __init__(self, stream: str, seq: int, kept: str, given: str) -> None:
        super().__init__(stream, seq, kept, given)
        self.stream, self.seq, self.kept, self.given = stream, seq, kept, given

    def __str__(self) -> str:
        return (
            f"stream {self.stream}: seq {self.seq} was written twice with different content, "
            f"first {self.kept}, then {self.given}; the vertex that writes it is not deterministic"
        )


class CorruptSegmentError(IntegrityError):
    """A segment file does not hold what its name and checksum promise."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        words = (repr(word)[1:-1] for word in self.reason.split())  # Arrow quotes bytes it met
        return f"segment {self.path} is corrupt: {' '.join(words)}"


class SegmentFormatError(UsageError):
    """A segment is of a later version than this one can read; nothing is wrong with it."""

    def __init__(self, path: str, found: int, newest: int) -> None:
        super().__init__(path, found, newest)
        self.path, self.found, self.newest = path, found, newest

    def __str__(self) -> str:
        return (
            f"segment {self.path} has format version {self.found}, this version reads up to "
            f"{self.newest}; use the version that wrote it"
        )


class InvalidBatchError(UsageError):
    """A batch is not a batch of items of this stream."""

    def __init__(self, stream: str, reason: str) -> None:
        super().__init__(stream, reason)
        self.stream, self.reason = stream, reason

    def __str__(self) -> str:
        return f"stream {self.stream}: not a batch of its items: {self.reason}"


class BackPressureError(OperatingError):
    """A writer waited longer than its limit for room in the volatile tail."""

    def __init__(self, stream: str, waited_s: float) -> None:
        super().__init__(stream, waited_s)
        self.stream, self.waited_s = stream, waited_s

    def __str__(self) -> str:
        return f"stream {self.stream}: the tail stayed full for {self.waited_s:g} s"


class StoreError(OperatingError):
    """The blob store failed after all retries."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"store: {self.path}: {self.reason}"


class TlsError(UsageError):
    """The folder with the keys for encrypted lines cannot be used."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder, self.reason = folder, reason

    def __str__(self) -> str:
        return (
            f"STREAMSCOPE_TLS={self.folder}: {self.reason}; it names a folder with cert.pem and "
            "key.pem of this host and ca.pem, on every host, or is not set"
        )


class PlainLineError(UsageError):
    """Of the two ends of a line only one encrypts."""

    def __init__(self, address: str, is_encrypted: bool) -> None:
        super().__init__(address, is_encrypted)
        self.address, self.is_encrypted = address, is_encrypted

    def __str__(self) -> str:
        here, there = ("not set", "encrypts") if self.is_encrypted else ("set", "does not encrypt")
        return (
            f"{self.address} {there}, but STREAMSCOPE_TLS is {here} here; set it on every host of "
            "the job, or on none"
        )


class UnauthorizedError(UsageError):
    """A call without the job's secret."""

    def __str__(self) -> str:
        return "the call did not carry this job's secret"
