"""Running a plan: Ray schedules, one process per engine measures, the driver writes."""
