"""The one tool of the agents here."""

import subprocess


def run(command: str) -> str:
    """Runs a command and gives what it prints."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr or "(nothing was printed)"
