"""What every service needs to run: settings, bus, API client, telemetry, health. No domain."""
