"""`python -m services.watcher` runs the watcher."""

from services.runtime.lifecycle import main
from services.watcher.app import run
from services.watcher.settings import WatcherSettings

if __name__ == "__main__":
    main("watcher", WatcherSettings, run)
