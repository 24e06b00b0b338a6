"""Run the placer: `python -m services.placer`."""

from services.placer.app import place
from services.placer.settings import PlacerSettings
from services.runtime.lifecycle import main

if __name__ == "__main__":
    main("placer", PlacerSettings, place)
