"""The fault campaign against the real commands: kills, interrupts, damaged files, bad requests, full disks, changing images."""
