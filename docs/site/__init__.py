"""What ``make site`` makes of docs/: pages from the code, links, and checks."""
