"""From observations to verdicts; pure but for the file that a history is."""
