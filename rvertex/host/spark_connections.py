"""Spark's own connections: the address of its Java, what that says, if tasks travel encrypted."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import tempfile
from typing import TYPE_CHECKING

from rstream.errors import UsageError, error_class
from rstream.transport import tls

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
#: Spark's sockets have names of 42 letters; Java takes a little less than the system does.
_SOCKET_NAME = "x" * 46
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host")
#: Any of these set to "true" encrypts Spark's remote calls, by which tasks travel.
ENCRYPTING = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)


@error_class
class PlainSparkError(UsageError):
    """Spark sends tasks in the clear, even if our own connections are encrypted."""

    master: str

    message = (
        "STREAMSCOPE_TLS is set, but Spark at {master} does not encrypt its own connections, "
        "and the job's secret travels inside its tasks: set spark.authenticate and "
        "spark.network.crypto.enabled to true (or spark.ssl.rpc.enabled), or unset "
        "STREAMSCOPE_TLS"
    )


def silence_dead_java() -> None:
    """Have Py4J not print a traceback when Java dies within a call: the call raises, too.

    It logs by the root logger, which prints to standard error by default.
    """
    logging.getLogger().addFilter(_is_said_by_nobody_else)


def _is_said_by_nobody_else(record: logging.LogRecord) -> bool:
    return not (record.msg == "Exception while sending command." and "py4j" in record.pathname)


def is_local(master: str) -> bool:
    """Whether everything that Spark starts for ``master`` is on this machine."""
    return master.startswith("local")


def loopback_settings(master: str, is_set: Callable[[str], bool]) -> dict[str, str]:
    """Settings that keep a local Java off the network, unless the user has set its address.

    By default it listens at the address of the machine's name, where others reach it.
    """
    is_said = "SPARK_LOCAL_IP" in os.environ or any(map(is_set, _ADDRESSES))
    return {} if is_said or not is_local(master) else dict.fromkeys(_ADDRESSES, LOOPBACK)


def check_encrypted(master: str, setting: Callable[[str], str | None]) -> None:
    """With encryption on, refuse to send the secret over a connection that has none.

    Raises:
        PlainSparkError: it would.
    """
    if not tls.is_on() or is_local(master):
        return
    if not any((setting(key) or "").lower() == "true" for key in ENCRYPTING):
        raise PlainSparkError(master)


def local_sockets(master: str) -> dict[str, str]:
    """Settings that have Java and its Python workers on this machine talk over Unix sockets.

    Over TCP the small messages at the start of a task wait for each other's acknowledgement, 40 ms
    before a host begins. Where no socket can be had, or PySpark's PYSPARK_UDS_MODE says no, there
    are no settings, which means TCP.
    """
    is_wanted = os.environ.get("PYSPARK_UDS_MODE", "true").lower() == "true"
    if not is_wanted or not re.match(r"local(\[|$)", master):
        return {}
    try:
        folder = tempfile.mkdtemp(prefix="streamscope-spark-")
    except OSError:
        return {}
    path = os.path.join(folder, _SOCKET_NAME)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        os.unlink(path)
    except (OSError, AttributeError):  # there may be no AF_UNIX
        shutil.rmtree(folder, ignore_errors=True)
        return {}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": folder,
    }
