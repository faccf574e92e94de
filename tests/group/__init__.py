"""Tests of the membership of rooms."""
