"""What of this folder the ordinary suite collects: not the programs, which downstream runs copy elsewhere."""

collect_ignore = ["programs"]
