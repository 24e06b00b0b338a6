"""Run the autoscaler: `python -m services.autoscaler`."""

from services.autoscaler.app import scale
from services.autoscaler.settings import AutoscalerSettings
from services.runtime.lifecycle import main

if __name__ == "__main__":
    main("autoscaler", AutoscalerSettings, scale)
