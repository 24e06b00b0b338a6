"""The binder as a process: `python -m services.binder`."""

from services.binder.app import bind
from services.binder.settings import BinderSettings
from services.runtime.lifecycle import main

if __name__ == "__main__":
    main("binder", BinderSettings, bind)
