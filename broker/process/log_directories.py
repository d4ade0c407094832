"""Log directories that cannot be used, found before the broker starts, so that the reason names the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process import pid_file
from sordini.storage import checkpoints, names

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config
    from sordini.storage.disk import Disk


class DirectoryRefused(Exception):
    """A log directory is in use, or cannot be made; the text names the key, and the other broker's process."""


def check_log_directories(disk: Disk, config: Config) -> None:
    """Make the log directories. Raises ConfigError for a file in place of one, or one of Apache Kafka's KRaft mode.

    Raises DirectoryRefused for one that another broker uses; and without ZooKeeper, where the first one holds the
    coordination store, if that cannot be made. Others may be on a broken disk, and are left to the log manager.
    """
    key = "log.dir" if config.log_dirs is None else "log.dirs"
    for number, path in enumerate(config.log_directories):
        try:
            disk.make_directory(path)
        except (FileExistsError, NotADirectoryError):
            reason = "is not a directory, and none can be made there: a file is in its place"
            raise ConfigError(f"{key}: {path} {reason}") from None
        except OSError as error:
            if number or config.zookeeper_connect:
                continue
            raise DirectoryRefused(f"{key}: {path} cannot be made: {(error.strerror or str(error)).lower()}") from None
        try:
            checkpoints.read_meta(disk, path)
        except checkpoints.KraftDirectory as error:
            raise ConfigError(f"{key}: {error}") from None
        except (OSError, checkpoints.DamagedFile):
            pass  # The log manager says what is wrong with it.
        for name in (pid_file.NAME, names.LOCK):
            if (holder := _holder(disk, f"{path}/{name}")) is not None:
                raise DirectoryRefused(f"{key}: {path} is in use by another broker, {pid_file.process_text(holder)}")


def _holder(disk: Disk, path: str) -> int | None:
    try:
        return pid_file.holder(disk, path)
    except OSError:
        return None  # There is none, or the start says why it cannot be read.
