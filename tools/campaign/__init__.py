"""The fault campaign: kills, damaged files, malformed requests, full disks and images that change, against the real commands."""
