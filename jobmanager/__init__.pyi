"""The public names and their modules, which are imported when a name is first used."""

from jobmanager.config import JobConfig as JobConfig
from jobmanager.delivery.answer import read_table as read_table
from jobmanager.driver.job import Job as Job
from jobmanager.driver.running.batch.validate import (
    Comparison as Comparison,
    collect_batch as collect_batch,
)
from jobmanager.driver.running.collecting import collect as collect
from jobmanager.driver.running.rows import head as head, show as show
from jobmanager.driver.running.run import resume as resume, run as run
from jobmanager.driver.running.side_output import (
    read_dead_letters as read_dead_letters,
    read_late as read_late,
)
from jobmanager.errors import (
    BadRowsWarning as BadRowsWarning,
    JobExistsError as JobExistsError,
    JobFailedError as JobFailedError,
    JobFormatError as JobFormatError,
    JobRunningError as JobRunningError,
    LateRowsWarning as LateRowsWarning,
    NoJobError as NoJobError,
    OutputTakenError as OutputTakenError,
)
from jobmanager.replay.replaying import replay as replay
from jobmanager.replay.rows.diffing import diff as diff
from jobmanager.replay.rows.whys import why as why
from jobmanager.replay.state_at import read_state as read_state
from jobmanager.storage.shown import status as status
