"""Set-up of a demo: settings, schedule, folder and load generator."""
