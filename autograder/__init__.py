"""Asks the questions of the labs, judges the answers, and grades a class."""
