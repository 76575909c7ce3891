"""From counts and clocks to numbers and verdicts; pure."""
