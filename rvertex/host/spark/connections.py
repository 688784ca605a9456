"""Spark's own connections: addresses of its JVM, Unix sockets, and checks of their encryption."""

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
#: A name that is a little longer than Spark's socket names, which have 42 characters. Java allows
#: slightly shorter paths than the system does.
_SOCKET_NAME = "x" * 46
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host")
#: Settings of Spark, of which one must be "true" to encrypt its remote calls, which transport
#: tasks.
ENCRYPTING = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)


@error_class
class PlainSparkError(UsageError):
    """Spark sends tasks unencrypted, although the job's own connections are encrypted."""

    master: str

    message = (
        "STREAMSCOPE_TLS is set, but Spark at {master} does not encrypt its own connections, "
        "and the job's secret travels inside its tasks: set spark.authenticate and "
        "spark.network.crypto.enabled to true (or spark.ssl.rpc.enabled), or unset "
        "STREAMSCOPE_TLS"
    )


def silence_dead_java() -> None:
    """Suppress Py4J's traceback when the JVM dies during a call: the call itself raises an error.

    Py4J logs through the root logger, which prints to standard error by default.
    """
    logging.getLogger().addFilter(_keeps_record)


def _keeps_record(record: logging.LogRecord) -> bool:
    return not (record.msg == "Exception while sending command." and "py4j" in record.pathname)


def is_local(master: str) -> bool:
    """Return whether Spark starts all processes for ``master`` on this machine."""
    return master.startswith("local")


def loopback_settings(master: str, is_set: Callable[[str], bool]) -> dict[str, str]:
    """Return settings that bind a local JVM to loopback, unless the user has set its address.

    By default the JVM listens at the address of the machine's host name, which other machines can
    reach.
    """
    is_configured = "SPARK_LOCAL_IP" in os.environ or any(map(is_set, _ADDRESSES))
    return {} if is_configured or not is_local(master) else dict.fromkeys(_ADDRESSES, LOOPBACK)


def check_encrypted(master: str, setting: Callable[[str], str | None]) -> None:
    """Check that Spark encrypts its own connections to a cluster, if this process encrypts its own.

    Raises:
        PlainSparkError: it does not, so the job's secret would be sent unencrypted.
    """
    if not tls.is_on() or is_local(master):
        return
    if not any((setting(key) or "").lower() == "true" for key in ENCRYPTING):
        raise PlainSparkError(master)


def local_sockets(master: str) -> dict[str, str]:
    """Return settings that connect the JVM and its Python workers on this machine by Unix sockets.

    Over TCP the small messages at the start of a task wait for acknowledgements, which delays each
    host by 40 ms. The result is empty, so that Spark uses TCP, if a socket cannot be created or if
    PySpark's PYSPARK_UDS_MODE disables sockets.
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
    except (OSError, AttributeError):  # AttributeError: the platform has no AF_UNIX
        shutil.rmtree(folder, ignore_errors=True)
        return {}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": folder,
    }
